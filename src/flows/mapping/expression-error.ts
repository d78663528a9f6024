import { type Reason, ReasonError, withTexts } from '../../texts/reason.ts'
import { shorten } from './excerpt.ts'

/**
 * An expression failed on a value, or its syntax is invalid. `position` is an index into its text. `outOfTime`: it exceeded
 * its processor time, or its thread did not respond; a later evaluation may succeed.
 */
export class ExpressionError extends ReasonError {
  override readonly name = 'ExpressionError'
  readonly position: number | undefined
  readonly outOfTime: boolean

  constructor(why: Reason, options: { position?: number | undefined; outOfTime?: boolean } = {}) {
    super(why)
    this.position = options.position
    this.outOfTime = options.outOfTime ?? false
  }
}

/** The reason with its texts shortened; `hide` removes secrets from them before. */
export function shortReason(
  { why }: ExpressionError,
  { most = 300, hide }: { most?: number; hide?: (text: string) => string } = {},
): Reason {
  return withTexts(why, (text) => shorten(hide?.(text) ?? text, most))
}

/** Converts an exception of jsonata (a plain object with a message) or of JavaScript. */
export function toExpressionError(thrown: unknown): ExpressionError {
  if (thrown instanceof ExpressionError) return thrown
  const { message, position } = (thrown ?? {}) as Partial<Record<string, unknown>>
  const hasMessage = typeof message === 'string' && message !== ''
  return new ExpressionError(
    hasMessage ? { code: 'SAID', data: { said: message } } : { code: 'EXPRESSION_FAILED' },
    { position: typeof position === 'number' && position >= 0 ? position : undefined },
  )
}

/** The expression was ended after this much processor time. */
export function expressionTooSlow(ms: number): ExpressionError {
  return new ExpressionError(
    { code: 'EXPRESSION_TOO_SLOW', data: { seconds: ms / 1_000 } },
    { outOfTime: true },
  )
}

/** Line and column, from 1, of an index into a text. */
export function lineAndColumn(text: string, index: number): { line: number; column: number } {
  const before = text.slice(0, index).split('\n')
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}
