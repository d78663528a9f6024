import { posix } from 'node:path'
import { breathe } from '../poll/breather.ts'
import { SourceError, type SourceRow, UnreadableValue } from '../types.ts'
import type { OpenFile } from './file-store.ts'
import { maxColumns, maxRecordCharacters } from './limits.ts'
import {
  columnName,
  columnNumber,
  createXlsxCells,
  textValue,
  type XlsxCell,
} from './xlsx-cells.ts'
import { createXmlParser, type XmlTag } from './xml-parser.ts'
import { openZip, type ZipParts } from './zip-parts.ts'

type XlsxOptions = { sheet: string | number; headerRow: number }

/** Shared texts are held while a sheet is read. */
const maxSharedCharacters = 32 * 1024 * 1024
/** Empty ones have no characters. */
const maxSharedTexts = 4 * 1024 * 1024
/** Of cells; no program writes as many. */
const maxStyles = 100_000
/** Empty ones too: a small file can hold very many, since they compress to nothing. */
const maxCells = 5_000_000
const longestName = 256
const what = 'xlsx workbook'

/**
 * The records of one sheet, whose columns are named in one of its rows; empty rows do not count, nor do columns without a name.
 * Texts stay texts; numbers are numbers, exact whole ones beyond 2^53; dates become `2026-01-31` or `2026-01-31T10:20:30`,
 * times alone `10:20:30`; empty cells null. An error such as #N/A, or a formula without a computed value, is an UnreadableValue: it
 * matters only where the column is used.
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
      // fromEntries, since an assignment to a column named __proto__ would not make a field.
      if (row.some(([, value]) => value !== null)) yield Object.fromEntries(row)
    }
    if (!names)
      throw new SourceError(`has no names of columns in row ${headerRow} (xlsx.headerRow)`)
  } finally {
    zip.close()
  }
}

function headerNames(values: ReadonlyMap<number, unknown>, row: number): Map<number, string> {
  const names = new Map<number, string>()
  const known = new Set<string>()
  for (const [column, value] of values) {
    if (value instanceof UnreadableValue) throw new SourceError(value.reason)
    const name = String(value ?? '').trim()
    if (name === '') continue
    if (name.length > longestName) {
      throw new SourceError(
        `has a name of more than ${longestName} characters for the column ${columnName(column)}, in row ${row}`,
      )
    }
    if (known.has(name)) {
      throw new SourceError(
        `has the column ${JSON.stringify(name.slice(0, 128))} twice, in row ${row}`,
      )
    }
    known.add(name)
    names.set(column, name)
  }
  if (names.size === 0)
    throw new SourceError(`has no names of columns in row ${row} (xlsx.headerRow)`)
  if (names.size > maxColumns) throw new SourceError(`has more than ${maxColumns} columns`)
  return names
}

type Book = { sheet: string; name: string; shared?: string; styles?: string; is1904: boolean }

/** Where the parts of a workbook are (ECMA-376, part 1, 12.3 and part 2, 9.3). */
async function readBook(zip: ZipParts, wanted: string | number): Promise<Book> {
  if (!zip.has('_rels/.rels')) throw new SourceError(`is no ${what}`)
  const [main] = (await readLinks(zip, '')).filter(({ type }) => type === 'officeDocument')
  if (!main) throw new SourceError(`is no ${what}`)
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
    throw new SourceError(`has no sheet ${JSON.stringify(wanted)} (there are ${list.join(', ')})`)
  }
  const links = await readLinks(zip, main.target)
  const targetOf = (type: string) => links.find((link) => link.type === type)?.target
  const sheet = links.find(({ id, type }) => id === found.id && type === 'worksheet')?.target
  if (sheet === undefined)
    throw new SourceError(`has the sheet ${JSON.stringify(found.name)}, which holds no cells`)
  const [shared, styles] = [targetOf('sharedStrings'), targetOf('styles')]
  return { sheet, name: found.name, is1904, ...(shared && { shared }), ...(styles && { styles }) }
}

/** Names of sheets are told apart without case; one that is written alike comes first. */
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

/** By their names without prefix. */
function attributesOf(tag: XmlTag): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.values(tag.attributes).map(({ local, value }) => [local, value]))
}

/** Shows the elements of a part, and the texts that stand in them. */
async function readPart(
  zip: ZipParts,
  name: string,
  onOpen: (tag: XmlTag) => void,
  onText: (text: string) => void = () => undefined,
  onClose: (local: string) => void = () => undefined,
): Promise<void> {
  for await (const _ of eachPiece(zip, name, onOpen, onText, onClose)) await breathe()
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
      throw new SourceError(`is damaged: its part ${name} is not UTF-8`)
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
      throw new SourceError(`is damaged: its part ${name} ${error.message}`)
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
        throw new SourceError(
          `has more than ${maxSharedCharacters} characters of shared texts; saved as CSV it can be read`,
        )
      }
    },
    (local) => {
      if (local === 'rPh') phonetic -= 1
      if (local === 't') isText = false
      if (local !== 'si') return
      texts.push(textValue(text))
      if (texts.length > maxSharedTexts) {
        throw new SourceError(
          `has more than ${maxSharedTexts} shared texts; saved as CSV it can be read`,
        )
      }
    },
  )
  return texts
}

/** The format of each style of cells, by its number and its code where it is none that everybody knows. */
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
        throw new SourceError(`has more than ${maxStyles} styles of cells`)
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
      throw new SourceError(`has more than ${maxRecordCharacters} characters in row ${row.number}`)
    }
  }
  // How a text is pronounced (ruby) is no part of it.
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
        throw new SourceError(`has more than ${maxCells} cells; saved as CSV it can be read`)
      }
      const { r, t, s } = attributesOf(tag)
      column = r === undefined ? column + 1 : columnNumber(r)
      cell = {
        place: `${columnName(column)}${row.number}`,
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
      // The text itself stands elsewhere.
      if (cell.type === 's' && typeof value === 'string') countCharacters(value.length)
      if (value !== null) row.values.set(column, value)
      cell = undefined
    } else if (local === 'row') rows.push(row)
  }
  for await (const _ of eachPiece(zip, name, onOpen, onText, onClose)) {
    const found = rows
    rows = []
    yield* found
    await breathe()
  }
}
