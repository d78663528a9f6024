/**
 * Money is integer cents in a number: 12 integer digits and 2 decimals stay below 2^53, so every sum is exact.
 * No float is ever parsed from or printed to an amount.
 */
const erpAmount = /^([0-9]{1,12}),([0-9]{1,2})$/
const pointAmount = /^([0-9]{1,12})(?:\.([0-9]{1,2}))?$/

function toCents(integerDigits: string, decimals: string): number {
  return Number(integerDigits) * 100 + Number(decimals.padEnd(2, '0'))
}

/** Cents of an ERP amount such as `100,5` or `1234,50`; undefined for any other shape and for zero. */
export function centsFromErp(text: string): number | undefined {
  const match = erpAmount.exec(text)
  if (!match) return undefined
  const cents = toCents(match[1] as string, match[2] as string)
  return cents > 0 ? cents : undefined
}

/** Cents of a provider amount such as `10`, `10.5` or `10.00`; undefined for any other shape. */
export function centsFromPoint(text: string): number | undefined {
  const match = pointAmount.exec(text)
  return match ? toCents(match[1] as string, match[2] ?? '') : undefined
}

/** `123450` becomes `1234.50`. Throws on anything but a non-negative whole number of cents. */
export function pointFromCents(cents: number): string {
  if (!Number.isSafeInteger(cents) || cents < 0)
    throw new RangeError('cents must be a whole number')
  const text = String(cents).padStart(3, '0')
  return `${text.slice(0, -2)}.${text.slice(-2)}`
}
