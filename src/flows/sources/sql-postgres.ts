import { Socket } from 'node:net'
import {
  Client,
  type FieldDef,
  types as pgTypes,
  type QueryArrayResult,
  type QueryResult,
} from 'pg'
import { checkConnectionFiles } from '../../db/connection-files.ts'
import { codeOf } from '../../domain/error-code.ts'
import { ExactTime } from '../../domain/exact-time.ts'
import { type WallClock, wallClockOf } from '../../domain/time-zone.ts'
import { postgresConnection, refuseOwnDatabase } from '../net/postgres-connection.ts'
import type { SourceRow } from '../types.ts'
import { inBatches } from './record-batches.ts'
import { charsetOf, decodedRow, encodedValue, queryOfBytes } from './sql-ascii.ts'
import { ImpossibleValueError, type SqlRead } from './sql-reader.ts'
import { maxRowsAhead, parseJsonColumn, rowMaker, shortestFloat, timeOf } from './sql-rows.ts'

/** Time after the server's own limit until the connection counts as broken. */
const graceMs = 5_000
const closeTimeoutMs = 1_000
const maxPortionRows = 1_000
/** The operating system delivers up to 2 MiB in one event, and the driver processes all of it at once. */
const portionBytes = 512 * 1024

/**
 * Reads through a server-side cursor in a read-only transaction. A portal (pg-query-stream) does not fit: its statement
 * timeout continues while the reader processes rows, so a long read would fail on a fast server.
 */
export async function* readPostgres(read: SqlRead): AsyncGenerator<SourceRow[]> {
  const { statement, timeoutMs, fetchSize, timeZone, signal } = read
  signal.throwIfAborted()
  checkConnectionFiles(read.url)
  const socket = new Socket()
  const otherLists = new Set<number>()
  const getTypeParser = parserFor(timeZone, otherLists)
  const charset = charsetOf(read.url)
  const client = new Client({
    ...postgresConnection(read.url),
    stream: () => socket,
    application_name: 'tillbridge',
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs + graceMs,
    keepAlive: true,
    types: { getTypeParser },
  })
  // The pending query receives the same error.
  client.on('error', () => undefined)
  const abort = () => socket.destroy()
  signal.addEventListener('abort', abort, { once: true })
  try {
    await client.connect()
    const readRows = async (text: string) => (await client.query(text)).rows
    await refuseOwnDatabase(readRows, read.ownDatabase)
    const settings: unknown = await client.query(
      `begin read only;
       set local statement_timeout = ${Math.ceil(timeoutMs)};
       set local time zone '${(timeZone ?? 'UTC').replaceAll("'", "''")}';
       set local datestyle to iso;
       set local extra_float_digits to 3;
       show server_encoding`,
    )
    const isAscii = (settings as QueryResult[]).at(-1)?.rows[0]?.server_encoding === 'SQL_ASCII'
    if (isAscii) await client.query(`set local client_encoding to 'SQL_ASCII'`)
    const values = statement.values.map((value) => (isAscii ? encodedValue(value, charset) : value))
    const declare = (query: string) =>
      client
        .query({
          text: `declare tillbridge no scroll cursor for ${query}`,
          values,
          ...oneStatement,
        })
        .catch(asImpossibleValue)
    await declare(statement.text)
    const columns = await columnsOf(client)
    for (const oid of await listsAmong(client, columns)) otherLists.add(oid)
    if (isAscii) {
      await client.query('close tillbridge')
      await declare(queryOfBytes(statement.text, columns))
    }
    const parse = (type: number, text: string): unknown => getTypeParser(type, 'text')(text)
    let toRow: ((values: readonly unknown[]) => SourceRow) | undefined
    const answers = portions(client, socket, Math.min(fetchSize, maxPortionRows))
    async function* records() {
      for await (const { rows } of answers) {
        toRow ??= rowMaker(columns.map(({ name }) => name))
        for (const row of rows)
          yield toRow(isAscii ? decodedRow(row, columns, charset, parse) : row)
      }
    }
    yield* inBatches(records(), fetchSize, (row) => row)
  } finally {
    signal.removeEventListener('abort', abort)
    // An orderly close, which also rolls back. The connection is dropped when the server does not respond.
    const closeTimer = setTimeout(abort, closeTimeoutMs)
    await client.end().catch(() => undefined)
    clearTimeout(closeTimer)
    socket.destroy()
  }
}

async function columnsOf(client: Client): Promise<FieldDef[]> {
  return (await client.query({ text: 'fetch 0 from tillbridge', ...oneStatement })).fields
}

