/** An expression that failed on a value, or that is not well formed. `position` is an index into its text. */
export class ExpressionError extends Error {
  readonly position: number | undefined

  constructor(message: string, position?: number) {
    super(message)
    this.name = 'ExpressionError'
    this.position = position
  }
}

/** What jsonata throws: a plain object with a message of its own, or whatever JavaScript throws. */
export function toExpressionError(thrown: unknown): ExpressionError {
  if (thrown instanceof ExpressionError) return thrown
  const { message, position } = (thrown ?? {}) as { message?: unknown; position?: unknown }
  return new ExpressionError(
    typeof message === 'string' && message !== '' ? message : 'the expression failed',
    typeof position === 'number' && position >= 0 ? position : undefined,
  )
}

/** Line and column, from 1, of an index into a text. */
export function lineAndColumn(text: string, index: number): { line: number; column: number } {
  const before = text.slice(0, index).split('\n')
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}
