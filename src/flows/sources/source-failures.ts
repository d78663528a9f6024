import { codeOf } from '../../domain/error-code.ts'
import type { AppError } from '../../errors/app-error.ts'
import { type Reason, ReasonError } from '../../texts/reason.ts'
import { controlErrorWithReason } from '../control-errors.ts'
import { maskSecrets } from '../net/mask-secrets.ts'
import { SourceError } from '../types.ts'

/** The API's error for a request that needs a source which cannot be read. */
export function sourceUnreadable(error: SourceError): AppError {
  return controlErrorWithReason('PROVIDER_ERROR', error.why, error)
}

/** A driver's message with its code, in one line, without the given secrets. */
export function describe(error: unknown, secrets: readonly string[]): Reason {
  if (error instanceof ReasonError) return error.why
  const code = codeOf(error)
  const message = error instanceof Error ? error.message.replace(/\s+/g, ' ').trim() : ''
  const words = [code, message].filter((part) => part !== undefined && part !== '').join(': ')
  if (words === '') return { code: 'UNKNOWN_FAILURE' }
  const said = maskSecrets(words, secrets, '***').slice(0, 500)
  return { code: isUnknownName(error, code) ? 'QUERY_NAME_UNKNOWN' : 'SAID', data: { said } }
}

/** PostgreSQL and MySQL by their codes, SQL Server by its numbers. */
const unknownNames = new Set<unknown>([
  '42P01',
  '42703',
  'ER_NO_SUCH_TABLE',
  'ER_BAD_FIELD_ERROR',
  207,
  208,
])

/** Whether a query names a table or a column that the database does not have. */
function isUnknownName(error: unknown, code: string | undefined): boolean {
  const number = error instanceof Error && 'number' in error ? error.number : undefined
  return unknownNames.has(code) || unknownNames.has(number)
}

/** The error of a poll: an abort and a SourceError stay as they are; `reasonOf` converts all others. */
export function sourceFailure(
  error: unknown,
  signal: AbortSignal,
  reasonOf: (error: unknown) => Reason,
): unknown {
  if (signal.aborted) return signal.reason
  return error instanceof SourceError ? error : new SourceError(reasonOf(error))
}
