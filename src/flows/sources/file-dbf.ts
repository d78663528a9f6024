import { yieldToEventLoop } from '../../jobs/yield-to-event-loop.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { type DbfColumn, dbfReader, noCodePage } from './dbf-columns.ts'
import { decodedText, type FileEncoding } from './file-encoding.ts'
import type { OpenFile } from './file-store.ts'

type DbfOptions = { encoding?: FileEncoding | undefined; skip?: readonly string[] | undefined }

const live = 0x20
const deleted = 0x2a
const endOfFile = 0x1a
const headerEnd = 0x0d
const readAtOnce = 64 * 1024

/** The code page by byte 29 of the header (language driver of dBase and Visual FoxPro). */
const codePages: Readonly<Record<number, FileEncoding>> = {
  1: 'cp437',
  2: 'cp850',
  3: 'cp1252',
  4: 'macroman',
  8: 'cp865',
  13: 'cp437',
  14: 'cp850',
  16: 'cp850',
  18: 'cp850',
  20: 'cp850',
  25: 'cp437',
  27: 'cp437',
  29: 'cp850',
  36: 'cp860',
  37: 'cp850',
  55: 'cp850',
  87: 'cp1252',
  88: 'cp1252',
  89: 'cp1252',
  100: 'cp852',
  101: 'cp866',
  102: 'cp865',
  200: 'cp1250',
  201: 'cp1251',
}

/**
 * The records of a DBF file (dBase III to Visual FoxPro) that are not deleted. Texts lose trailing blanks, numbers are exact
 * text, dates are `2026-01-31`, logicals are true, false or null.
 *
 * An invalid value, such as the stars of a number that was too long, is an UnreadableValue. Throws SourceError for a file
 * shorter than its header says. Memos are in another file: a memo column is an error unless it is skipped.
 *
 * The package dbffile (1.13) does not fit: it rounds long numbers, ignores the code page and null flags, accepts truncated or
 * damaged files, and needs a path.
 */
export async function* dbfRecords(
  file: OpenFile,
  size: number,
  { encoding, skip = [] }: DbfOptions,
): AsyncGenerator<SourceRow> {
  const header = await readHeader(file, size)
  const { recordBytes, records, headerBytes, columns } = header
  const chosen = encoding ?? codePages[header.languageDriver]
  const decode = (bytes: Buffer) => {
    if (bytes.every((byte) => byte < 0x80)) return bytes.toString('latin1')
    return chosen === undefined ? noCodePage : decodedText(bytes, chosen)
  }
  const unknown = skip.find((name) => !columns.some((column) => column.name === name))
  if (unknown !== undefined) {
    throw new SourceError({ code: 'DBF_NO_COLUMN', data: { column: unknown } })
  }
  const toRow = dbfReader(columns, new Set(skip), header.version, decode)

  const atOnce = Math.max(1, Math.floor(readAtOnce / recordBytes))
  for (let first = 0; first < records; first += atOnce) {
    const count = Math.min(atOnce, records - first)
    const bytes = await readWhole(file, headerBytes + first * recordBytes, count * recordBytes)
    for (let index = 0; index < count; index += 1) {
      const record = bytes.subarray(index * recordBytes, (index + 1) * recordBytes)
      const number = first + index + 1
      if (record[0] === deleted) continue
      if (record[0] !== live) {
        throw new SourceError({ code: 'DBF_NO_RECORD', data: { record: number } })
      }
      yield toRow(record, number)
    }
    await yieldToEventLoop()
  }
}

type Header = {
  version: number
  records: number
  headerBytes: number
  recordBytes: number
  languageDriver: number
  columns: DbfColumn[]
}

async function readHeader(file: OpenFile, size: number): Promise<Header> {
  if (size < 33) throw new SourceError({ code: 'DBF_TOO_SHORT' })
  const start = await readWhole(file, 0, 32)
  const version = start[0] ?? 0
  const records = start.readUInt32LE(4)
  const headerBytes = start.readUInt16LE(8)
  const recordBytes = start.readUInt16LE(10)
  const isKnown = [0x02, 0x03, 0x30, 0x31, 0x32, 0x43, 0x63, 0x83, 0x8b, 0xcb, 0xf5, 0xfb].includes(
    version,
  )
  if (!isKnown || version === 0x02 || headerBytes < 33 || recordBytes < 2) {
    throw new SourceError({ code: 'DBF_UNKNOWN' })
  }
  const end = headerBytes + records * recordBytes
  if (size < end) {
    const there = Math.max(0, Math.floor((size - headerBytes) / recordBytes))
    throw new SourceError({ code: 'DBF_CUT', data: { records, there } })
  }
  if (size > end) {
    const [behind] = await readWhole(file, end, 1)
    if (behind === live || behind === deleted) {
      throw new SourceError({ code: 'DBF_BEING_WRITTEN' })
    }
    if (behind !== endOfFile && behind !== 0) {
      throw new SourceError({ code: 'DBF_TRAILING' })
    }
  }
  const bytes = await readWhole(file, 0, headerBytes)
  return {
    version,
    records,
    headerBytes,
    recordBytes,
    languageDriver: start[29] ?? 0,
    columns: columnsOf(bytes, recordBytes),
  }
}

function columnsOf(header: Buffer, recordBytes: number): DbfColumn[] {
  const columns: DbfColumn[] = []
  // The first byte of a record marks it as deleted.
  let offset = 1
  for (let at = 32; at + 32 <= header.length && header[at] !== headerEnd; at += 32) {
    const bytes = header.subarray(at, at + 32)
    const name = bytes.subarray(0, 11).toString('latin1').split('\0', 1)[0]?.trim() ?? ''
    const type = String.fromCharCode(bytes[11] ?? 0)
    const decimals = bytes[17] ?? 0
    // Clipper and FoxPro store the length of long texts in both bytes.
    const length = (bytes[16] ?? 0) + (type === 'C' ? decimals * 256 : 0)
    if (name === '' || length === 0) throw new SourceError({ code: 'DBF_BAD_COLUMN' })
    if (columns.some((one) => one.name === name)) {
      throw new SourceError({ code: 'COLUMN_NAMED_TWICE', data: { column: name } })
    }
    columns.push({ name, type, offset, length, isNullable: ((bytes[18] ?? 0) & 0x02) !== 0 })
    offset += length
  }
  if (columns.length === 0 || offset > recordBytes) {
    throw new SourceError({ code: 'DBF_COLUMNS_MISFIT' })
  }
  return columns
}

async function readWhole(file: OpenFile, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length)
  for (let read = 0; read < length; ) {
    const { bytesRead } = await file.read(bytes, read, length - read, position + read)
    if (bytesRead === 0) throw new SourceError({ code: 'CUT_WHILE_READ' })
    read += bytesRead
  }
  return bytes
}
