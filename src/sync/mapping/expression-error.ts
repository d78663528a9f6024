/** jsonata's code for an evaluation that was cut for its time. */
const outOfTimeCode = 'D1012'

/**
 * An expression that failed on a value, or that is not well formed. `position` is an index into its text. `outOfTime`
 * when its time was up, which on a busy machine need not be its own fault.
 */
export class ExpressionError extends Error {
  readonly position: number | undefined
  readonly outOfTime: boolean

  constructor(
    message: string,
    options: { position?: number | undefined; outOfTime?: boolean } = {},
  ) {
    super(message)
    this.name = 'ExpressionError'
    this.position = options.position
    this.outOfTime = options.outOfTime ?? false
  }
}

/** What jsonata throws: a plain object with a message of its own, or whatever JavaScript throws. */
export function toExpressionError(thrown: unknown): ExpressionError {
  if (thrown instanceof ExpressionError) return thrown
  const { message, position, code } = (thrown ?? {}) as Partial<Record<string, unknown>>
  return new ExpressionError(
    typeof message === 'string' && message !== '' ? message : 'the expression failed',
    {
      position: typeof position === 'number' && position >= 0 ? position : undefined,
      outOfTime: code === outOfTimeCode,
    },
  )
}

/** Line and column, from 1, of an index into a text. */
export function lineAndColumn(text: string, index: number): { line: number; column: number } {
  const before = text.slice(0, index).split('\n')
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}
