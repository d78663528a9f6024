import { posix } from 'node:path'
import { yieldToEventLoop } from '../../jobs/yield-to-event-loop.ts'
import { SourceError, type SourceRow, UnreadableValue } from '../types.ts'
import type { OpenFile } from './file-store.ts'
import { maxColumns, maxRecordCharacters } from './record-limits.ts'
import {
  columnLetters,
  columnNumber,
  createXlsxCells,
  textValue,
  type XlsxCell,
} from './xlsx-cells.ts'
import { createXmlParser, type XmlTag } from './xml-parser.ts'
import { openZip, type ZipParts } from './zip-parts.ts'

type XlsxOptions = { sheet: string | number; headerRow: number }

/** The shared texts stay in memory while a sheet is read. */
const maxSharedCharacters = 32 * 1024 * 1024
/** A separate limit, because empty texts have no characters. */
const maxSharedTexts = 4 * 1024 * 1024
/** Cell styles; no program writes as many. */
const maxStyles = 100_000
/** Includes empty cells: a small file can contain many, because they compress to almost nothing. */
const maxCells = 5_000_000
const longestName = 256
const what = 'xlsx workbook'

/**
 * The records of one sheet; one row has the column names. Empty rows and unnamed columns are ignored.
 *
 * - Texts stay texts. Numbers are numbers, or exact beyond 2^53 when whole.
 * - Dates are `2026-01-31` or `2026-01-31T10:20:30`, times `10:20:30`. Empty cells are null.
 * - An error such as #N/A, or a formula without a stored value, is an UnreadableValue: it fails only where the column is used.
 */
export async function* xlsxRecords(
  file: OpenFile,
  size: number,
  { sheet, headerRow }: XlsxOptions,
): AsyncGenerator<SourceRow> {
  const zip = await openZip(file, size, what)
  try {
    const book = await readBook(zip, sheet)
    const cells = createXlsxCells({
      shared: book.shared === undefined ? [] : await readShared(zip, book.shared),
      formats: book.styles === undefined ? [] : await readFormats(zip, book.styles),
      is1904: book.is1904,
      sheet: book.name,
    })
    let names: Map<number, string> | undefined
    for await (const { number, values } of rowsOf(zip, book.sheet, cells)) {
      if (number < headerRow) continue
      if (number === headerRow) names = headerNames(values, headerRow)
      if (!names) break
      if (number === headerRow || values.size === 0) continue
      const row = [...names].map(([column, name]) => [name, values.get(column) ?? null] as const)
      // An assignment to a column named __proto__ would not create a field.
      if (row.some(([, value]) => value !== null)) yield Object.fromEntries(row)
    }
    if (!names) throw new SourceError({ code: 'NO_COLUMN_NAMES', data: { row: headerRow } })
  } finally {
    zip.close()
  }
}

function headerNames(values: ReadonlyMap<number, unknown>, row: number): Map<number, string> {
  const names = new Map<number, string>()
  const known = new Set<string>()
  for (const [column, value] of values) {
    if (value instanceof UnreadableValue) throw new SourceError(value.why)
    const name = String(value ?? '').trim()
    if (name === '') continue
    if (name.length > longestName) {
      const data = { most: longestName, column: columnLetters(column), row }
      throw new SourceError({ code: 'COLUMN_NAME_TOO_LONG', data })
    }
    if (known.has(name)) {
      const data = { column: JSON.stringify(name.slice(0, 128)), row }
      throw new SourceError({ code: 'COLUMN_NAMED_TWICE', data })
    }
    known.add(name)
    names.set(column, name)
  }
  if (names.size === 0) throw new SourceError({ code: 'NO_COLUMN_NAMES', data: { row } })
  if (names.size > maxColumns) {
    throw new SourceError({ code: 'TOO_MANY_COLUMNS_READ', data: { most: maxColumns } })
  }
  return names
}

type Book = { sheet: string; name: string; shared?: string; styles?: string; is1904: boolean }

