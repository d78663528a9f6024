/** A number with more digits than JavaScript keeps is at least this long; an exponent may be beyond its range. */
const suspicious = /[\d.]{16}|\d[eE]/
const number = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/**
 * JSON.parse, but a number that JavaScript cannot hold exactly stays the text it is in the source: a key of 19 digits or
 * an amount with 17 must not change on its way. Throws SyntaxError.
 */
export function parseExactJson(text: string): unknown {
  if (!suspicious.test(text)) return JSON.parse(text)
  // The third argument is ES2026 (JSON.parse source text access), which TypeScript's library does not know yet.
  return (JSON.parse as (text: string, reviver: ExactReviver) => unknown)(
    text,
    (_key, value, { source }) => {
      if (typeof value !== 'number' || source === undefined) return value
      return isSameNumber(source, String(value)) ? value : source
    },
  )
}

type ExactReviver = (key: string, value: unknown, context: { source?: string }) => unknown

function isSameNumber(left: string, right: string): boolean {
  const normal = normalForm(left)
  return normal !== undefined && normal === normalForm(right)
}

/** Significant digits and the power of ten of the last one; the sign of zero does not count. */
function normalForm(text: string): string | undefined {
  const parts = number.exec(text)
  if (!parts) return undefined
  const [, whole = '', fraction = '', exponent = '0'] = parts
  const digits = (whole + fraction).replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  if (significant === '') return '0'
  const power = Number(exponent) - fraction.length + digits.length - significant.length
  return `${text.startsWith('-') ? '-' : ''}${significant}e${power}`
}
