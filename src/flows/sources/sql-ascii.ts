import iconv from 'iconv-lite'
import type { FieldDef } from 'pg'
import { types as pgTypes } from 'pg'
import { SourceError, UnreadableValue } from '../types.ts'
import { decodedText, type FileEncoding } from './file-encoding.ts'

/**
 * A PostgreSQL database in SQL_ASCII has bytes without an encoding, which the server does not convert. The driver decodes all
 * as UTF-8. So such columns are read as bytes and decoded here, by the `charset` of the address.
 */

/** Encodings by PostgreSQL's names. LATIN1 is read as Windows-1252, which programs mean by it. */
const charsets: Readonly<Record<string, FileEncoding>> = {
  UTF8: 'utf8',
  LATIN1: 'latin1',
  LATIN9: 'iso8859-15',
  ISO8859_1: 'latin1',
  WIN1250: 'cp1250',
  WIN1251: 'cp1251',
  WIN1252: 'latin1',
  CP437: 'cp437',
  CP850: 'cp850',
}

type Charset = { name: string; encoding: FileEncoding }

/** Throws SourceError for an unknown name. */
export function charsetOf(url: string): Charset {
  const name = (/[?&]charset=([^&]*)/i.exec(url)?.[1] ?? 'UTF8').toUpperCase()
  const encoding = charsets[name]
  if (encoding) return { name, encoding }
  const known = Object.keys(charsets).join(', ')
  throw new SourceError({ code: 'CHARSET_UNKNOWN', data: { charset: name.slice(0, 40), known } })
}

/** A value of the query in the bytes of the database. */
export function encodedValue(value: string, { encoding }: Charset): string | Buffer {
  if (/^[\x20-\x7e\s]*$/.test(value)) return value
  return iconv.encode(value, encoding === 'latin1' ? 'win1252' : encoding)
}

const { builtins } = pgTypes
/** Types whose text is ASCII. */
const plainTypes = new Set<number>([
  builtins.BOOL,
  builtins.BYTEA,
  builtins.INT2,
  builtins.INT4,
  builtins.INT8,
  builtins.OID,
  builtins.FLOAT4,
  builtins.FLOAT8,
  builtins.NUMERIC,
  builtins.DATE,
  builtins.TIME,
  builtins.TIMETZ,
  builtins.TIMESTAMP,
  builtins.TIMESTAMPTZ,
  builtins.INTERVAL,
  builtins.UUID,
])

/** The query with its texts as bytes. Columns are numbered, since two may have the same name. */
export function queryOfBytes(query: string, fields: readonly FieldDef[]): string {
  const names = fields.map((_, index) => `c${index}`)
  const values = fields.map(({ dataTypeID }, index) => {
    if (plainTypes.has(dataTypeID)) return `q.c${index}`
    // A cast to text would cut the blanks of a char column.
    return dataTypeID === builtins.BPCHAR
      ? `bpcharsend(q.c${index})`
      : `textsend(q.c${index}::text)`
  })
  return `select ${values.join(', ')} from (\n${query}\n) q (${names.join(', ')})`
}

/** Decodes a row of queryOfBytes; `parse` reads a text of a type. */
export function decodedRow(
  values: readonly unknown[],
  fields: readonly FieldDef[],
  { name: charset, encoding }: Charset,
  parse: (type: number, text: string) => unknown,
): unknown[] {
  return values.map((value, index) => {
    const { name, dataTypeID } = fields[index] as FieldDef
    if (!(value instanceof Uint8Array) || plainTypes.has(dataTypeID)) return value
    const text = decodedText(Buffer.from(value), encoding)
    if (text !== undefined) return parse(dataTypeID, text)
    return new UnreadableValue({ code: 'COLUMN_BYTES_NO_TEXT', data: { column: name, charset } })
  })
}
