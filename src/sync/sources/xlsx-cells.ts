import { SourceError, UnreadableValue } from '../types.ts'

/** A cell as a sheet writes it. `text` is absent where nothing stands. */
export type XlsxCell = {
  /** Such as C7. */
  place: string
  type: string
  style: number
  text: string | undefined
  hasFormula: boolean
}

type NumberKind = { hasDate: boolean; hasTime: boolean }

const dayMs = 86_400_000
// ECMA-376, part 1, 18.8.30: the formats that every program knows; 27 to 36 and 50 to 58 are dates of the East.
const builtinDates = new Set([14, 15, 16, 17, ...range(27, 31), 34, 35, 36, ...range(50, 58)])
const builtinTimes = new Set([18, 19, 20, 21, 32, 33, 45, 47])
const builtinBoth = 22

/**
 * Makes the function that gives the value of a cell; null for an empty one, and an UnreadableValue for an error such as #N/A and a
 * formula that nobody computed. It throws SourceError with the place for what no workbook holds.
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
    if (text === undefined || (text === '' && type !== 'str')) {
      // Some programs write an empty value for it; an empty text has its type.
      if (!hasFormula) return null
      return new UnreadableValue(
        `has a formula without a computed value in the cell ${place} of the sheet ${JSON.stringify(sheet)}; open and save the workbook in a spreadsheet program`,
      )
    }
    switch (type) {
      case 's': {
        const found = shared[Number(text)]
        if (found === undefined)
          throw new SourceError(`is damaged: the text of the cell ${place} is missing`)
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
        return new UnreadableValue(
          `has the error ${text.slice(0, 20)} in the cell ${place} of the sheet ${JSON.stringify(sheet)}`,
        )
      case 'n':
        return numberValue(text, place, kinds[style], is1904)
      default:
        throw new SourceError(`has a value of an unknown type in the cell ${place}`)
    }
  }
}

/** Characters that XML cannot hold are written `_x000D_`. */
export function textValue(text: string): string {
  return text.replace(/_x([0-9A-Fa-f]{4})_/g, (_, code) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  )
}

/** Of the letters at the beginning of a place such as AB7; A is 1. */
export function columnNumber(place: string): number {
  const letters = /^[A-Z]{1,3}/.exec(place.toUpperCase())?.[0] ?? ''
  if (letters === '') throw new SourceError('is damaged: a cell has no place')
  return [...letters].reduce((number, letter) => number * 26 + letter.charCodeAt(0) - 64, 0)
}

export function columnName(number: number): string {
  let name = ''
  for (let rest = number; rest > 0; rest = Math.floor((rest - 1) / 26)) {
    name = String.fromCharCode(65 + ((rest - 1) % 26)) + name
  }
  return name
}

/** Numbers are doubles, which are written with 17 digits: 19.989999999999998 is what was typed as 19.99. */
function numberValue(
  text: string,
  place: string,
  kind: NumberKind | undefined,
  is1904: boolean,
): unknown {
  const value = Number(text)
  if (!Number.isFinite(value)) throw new SourceError(`has no number in the cell ${place}`)
  if (kind?.hasDate || kind?.hasTime) return timeText(value, place, kind, is1904)
  const isExact = Number.isSafeInteger(value) || !/^-?\d{1,1000}$/.test(text)
  return isExact ? value : BigInt(text)
}

function timeText(serial: number, place: string, kind: NumberKind, is1904: boolean): string {
  const ms = Math.round(serial * dayMs)
  if (ms < 0) throw new SourceError(`has a date before all dates in the cell ${place}`)
  const start = is1904 ? Date.UTC(1904, 0, 1) : Date.UTC(1899, 11, 30)
  // The day that Lotus 1-2-3 took for the 29th of February 1900 is number 60.
  const isEarly = !is1904 && ms < 60 * dayMs
  const date = new Date(start + ms + (isEarly ? dayMs : 0))
  if (Number.isNaN(date.getTime()) || date.getUTCFullYear() > 9_999) {
    throw new SourceError(`has a date after all dates in the cell ${place}`)
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
  // Elapsed time is a number of days, not a time of a day.
  if (/\[(?:h+|m+|s+)\]/i.test(code)) return { hasDate: false, hasTime: false }
  const signs = code.replace(/"[^"]*"|\\.|_.|\*.|\[[^\]]*\]|General/gi, '').toLowerCase()
  const hasTime = /[hs]/.test(signs)
  return { hasDate: /[yd]/.test(signs) || (/m/.test(signs) && !hasTime), hasTime }
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index)
}
