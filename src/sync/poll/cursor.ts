/**
 * The text of a cursor value: ISO for times, digits for numbers, as it is for texts. Undefined for what cannot be one.
 */
export function cursorText(value: unknown): string | undefined {
  if (value instanceof Date) {
    return Number.isNaN(value.getTime()) ? undefined : value.toISOString()
  }
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : undefined
  if (typeof value === 'bigint') return value.toString()
  return typeof value === 'string' && value !== '' ? value : undefined
}

const wholeNumber = /^-?\d+$/
/** A date alone or with a time, in the forms that databases and JSON use. */
const time = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/

/** The later of two positions: by number, by time, or else as text. */
export function laterCursor(left: string | null, right: string): string {
  if (left === null) return right
  if (wholeNumber.test(left) && wholeNumber.test(right)) {
    return BigInt(right) > BigInt(left) ? right : left
  }
  if (time.test(left) && time.test(right)) {
    const [leftMs, rightMs] = [Date.parse(left), Date.parse(right)]
    // Equal milliseconds may differ beyond them: the text tells.
    if (leftMs !== rightMs) return rightMs > leftMs ? right : left
  }
  return right > left ? right : left
}

/** Where to read from: the position minus the overlap, when it is a time. Late commits lie in the overlap. */
export function readFrom(cursor: string, overlapMs: number): string {
  if (overlapMs === 0 || !time.test(cursor) || wholeNumber.test(cursor)) return cursor
  return new Date(Date.parse(cursor) - overlapMs).toISOString()
}