/** Finds the parts of a workbook (ECMA-376, part 1, 12.3 and part 2, 9.3). */
async function readBook(zip: ZipParts, wanted: string | number): Promise<Book> {
  if (!zip.has('_rels/.rels')) throw new SourceError({ code: 'NOT_A_BOOK', data: { format: what } })
  const [main] = (await readLinks(zip, '')).filter(({ type }) => type === 'officeDocument')
  if (!main) throw new SourceError({ code: 'NOT_A_BOOK', data: { format: what } })
  const sheets: { name: string; id: string }[] = []
  let is1904 = false
  await readPart(zip, main.target, (tag) => {
    const value = attributesOf(tag)
    if (tag.local === 'sheet') sheets.push({ name: value.name ?? '', id: value.id ?? '' })
    if (tag.local === 'workbookPr') is1904 = /^(1|true)$/.test(value.date1904 ?? '')
  })
  const found = typeof wanted === 'number' ? sheets[wanted - 1] : sheetNamed(sheets, wanted)
  if (!found) {
    const list = sheets.map(({ name }) => JSON.stringify(name)).slice(0, 20)
    const data = { sheet: JSON.stringify(wanted), found: list.join(', ') }
    throw new SourceError({ code: 'NO_SHEET', data })
  }
  const links = await readLinks(zip, main.target)
  const targetOf = (type: string) => links.find((link) => link.type === type)?.target
  const sheet = links.find(({ id, type }) => id === found.id && type === 'worksheet')?.target
  if (sheet === undefined) {
    const data = { sheet: JSON.stringify(found.name) }
    throw new SourceError({ code: 'SHEET_WITHOUT_CELLS', data })
  }
  const [shared, styles] = [targetOf('sharedStrings'), targetOf('styles')]
  return { sheet, name: found.name, is1904, ...(shared && { shared }), ...(styles && { styles }) }
}

/** Sheet names are case-insensitive; an exact match has precedence. */
function sheetNamed<T extends { name: string }>(
  sheets: readonly T[],
  wanted: string,
): T | undefined {
  return (
    sheets.find(({ name }) => name === wanted) ??
    sheets.find(({ name }) => name.toLowerCase() === wanted.toLowerCase())
  )
}

