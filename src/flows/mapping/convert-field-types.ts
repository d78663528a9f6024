import { ExactTime, isoText } from '../../domain/exact-time.ts'
import type { Reason } from '../../texts/reason.ts'
import type { fieldTypes } from '../definition/destination-fields.ts'

export type FieldType = (typeof fieldTypes)[number]

type Converted = { value: unknown } | { expected: Reason }

/**
 * Converts one value of an item. Null stays null. A blank text is null for every type except `text`.
 *
 * - `text`: the value as text.
 * - `integer`: a number, or digits with an optional sign. Beyond 2^53 a text stays exact text, and a JSON number stays a
 *   number.
 * - `decimal`: a text such as "1234.50" with the digits as given, so that no cent is lost.
 * - `decimalComma`: the same, from a decimal comma. Points may separate all groups of three: "1.234,50", "1234,50", "1.234"
 *   (one thousand two hundred thirty-four). "0.234" is invalid. A JSON number is used as it is.
 * - `boolean`: true, 1, "1", "true", "t", "yes", "y", "si", "sí", "s", "verdadero", and their opposites, in any case.
 * - `date`: an ISO 8601 date ("2026-03-31") or UTC time ("2026-03-31T12:00:00.000Z"). Accepts ISO texts (a time needs a zone)
 *   and day/month/year ("31/3/2026", "31-03-2026").
 */
export function convertField(value: unknown, type: FieldType): Converted {
  if (value === null) return { value: null }
  if (typeof value === 'object') return { expected: { code: 'EXPECTED_SINGLE', data: { type } } }
  const text = String(value).trim()
  if (text === '' && type !== 'text') return { value: null }
  return converters[type](value, text)
}

const converters: Record<FieldType, (value: unknown, text: string) => Converted> = {
  text: (value) => ({ value: String(value) }),
  integer: (value, text) => {
    // A JSON number beyond 2^53.
    if (typeof value === 'bigint') return { value }
    if (!/^[+-]?\d+(\.0+)?$/.test(text)) return { expected: { code: 'EXPECTED_INTEGER' } }
    const [, sign = '', digits = ''] = /^([+-]?)0*(\d+)/.exec(text) ?? []
    const number = Number(digits.slice(0, 17)) * (sign === '-' ? -1 : 1)
    // Decided by the text, whatever its length: calculating with a million digits takes seconds.
    const isExact = digits.length < 17 && Number.isSafeInteger(number)
    return { value: isExact ? number + 0 : `${sign === '-' ? '-' : ''}${digits}` }
  },
  decimal: (_, text) => decimal(text, /^[+-]?\d+(\.\d+)?$/, { code: 'EXPECTED_DECIMAL' }),
  decimalComma: (value, text) => {
    const expected: Reason = { code: 'EXPECTED_DECIMAL_COMMA' }
    if (typeof value === 'number') return converters.decimal(value, text)
    if (!/^[+-]?(\d+|(?!0\.)\d{1,3}(\.\d{3})+)(,\d+)?$/.test(text)) return { expected }
    return decimal(text.replaceAll('.', '').replace(',', '.'), /^/, expected)
  },
  boolean: (_, text) => {
    const word = text.toLowerCase()
    if (trueWords.has(word)) return { value: true }
    if (falseWords.has(word)) return { value: false }
    return { expected: { code: 'EXPECTED_BOOLEAN' } }
  },
  date: (_, text) => {
    const iso = isoDate(text) ?? localDate(text)
    return iso === undefined ? { expected: { code: 'EXPECTED_DATE' } } : { value: iso }
  },
}

const trueWords = new Set(['true', 't', '1', 'yes', 'y', 'si', 'sí', 's', 'verdadero', 'v'])
const falseWords = new Set(['false', 'f', '0', 'no', 'n', 'falso'])

function decimal(text: string, form: RegExp, expected: Reason): Converted {
  if (!form.test(text)) return { expected }
  const [, sign = '', whole = '', fraction = ''] = /^([+-]?)0*(\d+?)(\.\d+)?$/.exec(text) ?? []
  const zero = !/[1-9]/.test(whole + fraction)
  return { value: `${sign === '-' && !zero ? '-' : ''}${whole}${fraction}` }
}

function isoDate(text: string): string | undefined {
  const [, day, time] =
    /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})))?$/i.exec(
      text,
    ) ?? []
  if (day === undefined || !isDay(day)) return undefined
  if (time === undefined) return day
  const instant = new Date(`${day}T${time.replace(/([+-]\d{2})(\d{2})$/, '$1:$2')}`)
  if (Number.isNaN(instant.getTime())) return undefined
  return isoText(ExactTime.of(instant, /\.(\d+)/.exec(time)?.[1] ?? ''))
}

function localDate(text: string): string | undefined {
  const [, day = '', month = '', year] = /^(\d{1,2})[/-](\d{1,2})[/-](\d{4})$/.exec(text) ?? []
  const iso = `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`
  return year !== undefined && isDay(iso) ? iso : undefined
}

/** Whether the date exists: 30 February does not. */
function isDay(iso: string): boolean {
  const time = new Date(`${iso}T00:00:00Z`)
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(iso)
}
