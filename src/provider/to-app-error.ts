import {
  AppError,
  detailOf,
  type ErrorCode,
  type ErrorExtra,
  errorCatalogue,
} from '../errors/app-error.ts'
import { moneyOutcome } from '../errors/money-outcome.ts'
import {
  commonRows,
  type ErrorRow,
  errorRows,
  isMoneyOperation,
  type ProviderOperation,
  rowsOfRefusal,
} from './error-codes.ts'
import { ProviderError } from './provider-error.ts'

export type { ProviderOperation } from './error-codes.ts'

/**
 * The error that a client gets when a provider call fails. The message is ours and names the provider's code; only
 * about a refused field the provider's own words are passed on, in the details.
 *
 * Money operations state whether money moved (`money-outcome.ts`). If an effect is not excluded, the code is
 * PROVIDER_TIMEOUT, whatever the last answer was.
 */
export function toAppError(
  error: ProviderError,
  operation: ProviderOperation,
  given: GivenFields = {},
): AppError {
  if (isMoneyOperation(operation)) {
    if (error.effect === 'unknown') {
      return build(
        error,
        operation,
        { on: '', code: 'PROVIDER_TIMEOUT' },
        moneyOutcome('callUnanswered'),
      )
    }
    const money = moneyOutcome(situationOf(error, operation))
    return build(error, operation, rowFor(error, operation), money)
  }
  return build(error, operation, rowFor(error, operation), {}, given)
}

/** Values of the ERP's request by their field: the provider may name accepted ones that are like them. */
type GivenFields = Readonly<Record<string, string>>

/** A ProviderError as an AppError; any other error unchanged. */
export function asAppError<E>(
  error: E,
  operation: ProviderOperation,
): AppError | Exclude<E, ProviderError> {
  if (error instanceof ProviderError) return toAppError(error, operation)
  return error as Exclude<E, ProviderError>
}

/** Whether the provider refuses so also what an earlier call of ours has done. */
export function mayBeOurOwn(error: ProviderError, operation: ProviderOperation): boolean {
  const { rows } = rowsOfRefusal(operation, error.status, error.codes)
  return rows.some(({ mayBeOurs }) => mayBeOurs)
}

/** Whether the provider accepts the same request some seconds later. */
export function isRefusedForNow(error: ProviderError, operation: ProviderOperation): boolean {
  const { rows } = rowsOfRefusal(operation, error.status, error.codes)
  return rows.some(({ isForNow }) => isForNow)
}

/** For a call without effect. Only one refusal of a cancel or refund states whether the order was paid. */
function situationOf(error: ProviderError, operation: ProviderOperation) {
  if (operation === 'order.create') return 'chargeNotMade'
  return error.providerCode === 'order_already_canceled' ? 'callOnCanceled' : 'callWithoutEffect'
}

function rowFor(error: ProviderError, operation: ProviderOperation): ErrorRow {
  switch (error.kind) {
    case 'refused':
    case 'unauthorized':
    case 'rate_limited':
      return documentedRow(error, operation) ?? { on: '', code: 'PROVIDER_REJECTED' }
    case 'unreachable':
    case 'ambiguous':
      return { on: '', code: timedOut(error) ? 'PROVIDER_TIMEOUT' : 'PROVIDER_ERROR' }
    case 'invalid_answer':
      return { on: '', code: 'PROVIDER_ERROR' }
    default:
      throw new Error(`unknown kind of failure: ${error.kind satisfies never}`)
  }
}

function timedOut(error: ProviderError): boolean {
  return error.failure === 'timeout' || (error.kind === 'ambiguous' && error.status === null)
}

/** The code of a cause that names a field is the most exact, then the other codes, then the status. */
function documentedRow(error: ProviderError, operation: ProviderOperation): ErrorRow | undefined {
  const known = [...errorRows[operation], ...commonRows]
  const causes = error.codes.slice(1)
  return (
    known.find((row) => row.field && causes.includes(String(row.on))) ??
    rowsOfRefusal(operation, error.status, error.codes).rows[0] ??
    known.find((row) => row.on === error.status)
  )
}