async function readLinks(zip: ZipParts, part: string) {
  const { dir, base } = posix.parse(part)
  const links: { id: string; type: string; target: string }[] = []
  const name = posix.join(dir, '_rels', `${base}.rels`)
  if (!zip.has(name)) return links
  await readPart(zip, name, (tag) => {
    const { Id = '', Type = '', Target = '' } = attributesOf(tag)
    if (tag.local !== 'Relationship') return
    const target = Target.startsWith('/') ? Target.slice(1) : posix.join(dir, Target)
    links.push({ id: Id, type: Type.replace(/^.*\//, ''), target })
  })
  return links
}

/** Attributes by name, without prefix. */
function attributesOf(tag: XmlTag): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.values(tag.attributes).map(({ local, value }) => [local, value]))
}

/** Reports the elements of a part and their texts. */
async function readPart(
  zip: ZipParts,
  name: string,
  onOpen: (tag: XmlTag) => void,
  onText: (text: string) => void = () => undefined,
  onClose: (local: string) => void = () => undefined,
): Promise<void> {
  for await (const _ of eachPiece(zip, name, onOpen, onText, onClose)) await yieldToEventLoop()
}

async function* eachPiece(
  zip: ZipParts,
  name: string,
  onOpen: (tag: XmlTag) => void,
  onText: (text: string) => void,
  onClose: (local: string) => void,
): AsyncGenerator<void> {
  const parser = createXmlParser()
  const open: string[] = []
  parser.onopentag = (tag) => {
    open.push((tag as XmlTag).local)
    onOpen(tag as XmlTag)
  }
  parser.ontext = onText
  parser.oncdata = onText
  parser.onclosetag = () => onClose(open.pop() ?? '')
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const decode = (bytes?: Buffer) => {
    try {
      return bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode()
    } catch {
      throw new SourceError({ code: 'PART_NOT_UTF8', data: { part: name } })
    }
  }
  try {
    for await (const bytes of zip.read(name)) {
      parser.write(decode(bytes))
      yield
    }
    parser.write(decode()).close()
    yield
  } catch (error) {
    if (error instanceof SourceError && error.message.includes('XML')) {
      throw new SourceError({ code: 'PART_DAMAGED', data: { part: name, what: error.why } })
    }
    throw error
  }
}

async function readShared(zip: ZipParts, name: string): Promise<string[]> {
  const texts: string[] = []
  let characters = 0
  let text = ''
  let isText = false
  let phonetic = 0
  await readPart(
    zip,
    name,
    ({ local }) => {
      if (local === 'si') text = ''
      if (local === 'rPh') phonetic += 1
      isText = local === 't' && phonetic === 0
    },
    (piece) => {
      if (!isText) return
      text += piece
      characters += piece.length
      if (characters > maxSharedCharacters) {
        throw new SourceError({ code: 'TOO_MUCH_SHARED_TEXT', data: { most: maxSharedCharacters } })
      }
    },
    (local) => {
      if (local === 'rPh') phonetic -= 1
      if (local === 't') isText = false
      if (local !== 'si') return
      texts.push(textValue(text))
      if (texts.length > maxSharedTexts) {
        throw new SourceError({ code: 'TOO_MANY_SHARED_TEXTS', data: { most: maxSharedTexts } })
      }
    },
  )
  return texts
}

/** For each cell style, the number of its format, and the code of a custom format. */
async function readFormats(zip: ZipParts, name: string): Promise<{ id: number; code?: string }[]> {
  const codes = new Map<number, string>()
  const ids: number[] = []
  let isCellStyles = false
  await readPart(
    zip,
    name,
    (tag) => {
      const { numFmtId, formatCode = '' } = attributesOf(tag)
      if (tag.local === 'numFmt') codes.set(Number(numFmtId), formatCode)
      if (tag.local === 'cellXfs') isCellStyles = true
      if (tag.local === 'xf' && isCellStyles) ids.push(Number(numFmtId ?? 0))
      if (ids.length + codes.size > maxStyles) {
        throw new SourceError({ code: 'TOO_MANY_STYLES', data: { most: maxStyles } })
      }
    },
    undefined,
    (local) => {
      if (local === 'cellXfs') isCellStyles = false
    },
  )
  return ids.map((id) => {
    const code = codes.get(id)
    return code === undefined ? { id } : { id, code }
  })
}

type SheetRow = { number: number; values: Map<number, unknown> }

async function* rowsOf(
  zip: ZipParts,
  name: string,
  valueIn: (cell: XlsxCell) => unknown,
): AsyncGenerator<SheetRow> {
  let rows: SheetRow[] = []
  let row: SheetRow = { number: 0, values: new Map() }
  let cell: XlsxCell | undefined
  let column = 0
  let characters = 0
  let cellCount = 0
  let inText = false
  const countCharacters = (more: number) => {
    characters += more
    if (characters > maxRecordCharacters) {
      const data = { most: maxRecordCharacters, row: row.number }
      throw new SourceError({ code: 'ROW_TOO_LONG', data })
    }
  }
  // Phonetic text (ruby) is not part of the value.
  let phonetic = 0
  const onOpen = (tag: XmlTag) => {
    const { local } = tag
    if (local === 'row') {
      row = { number: Number(attributesOf(tag).r ?? row.number + 1), values: new Map() }
      column = 0
      characters = 0
    } else if (local === 'c') {
      cellCount += 1
      if (cellCount > maxCells) {
        throw new SourceError({ code: 'TOO_MANY_CELLS', data: { most: maxCells } })
      }
      const { r, t, s } = attributesOf(tag)
      column = r === undefined ? column + 1 : columnNumber(r)
      cell = {
        place: `${columnLetters(column)}${row.number}`,
        type: t ?? 'n',
        style: Number(s ?? 0),
        text: undefined,
        hasFormula: false,
      }
    } else if (cell && local === 'f') cell.hasFormula = true
    else if (local === 'rPh') phonetic += 1
    else if (cell && phonetic === 0 && (local === 'v' || local === 't')) {
      inText = true
      cell.text ??= ''
    }
  }
  const onText = (piece: string) => {
    if (!inText || !cell) return
    cell.text += piece
    countCharacters(piece.length)
  }
  const onClose = (local: string) => {
    if (local === 'rPh') phonetic -= 1
    else if (local === 'v' || local === 't') inText = false
    else if (local === 'c' && cell) {
      const value = valueIn(cell)
      // The cell has only the number of a shared text.
      if (cell.type === 's' && typeof value === 'string') countCharacters(value.length)
      if (value !== null) row.values.set(column, value)
      cell = undefined
    } else if (local === 'row') rows.push(row)
  }
  for await (const _ of eachPiece(zip, name, onOpen, onText, onClose)) {
    const found = rows
    rows = []
    yield* found
    await yieldToEventLoop()
  }
}
