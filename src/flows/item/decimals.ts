/** Limits the digits: calculating with a million digits takes seconds. */
const decimalText = /^([+-]?)(\d{0,1000})(?:\.(\d{0,1000}))?(?:[eE]([+-]?\d{1,3}))?$/

/**
 * The number as text with a fixed count of decimals, rounded half away from zero. It works on the digits, so that values
 * beyond a double stay exact. Undefined when the text is not a number with a decimal point.
 */
export function fixedDecimals(
  given: string | number | bigint,
  decimals: number,
): string | undefined {
  const match = decimalText.exec(String(given).trim())
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = match ?? []
  if (!match || whole + fraction === '') return undefined
  const digits = whole + fraction
  // Position of the decimal point in `digits`; it may be outside of them.
  const point = whole.length + Number(exponent)
  const padded = point < 0 ? '0'.repeat(-point) + digits : digits
  const start = Math.max(point, 0)
  const kept = padded.padEnd(start + decimals, '0').slice(0, start + decimals)
  const next = padded[start + decimals] ?? '0'
  const rounded = BigInt(kept || '0') + (next >= '5' ? 1n : 0n)
  const text = rounded.toString().padStart(decimals + 1, '0')
  const minus = sign === '-' && rounded !== 0n ? '-' : ''
  if (decimals === 0) return minus + text
  return `${minus}${text.slice(0, -decimals)}.${text.slice(-decimals)}`
}
