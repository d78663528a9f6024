import { Socket } from 'node:net'
import { Client, types as pgTypes, type QueryArrayResult } from 'pg'
import type { SourceRow } from '../types.ts'
import { parseExactJson } from './exact-json.ts'
import { codeOf } from './failures.ts'
import { ImpossibleValueError, type SqlRead } from './sql-driver.ts'
import { rowMaker, utcTime } from './sql-rows.ts'

/** How much longer than the server's own limit an answer may take before the connection counts as dead. */
const graceMs = 5_000
const goodbyeMs = 1_000

/**
 * Reads through a cursor of the server in a read-only transaction. Not through a portal (pg-query-stream): its statement
 * timeout goes on while the reader works on what it got, so that a long read would fail however fast the server is.
 */
export async function* readPostgres(read: SqlRead): AsyncGenerator<SourceRow[]> {
  const { statement, timeoutMs, fetchSize, signal } = read
  signal.throwIfAborted()
  const socket = new Socket()
  const client = new Client({
    connectionString: read.url,
    stream: () => socket,
    application_name: 'tillbridge',
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs + graceMs,
    keepAlive: true,
    types: { getTypeParser: parserOf },
  })
  // What ends the connection also ends the query that waits for it.
  client.on('error', () => undefined)
  const abort = () => socket.destroy()
  signal.addEventListener('abort', abort, { once: true })
  try {
    await client.connect()
    await client.query(
      `begin read only;
       set local statement_timeout = ${Math.ceil(timeoutMs)};
       set local time zone 'UTC';
       set local datestyle to iso`,
    )
    await client
      .query({
        text: `declare tillbridge no scroll cursor for ${statement.text}`,
        values: statement.values,
        ...oneStatement,
      })
      .catch(asImpossibleValue)
    for (;;) {
      const answer: QueryArrayResult<unknown[]> = await client.query({
        text: `fetch ${fetchSize} from tillbridge`,
        rowMode: 'array',
        ...oneStatement,
      })
      const toRow = rowMaker(answer.fields.map(({ name }) => name))
      if (answer.rows.length > 0) yield answer.rows.map(toRow)
      if (answer.rows.length < fetchSize) return
    }
  } finally {
    signal.removeEventListener('abort', abort)
    // A clean goodbye, which also rolls back; a server that does not take it is left.
    const left = setTimeout(abort, goodbyeMs)
    await client.end().catch(() => undefined)
    clearTimeout(left)
    socket.destroy()
  }
}

/** The extended protocol takes a single statement, so a query cannot end the read-only transaction and go on. */
const oneStatement: object = { queryMode: 'extended' }

// SQLSTATE: invalid text representation, out of range, two of date and time, a character the encoding has not.
const impossibleValues = new Set(['22P02', '22003', '22007', '22008', '22021'])

/** No record has been looked at when the cursor is declared, so it can only be about a parameter. */
function asImpossibleValue(error: unknown): never {
  if (!impossibleValues.has(codeOf(error) ?? '')) throw error
  throw new ImpossibleValueError('a parameter has a value that its column cannot hold', {
    cause: error,
  })
}

const { builtins } = pgTypes
// pg_type.dat of PostgreSQL.
const lists = {
  text: 1009,
  time: 1115,
  timeWithZone: 1185,
  date: 1182,
  interval: 1187,
  numeric: 1231,
  money: 791,
}
const moment: (text: string) => unknown = pgTypes.getTypeParser(builtins.TIMESTAMPTZ)

/** Keeps what is exact as text (bigint, numeric, money, date alone) and makes a Date of every point in time. */
const parsers = new Map<number, (text: string) => unknown>([
  [builtins.TIMESTAMP, utcTime],
  [builtins.TIMESTAMPTZ, pointInTime],
  [builtins.DATE, String],
  [builtins.INTERVAL, String],
  [builtins.MONEY, String],
  [builtins.JSON, parseExactJson],
  [builtins.JSONB, parseExactJson],
  [lists.time, listOf(utcTime)],
  [lists.timeWithZone, listOf(pointInTime)],
  [lists.date, listOf(String)],
  [lists.interval, listOf(String)],
  [lists.numeric, listOf(String)],
  [lists.money, listOf(String)],
])

const parserOf: typeof pgTypes.getTypeParser = (oid: number, format?: unknown) =>
  parsers.get(oid) ?? pgTypes.getTypeParser(oid, format as 'text')

function pointInTime(text: string): unknown {
  const value = moment(text)
  // Infinity and dates that JavaScript does not know.
  return value instanceof Date && !Number.isNaN(value.getTime()) ? value : text
}

function listOf(parse: (text: string) => unknown): (text: string) => unknown {
  const texts: (text: string) => unknown = pgTypes.getTypeParser(lists.text)
  const each = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(each)
    return typeof value === 'string' ? parse(value) : value
  }
  return (text) => each(texts(text))
}