/** Types of array columns that the driver does not support: arrays of enums, ranges or bits. */
async function listsAmong(client: Client, fields: readonly FieldDef[]): Promise<number[]> {
  const types = fields.map(({ dataTypeID }) => dataTypeID).filter((oid) => !isKnown(oid))
  if (types.length === 0) return []
  const { rows } = await client.query<{ oid: number }>({
    text: `select oid::integer as oid from pg_type
      where oid = any($1::oid[]) and typcategory = 'A' and typelem <> 0 and typlen = -1`,
    values: [types],
    ...oneStatement,
  })
  return rows.map(({ oid }) => oid)
}

/**
 * Fetches from the cursor. The size of each response determines the number of rows of the next fetch: a response is kept in
 * memory as a whole, and some tables have a picture in each row.
 */
async function* portions(
  client: Client,
  socket: Socket,
  most: number,
): AsyncGenerator<QueryArrayResult<unknown[]>> {
  for (let portion = Math.min(most, maxRowsAhead); ; ) {
    const before = socket.bytesRead
    const answer: QueryArrayResult<unknown[]> = await client.query({
      text: `fetch ${portion} from tillbridge`,
      rowMode: 'array',
      ...oneStatement,
    })
    yield answer
    if (answer.rows.length < portion) return
    const bytesEach = (socket.bytesRead - before) / portion
    portion = Math.max(1, Math.min(most, Math.floor(portionBytes / bytesEach)))
  }
}

/** The extended protocol allows one statement, so a query cannot end the read-only transaction and continue. */
const oneStatement: object = { queryMode: 'extended' }

// SQLSTATE: invalid text or bytes, out of range, two of date and time, a character that the encoding lacks.
const impossibleValues = new Set(['22P02', '22P03', '22003', '22007', '22008', '22021'])

/** Declaring a cursor reads no record, so such an error concerns a parameter. */
function asImpossibleValue(error: unknown): never {
  if (!impossibleValues.has(codeOf(error) ?? '')) throw error
  throw new ImpossibleValueError(
    { code: 'IMPOSSIBLE_VALUE' },
    {
      cause: error,
    },
  )
}

const { builtins } = pgTypes
// Type numbers from PostgreSQL's pg_type.dat.
const lists = {
  text: 1009,
  time: 1115,
  timeWithZone: 1185,
  date: 1182,
  interval: 1187,
  numeric: 1231,
  money: 791,
  float4: 1021,
  json: 199,
  jsonb: 3807,
}
const moment: (text: string) => unknown = pgTypes.getTypeParser(builtins.TIMESTAMPTZ)
const texts: (text: string) => unknown = pgTypes.getTypeParser(lists.text)

/** Keeps exact values as text (bigint, numeric, money, date alone). Converts each point in time to a Date. */
const parsers = new Map<number, (text: string) => unknown>([
  [builtins.TIMESTAMPTZ, pointInTime],
  [builtins.DATE, String],
  [builtins.INTERVAL, String],
  [builtins.MONEY, String],
  [builtins.FLOAT4, float4],
  [builtins.JSON, parseJsonColumn],
  [builtins.JSONB, parseJsonColumn],
  [lists.timeWithZone, listOf(pointInTime)],
  [lists.date, listOf(String)],
  [lists.interval, listOf(String)],
  [lists.numeric, listOf(String)],
  [lists.money, listOf(String)],
  [lists.float4, listOf(float4)],
  [lists.json, listOf(parseJsonColumn)],
  [lists.jsonb, listOf(parseJsonColumn)],
])

const noType: number = 0
const unread = pgTypes.getTypeParser(noType)
const known = new Set<number>([...Object.values(builtins), ...parsers.keys()])

function isKnown(oid: number): boolean {
  return known.has(oid) || pgTypes.getTypeParser(oid) !== unread
}

/** `timeZone` applies to times without a zone; default UTC. Values of `otherLists` are texts. */
function parserFor(
  timeZone: string | undefined,
  otherLists: ReadonlySet<number>,
): typeof pgTypes.getTypeParser {
  const clock: WallClock | undefined = timeZone === undefined ? undefined : wallClockOf(timeZone)
  const plain = (text: string) => timeOf(text, clock)
  const own = new Map([
    ...parsers,
    [builtins.TIMESTAMP, plain] as const,
    [lists.time, listOf(plain)] as const,
  ])
  return (oid: number, format?: unknown) =>
    own.get(oid) ?? (otherLists.has(oid) ? texts : pgTypes.getTypeParser(oid, format as 'text'))
}

/** Before version 12 the server sends more digits than the shortest form. */
function float4(text: string): number {
  return shortestFloat(Number(text))
}

function pointInTime(text: string): unknown {
  const value = moment(text)
  // Infinity, and dates outside JavaScript's range.
  if (!(value instanceof Date) || Number.isNaN(value.getTime())) return text
  return ExactTime.of(value, /\.(\d+)/.exec(text)?.[1] ?? '')
}

function listOf(parse: (text: string) => unknown): (text: string) => unknown {
  const each = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(each)
    return typeof value === 'string' ? parse(value) : value
  }
  return (text) => each(texts(text))
}
