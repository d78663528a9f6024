/** A point in time with more digits of a second than a Date holds. */
export class ExactTime extends Date {
  /** ISO 8601 in UTC with all of its digits. */
  readonly exact: string

  private constructor(date: Date, exact: string) {
    super(date)
    this.exact = exact
  }

  /** The date itself, when `fraction` (digits of a second) says no more than its milliseconds do. */
  static of(date: Date, fraction: string): Date {
    const digits = fraction.replace(/0+$/, '')
    if (digits.length <= 3 || Number.isNaN(date.getTime())) return date
    return new ExactTime(date, `${date.toISOString().slice(0, -'000Z'.length)}${digits}Z`)
  }
}

/** ISO 8601 in UTC with every digit that is known. Throws RangeError for an invalid date. */
export function isoText(date: Date): string {
  return date instanceof ExactTime ? date.exact : date.toISOString()
}
