import { SourceError, UnreadableValue } from '../types.ts'

/** A cell as written in the sheet. `text` is absent for an empty cell. */
export type XlsxCell = {
  /** For example C7. */
  place: string
  type: string
  style: number
  text: string | undefined
  hasFormula: boolean
}

type Place = { cell: string; sheet: string }
type NumberKind = { hasDate: boolean; hasTime: boolean }

const dayMs = 86_400_000
// ECMA-376, part 1, 18.8.30: the built-in formats. 27 to 36 and 50 to 58 are East Asian dates.
const builtinDates = new Set([14, 15, 16, 17, ...range(27, 31), 34, 35, 36, ...range(50, 58)])
const builtinTimes = new Set([18, 19, 20, 21, 32, 33, 45, 47])
const builtinBoth = 22

/**
 * Creates the function that reads a cell's value: null for an empty cell, UnreadableValue for an error such as #N/A, a
 * formula without a stored value, and for a number or date that is none. It throws SourceError for a damaged workbook.
 */
export function createXlsxCells({
  shared,
  formats,
  is1904,
  sheet,
}: {
  sheet: string
  shared: readonly string[]
  formats: readonly { id: number; code?: string }[]
  is1904: boolean
}): (cell: XlsxCell) => unknown {
  const kinds = formats.map(kindOf)
  return ({ place, type, style, text, hasFormula }) => {
    const inSheet = { cell: place, sheet: JSON.stringify(sheet) }
    if (text === undefined || (text === '' && type !== 'str')) {
      // Some programs write an empty value for an uncalculated formula. An empty text has a text type.
      if (!hasFormula) return null
      return new UnreadableValue({ code: 'CELL_NOT_COMPUTED', data: inSheet })
    }
    switch (type) {
      case 's': {
        const found = shared[Number(text)]
        if (found === undefined) {
          throw new SourceError({ code: 'CELL_TEXT_MISSING', data: { cell: place } })
        }
        return found === '' ? null : found
      }
      case 'inlineStr':
      case 'str':
        return text === '' ? null : textValue(text)
      case 'b':
        return text === '1' || text === 'true'
      case 'd':
        return text
      case 'e':
        return new UnreadableValue({
          code: 'CELL_ERROR',
          data: { error: text.slice(0, 20), ...inSheet },
        })
      case 'n':
        return numberValue(text, inSheet, kinds[style], is1904)
      default:
        return new UnreadableValue({ code: 'CELL_TYPE_UNKNOWN', data: inSheet })
    }
  }
}

/** Excel writes characters that XML does not allow as `_x000D_`. */
export function textValue(text: string): string {
  return text.replace(/_x([0-9A-Fa-f]{4})_/g, (_, code) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  )
}

/** The column number of a place such as AB7; A is 1. */
export function columnNumber(place: string): number {
  const letters = /^[A-Z]{1,3}/.exec(place.toUpperCase())?.[0] ?? ''
  if (letters === '') throw new SourceError({ code: 'CELL_WITHOUT_PLACE' })
  return [...letters].reduce((number, letter) => number * 26 + letter.charCodeAt(0) - 64, 0)
}

export function columnLetters(number: number): string {
  let name = ''
  for (let rest = number; rest > 0; rest = Math.floor((rest - 1) / 26)) {
    name = String.fromCharCode(65 + ((rest - 1) % 26)) + name
  }
  return name
}

/** Numbers are doubles with 17 digits: 19.989999999999998 was typed as 19.99. */
function numberValue(
  text: string,
  inSheet: Place,
  kind: NumberKind | undefined,
  is1904: boolean,
): unknown {
  const value = Number(text)
  if (!Number.isFinite(value)) {
    return new UnreadableValue({ code: 'CELL_NO_NUMBER', data: inSheet })
  }
  if (kind?.hasDate || kind?.hasTime) return timeText(value, inSheet, kind, is1904)
  const isExact = Number.isSafeInteger(value) || !/^-?\d{1,1000}$/.test(text)
  return isExact ? value : BigInt(text)
}

/** A cell with the format of a date may hold any number, such as an EAN; spreadsheet programs then show `####`. */
function timeText(
  serial: number,
  inSheet: Place,
  kind: NumberKind,
  is1904: boolean,
): string | UnreadableValue {
  const data = { value: serial, ...inSheet }
  const ms = Math.round(serial * dayMs)
  if (ms < 0) return new UnreadableValue({ code: 'CELL_DATE_TOO_EARLY', data })
  const start = is1904 ? Date.UTC(1904, 0, 1) : Date.UTC(1899, 11, 30)
  // Day 60 is 29 February 1900, a date that exists only in Lotus 1-2-3's calendar.
  const isEarly = !is1904 && ms < 60 * dayMs
  const date = new Date(start + ms + (isEarly ? dayMs : 0))
  if (Number.isNaN(date.getTime()) || date.getUTCFullYear() > 9_999) {
    return new UnreadableValue({ code: 'CELL_DATE_TOO_LATE', data })
  }
  const iso = date.toISOString().replace(/(?:\.000)?Z$/, '')
  const hasTime = kind.hasTime || ms % dayMs !== 0
  if (!kind.hasDate && ms < dayMs) return iso.slice(11)
  return hasTime ? iso : iso.slice(0, 10)
}

function kindOf({ id, code }: { id: number; code?: string }): NumberKind {
  if (code === undefined) {
    return {
      hasDate: builtinDates.has(id) || id === builtinBoth,
      hasTime: builtinTimes.has(id) || id === builtinBoth,
    }
  }
  // Elapsed time is a number of days, not a time of day.
  if (/\[(?:h+|m+|s+)\]/i.test(code)) return { hasDate: false, hasTime: false }
  const signs = code.replace(/"[^"]*"|\\.|_.|\*.|\[[^\]]*\]|General/gi, '').toLowerCase()
  const hasTime = /[hs]/.test(signs)
  return { hasDate: /[yd]/.test(signs) || (/m/.test(signs) && !hasTime), hasTime }
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index)
}