function build(
  error: ProviderError,
  operation: ProviderOperation,
  row: ErrorRow,
  extra: ErrorExtra,
  given: GivenFields = {},
): AppError {
  const limited = row.code === 'RATE_LIMITED'
  return new AppError(row.code, {
    message: sentence(error, operation, row),
    ...(row.field !== undefined && {
      details: [
        detailOf(
          row.field,
          row.fieldReason ?? {
            code: 'PROVIDER_REFUSED_FIELD',
            data: { said: saidOf(error, row, given[row.field]) },
          },
        ),
      ],
    }),
    extra: {
      ...extra,
      ...(limited && { retryAfterSeconds: Math.max(1, error.retryAfterSeconds ?? 1) }),
    },
    cause: error,
  })
}

function saidOf(error: ProviderError, row: ErrorRow, given: string | undefined): string {
  const words = wordsOfProvider(error.providerMessage, given)
  return words === '' ? String(row.on) : `${row.on}: ${words}`
}

function sentence(error: ProviderError, operation: ProviderOperation, row: ErrorRow): string {
  const text = errorCatalogue[row.code].text
  if (row.code === 'PROVIDER_REJECTED' || row.hint) {
    return `${text} (${nameOf(error)})${row.hint ? `: ${row.hint}` : ''}`
  }
  if (row.code === 'PROVIDER_TIMEOUT' && isMoneyOperation(operation)) {
    return 'It is not known whether the provider did it; the service keeps finding out. Do not charge again'
  }
  if (named.has(row.code) && error.providerCode !== null) {
    return `${text} (${error.providerCode})`
  }
  return text
}

/** Our codes that cover several refusals of the provider. */
const named: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'ORDER_NOT_REFUNDABLE',
  'PARTIAL_REFUND_NOT_SUPPORTED',
  'REFUND_IN_PROGRESS',
  'OAUTH_DENIED',
  'PROVIDER_ERROR',
])

function nameOf(error: ProviderError): string {
  return error.providerCode ?? (error.status === null ? 'no code' : `status ${error.status}`)
}

const longestWords = 300
const namesAtMost = 10
/** Tokens and other long runs of letters and digits. */
const secretRuns = /\b(?:APP_USR|TEST|TG)-[\w-]+|\b(?=\w*\d|[0-9a-f]{32})\w{32,}\b|\w{40,}/g

/**
 * The provider's own words about a refused field, for the caller. Of a list of accepted names those come first that are nearest to
 * the given one.
 */
function wordsOfProvider(text: string | null, given: string | undefined): string {
  const plain = (text ?? '').replace(secretRuns, '***').replace(/\s+/g, ' ').trim()
  return (given === undefined ? plain : withNearestFirst(plain, given)).slice(0, longestWords)
}

function withNearestFirst(text: string, given: string): string {
  const end = text.lastIndexOf(':')
  const names = text.slice(end + 1).split(',')
  if (end === -1 || names.length < 2) return text
  const near = names
    .map((name) => name.trim())
    .toSorted((one, other) => likeness(other, given) - likeness(one, given))
  return `${text.slice(0, end)}: ${near.slice(0, namesAtMost).join(', ')}`
}

/** The part of their pairs of letters that two names share, from 0 to 1. */
function likeness(one: string, other: string): number {
  const [ours, theirs] = [pairsOf(one), pairsOf(other)]
  const shared = [...ours].filter((pair) => theirs.has(pair)).length
  return (2 * shared) / Math.max(1, ours.size + theirs.size)
}

function pairsOf(name: string): Set<string> {
  const plain = name.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase()
  return new Set([...plain].slice(1).map((letter, index) => plain[index] + letter))
}
