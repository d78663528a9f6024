/** A time with more decimals of a second than a Date can store. */
export class ExactTime extends Date {
  /** ISO 8601 in UTC with all decimals. */
  readonly exact: string

  private constructor(date: Date, exact: string) {
    super(date)
    this.exact = exact
  }

  /** The date itself when `fraction` (decimals of a second) is no more precise than its milliseconds. */
  static of(date: Date, fraction: string): Date {
    const digits = fraction.replace(/0+$/, '')
    if (digits.length <= 3 || Number.isNaN(date.getTime())) return date
    return new ExactTime(date, `${date.toISOString().slice(0, -'000Z'.length)}${digits}Z`)
  }
}

/** ISO 8601 in UTC with all known decimals. Throws RangeError for an invalid date. */
export function isoText(date: Date): string {
  return date instanceof ExactTime ? date.exact : date.toISOString()
}
