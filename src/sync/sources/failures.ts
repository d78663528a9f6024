import { hideTexts } from '../net/hidden-texts.ts'
import { SourceError } from '../types.ts'

/** The code of an error of the operating system, of a driver or of a database; it is the same property everywhere. */
export function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** What a driver says, with its code, as one line without the given secrets. */
export function describe(error: unknown, secrets: readonly string[]): string {
  const code = codeOf(error)
  const message = error instanceof Error ? error.message.replace(/\s+/g, ' ').trim() : ''
  const told = [code, message].filter((part) => part !== undefined && part !== '').join(': ')
  return hideTexts(told === '' ? 'unknown failure' : told, secrets, '***').slice(0, 500)
}

/** What stands for a failure in a poll: an abort and what is told already as they are, all else by `tell`. */
export function sourceFailure(
  error: unknown,
  signal: AbortSignal,
  tell: (error: unknown) => string,
): unknown {
  if (signal.aborted) return signal.reason
  return error instanceof SourceError ? error : new SourceError(tell(error))
}
