import { connect, type Socket } from 'node:net'
import type { Readable } from 'node:stream'
// The default export: Node does not find all named exports of this CommonJS package.
import mysql, { type Connection, type FieldPacket } from 'mysql2'
import { type WallClock, wallClockOf } from '../../domain/time-zone.ts'
import type { SourceRow } from '../types.ts'
import { inBatches } from './record-batches.ts'
import { type SqlRead, withRecordTimeout } from './sql-reader.ts'
import {
  DatabaseTimeoutError,
  maxRowsAhead,
  parseJsonColumn,
  rowMaker,
  shortestFloat,
  timeOf,
  utcTime,
} from './sql-rows.ts'

// Read once: the package loads it again at each access.
const { Types } = mysql
const killWithinMs = 5_000
/** Error code ER_PARSE_ERROR. */
const parseError = 1064
/** How long the server waits while the reader is busy with received rows. Its default is one minute. */
const writeTimeoutSeconds = 3_600

/**
 * Reads a prepared statement as a stream in a read-only transaction (MySQL and MariaDB). The server's time limits
 * (max_execution_time, max_statement_time) also count the reader's own time. So the limit is applied here: KILL QUERY ends a
 * query without a result for `timeoutMs`.
 */
export async function* readMysql(read: SqlRead): AsyncGenerator<SourceRow[]> {
  const { statement, timeoutMs, fetchSize, signal } = read
  signal.throwIfAborted()
  const clock = read.timeZone === undefined ? undefined : wallClockOf(read.timeZone)
  const opened = open(read.url, timeoutMs)
  const { connection } = opened
  let isReading = false
  let records: Readable | undefined
  const given = Promise.withResolvers<never>()
  given.promise.catch(() => undefined)
  const stop = (reason?: unknown) => {
    if (isReading) killQuery(read.url, connection.threadId)
    isReading = false
    opened.drop()
    // Dropping the connection does not end the stream.
    records?.destroy(reason as Error | undefined)
    given.reject(reason)
  }
  const onAbort = () => stop(signal.reason)
  const onTimeout = () => stop(new DatabaseTimeoutError(timeoutMs))
  const preparing = setTimeout(onTimeout, timeoutMs)
  signal.addEventListener('abort', onAbort, { once: true })
  const prepare = (sql: string) => Promise.race([run(connection, sql), given.promise])
  try {
    await prepare(`set time_zone = '+00:00', net_write_timeout = ${writeTimeoutSeconds}`)
    try {
      await prepare('start transaction read only')
    } catch (error) {
      // MySQL before 5.6 and MariaDB before 10.0 have no read-only transaction. sql-select.ts still allows only a SELECT.
      if ((error as { errno?: unknown }).errno !== parseError) throw error
      await prepare('start transaction')
    }
    clearTimeout(preparing)
    isReading = true
    let columns: FieldPacket[] = []
    const stream: Readable = connection
      .execute({ sql: statement.text, rowsAsArray: true }, statement.values)
      .stream({ highWaterMark: Math.min(fetchSize, maxRowsAhead) })
      .on('fields', (fields: FieldPacket[]) => {
        columns = fields
      })
    // A broken connection emits an error only on itself, not on the stream.
    connection.on('error', (error) => stream.destroy(error))
    records = stream
    let toRow: ((values: readonly unknown[]) => SourceRow) | undefined
    const make = (values: unknown[]) => {
      toRow ??= rowMaker(columns.map(({ name }) => name))
      return toRow(values.map((value, index) => columnValue(value, columns[index], clock)))
    }
    yield* inBatches<unknown[]>(withRecordTimeout(stream, timeoutMs, onTimeout), fetchSize, make)
    isReading = false
  } finally {
    clearTimeout(preparing)
    signal.removeEventListener('abort', onAbort)
    stop()
  }
}

function open(url: string, timeoutMs: number): { connection: Connection; drop: () => void } {
  let socket: Socket | undefined
  const connection = mysql.createConnection({
    uri: url,
    connectTimeout: timeoutMs,
    timezone: 'Z',
    dateStrings: true,
    supportBigNumbers: true,
    bigNumberStrings: true,
    jsonStrings: true,
    multipleStatements: false,
    // The driver's own close waits for the server.
    stream: ({ config }: { config: { port: number; host: string; socketPath?: string } }) => {
      socket = config.socketPath ? connect(config.socketPath) : connect(config.port, config.host)
      socket.setKeepAlive(true)
      return socket
    },
  })
  // The pending request receives the same error.
  connection.on('error', () => undefined)
  const drop = () => {
    connection.destroy()
    socket?.destroy()
  }
  return { connection, drop }
}

function run(connection: Connection, sql: string): Promise<void> {
  return new Promise((resolve, reject) => {
    connection.query(sql, (error) => (error ? reject(error) : resolve()))
  })
}

/** Best effort: the server notices a closed connection only when it sends something. */
function killQuery(url: string, threadId: number): void {
  const { connection, drop } = open(url, killWithinMs)
  const timer = setTimeout(drop, killWithinMs)
  run(connection, `kill query ${Number(threadId)}`)
    .catch(() => undefined)
    .finally(() => {
      clearTimeout(timer)
      drop()
    })
}

function columnValue(
  value: unknown,
  column: FieldPacket | undefined,
  clock: WallClock | undefined,
): unknown {
  switch (column?.columnType) {
    case Types.DATETIME:
      return typeof value === 'string' ? timeOf(value, clock) : value
    // The session is in UTC, and so are these values.
    case Types.TIMESTAMP:
      return typeof value === 'string' ? utcTime(value) : value
    case Types.JSON:
      return typeof value === 'string' ? parseJsonColumn(value) : value
    case Types.FLOAT:
      return typeof value === 'number' ? shortestFloat(value) : value
    case Types.BIT:
      return value instanceof Uint8Array ? bitNumber(value) : value
    default:
      return value
  }
}

/** A number when it is exact, else its digits. */
function bitNumber(bytes: Uint8Array): number | string {
  const number = BigInt(`0x${Buffer.from(bytes).toString('hex')}`)
  return number <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(number) : String(number)
}
