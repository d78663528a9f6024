/** JSON with sorted keys, so that equal values give equal text in any key order. */
export function canonicalJson(value: unknown): string {
  return isCanonical(value) ? (JSON.stringify(value) ?? 'null') : canonicalText(value)
}

/** Whether JSON.stringify, which is faster, writes its fields in the order of their names. */
function isCanonical(value: unknown): boolean {
  if (typeof value === 'function' || typeof value === 'symbol') return false
  if (typeof value !== 'object' || value === null) return true
  if (Array.isArray(value)) return value.every(isCanonical)
  const prototype = Object.getPrototypeOf(value)
  if ((prototype !== Object.prototype && prototype !== null) || 'toJSON' in value) return false
  let before = ''
  for (const name of Object.keys(value)) {
    if (name < before || !isCanonical((value as Record<string, unknown>)[name])) return false
    before = name
  }
  return true
}

function canonicalText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalText(item ?? null)).join(',')}]`
  if (value !== null && typeof value === 'object') {
    let fields = ''
    for (const name of Object.keys(value).sort()) {
      const field = (value as Record<string, unknown>)[name]
      if (field === undefined) continue
      fields += `${fields === '' ? '' : ','}${JSON.stringify(name)}:${canonicalText(field)}`
    }
    return `{${fields}}`
  }
  return JSON.stringify(value) ?? 'null'
}

/** Whether two values have the same canonical JSON. */
export function isSameJson(one: unknown, other: unknown): boolean {
  if (one === other) return true
  if (Array.isArray(one) && Array.isArray(other)) {
    if (one.length !== other.length) return false
    return one.every((item, index) => isSameJson(item ?? null, other[index] ?? null))
  }
  if (isRecord(one) && isRecord(other)) return haveSameFields(one, other)
  return canonicalJson(one) === canonicalJson(other)
}

type Fields = Readonly<Record<string, unknown>>

function haveSameFields(one: Fields, other: Fields): boolean {
  for (const name of Object.keys(one)) {
    if (one[name] !== undefined && other[name] === undefined) return false
  }
  for (const name of Object.keys(other)) {
    const field = other[name]
    if (field !== undefined && !isSameJson(one[name], field)) return false
  }
  return true
}

/** A number with more digits than JavaScript keeps is at least this long; an exponent may be beyond its range. */
const suspicious = /[\d.]{16}|\d[eE]/
const number = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/
/** Computing with a million digits takes seconds; no database has a longer whole number. */
const wholeNumber = /^-?\d{1,1000}$/

/**
 * JSON.parse, but a number that JavaScript cannot represent exactly is not changed. A whole one becomes a bigint, any
 * other stays the text of the source.
 *
 * @throws SyntaxError.
 */
export function parseExactJson(text: string): unknown {
  if (!suspicious.test(text)) return JSON.parse(text)
  // The third argument is ES2026 (JSON.parse source text access), which is not in TypeScript's library yet.
  return (JSON.parse as (text: string, reviver: ExactReviver) => unknown)(
    text,
    (_key, value, { source }) => {
      if (typeof value !== 'number' || source === undefined) return value
      return exactNumber(source, value)
    },
  )
}

/** A JSON number as `parseExactJson` reads it. `value` is its JavaScript number. */
export function exactNumber(source: string, value = Number(source)): unknown {
  if (!suspicious.test(source) || isSameNumber(source, String(value))) return value
  return wholeNumber.test(source) ? BigInt(source) : source
}

type ExactReviver = (key: string, value: unknown, context: { source?: string }) => unknown

declare global {
  interface JSON {
    /** Not among TypeScript's types yet. */
    rawJSON(text: string): object
  }
}

/** JSON.stringify throws for a bigint by default; this writes its digits, as a number. */
function writeDigits(this: bigint): unknown {
  return JSON.rawJSON(this.toString())
}

// On the prototype, where JSON.stringify finds it: other code writes answers, logs and rows with such numbers.
Object.defineProperty(BigInt.prototype, 'toJSON', {
  value: writeDigits,
  configurable: true,
  writable: true,
})

function isSameNumber(left: string, right: string): boolean {
  const normal = normalForm(left)
  return normal !== undefined && normal === normalForm(right)
}

/** Not by a regular expression, which would begin again at each zero of a long number. */
function withoutEndingZeros(digits: string): string {
  let end = digits.length
  while (digits[end - 1] === '0') end -= 1
  return digits.slice(0, end)
}

/** Significant digits and the power of ten of the last one; the sign of zero does not count. */
function normalForm(text: string): string | undefined {
  const parts = number.exec(text)
  if (!parts) return undefined
  const [, whole = '', fraction = '', exponent = '0'] = parts
  const digits = (whole + fraction).replace(/^0+/, '')
  const significant = withoutEndingZeros(digits)
  if (significant === '') return '0'
  const power = Number(exponent) - fraction.length + digits.length - significant.length
  return `${text.startsWith('-') ? '-' : ''}${significant}e${power}`
}

/** Whether a parsed value is an object, and neither null nor a list. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
