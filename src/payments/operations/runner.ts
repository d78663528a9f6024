import { AppError } from '../../errors/app-error.ts'
import { type CallOptions, ProviderError } from '../../provider/provider.ts'
import type { KeyedTable } from '../../repositories/operations/send-leases.ts'
import {
  type OrderOperationRow,
  settleOperation,
} from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { KnownConnection } from '../connection/token-keeper.ts'
import type { PaymentDeps } from '../deps.ts'
import { withOrderAccess } from '../orders/order-access.ts'
import { nextUnknownLook } from '../orders/plan-status-checks.ts'
import { type Claim, type Held, sendAlone } from './lease.ts'
import { type Errand, timeLeftMs } from './request-context.ts'

/**
 * Something that is to be done at the provider: a charge, a refund or a cancel. Its row is committed before, and the row's
 * id is the key of every call for it.
 */
export type Intent<Row, Answer, End> = {
  table: KeyedTable
  id: string
  order: OrderRow
  /** The row, when this errand has written it. */
  row: Row
  /** The claim that came with it; null when somebody else has written it, who may be sending now. */
  held: Held | null
  /** The client's connection, as this errand has found it. */
  connection?: KnownConnection | undefined
  read(): Promise<Row | undefined>
  /** What there is in place of a call: the intent has ended, or nothing may be sent for it any more. */
  instead(row: Row, claim: Claim): Promise<End | undefined>
  call(row: Row, token: string, options: CallOptions): Promise<Answer>
  /** Commits what the provider has answered: the outcome, what it makes of the order, and the audit entry. */
  record(row: Row, answer: Answer, claim: Claim): Promise<End>
  /** Commits what a call without a good answer leaves. */
  fail(row: Row, error: ProviderError | AppError, claim: Claim): Promise<End>
  /** Another process is sending: its outcome is seen later. */
  leave(): Promise<End>
}

/** How often a request looks whether another process is through with its intent. */
const lookAgainMs = 200

/**
 * Carries out an intent, for the request that wrote it and for whoever finds it open later: called by one sender at a time,
 * under its key, and the outcome committed with its audit entry. However often this runs, it is done at most once.
 */
export async function carryOut<Row, Answer, End>(
  deps: PaymentDeps,
  errand: Errand,
  intent: Intent<Row, Answer, End>,
): Promise<End> {
  return deps.once(`${intent.table}:${intent.id}`, async () => {
    for (let { held } = intent; ; held = null) {
      const sent = await sendAlone(deps, intent, held, (claim) =>
        attempt(deps, errand, intent, claim),
      )
      if (sent?.result) return sent.result.end
      // What was withheld was taken over or given up since: that is seen in the row.
      if (sent) continue
      const waits = errand.source === 'api' && timeLeftMs(deps, errand) > 0
      if (!waits) return intent.leave()
      await deps.changes.wait(intent.order.id, lookAgainMs)
    }
  })
}

/** Undefined when the claim, or the wish for it, was lost before anything was sent. */
async function attempt<Row, Answer, End>(
  deps: PaymentDeps,
  errand: Errand,
  intent: Intent<Row, Answer, End>,
  claim: Claim,
): Promise<{ end: End } | undefined> {
  const row = claim.isNew ? intent.row : await intent.read()
  if (!row) return { end: await intent.leave() }
  const end = await intent.instead(row, claim)
  if (end) return { end }
  const call = (token: string, options: CallOptions) =>
    intent.call(row, token, { ...options, permit: claim.permit })
  let answer: Answer
  try {
    answer = await withOrderAccess(deps, intent.order, errand, call, intent.connection)
  } catch (error) {
    if (!(error instanceof ProviderError || error instanceof AppError)) throw error
    if (error instanceof ProviderError && error.failure === 'withheld') return undefined
    return { end: await intent.fail(row, error, claim) }
  }
  return { end: await intent.record(row, answer, claim) }
}

/**
 * Whether a failure of the call ends its intent. A refusal that proves its absence does, unless an attempt of before may
 * still arrive. "No connection", "wait" and "who are you" do only for the request that wrote it: its till hears that
 * nothing was done, and must not find it done later.
 */
export function endsIntent(error: ProviderError | AppError, claim: Claim): boolean {
  if (error instanceof ProviderError && error.effect === 'unknown') return false
  claim.settle()
  if (claim.unansweredAt !== null) return false
  return claim.isNew || (error instanceof ProviderError && error.provesAbsence)
}

/** What the records name a failure by. */
export function codeOf(error: ProviderError | AppError): string | null {
  return error instanceof ProviderError ? error.providerCode : error.code
}

/** Ends a cancel or refund as refused. Answers whether it has: somebody else who sends by now may be luckier. */
export function refuse(
  deps: PaymentDeps,
  { id }: OrderOperationRow,
  error: ProviderError | AppError,
  { sender }: Claim,
): Promise<boolean> {
  const end = { state: 'refused' as const, providerCode: codeOf(error), finishedAt: deps.now() }
  return settleOperation(deps.database.db, id, { ...end, sender })
}

/**
 * Ends a cancel or refund as refused, or keeps it open for the sweeper, who repeats it under its key until there is an
 * outcome. Answers whether it has ended.
 */
export async function endOrKeep(
  deps: PaymentDeps,
  operation: OrderOperationRow,
  error: ProviderError,
  isFinal: boolean,
  claim: Claim,
): Promise<boolean> {
  if (isFinal && (await refuse(deps, operation, error, claim))) return true
  await settleOperation(deps.database.db, operation.id, {
    state: 'unknown',
    providerCode: error.providerCode,
    finishedAt: null,
    nextAttemptAt: nextUnknownLook(deps, operation.created_at, claim.doubtfulAt()),
  })
  return false
}
