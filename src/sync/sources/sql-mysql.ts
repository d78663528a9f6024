import { connect, type Socket } from 'node:net'
// By its default export: Node finds not all names of a CommonJS package.
import mysql, { type Connection, type FieldPacket } from 'mysql2'
import type { SourceRow } from '../types.ts'
import { inBatches } from './counted.ts'
import { parseExactJson } from './exact-json.ts'
import { watchSilence } from './silence.ts'
import type { SqlRead } from './sql-driver.ts'
import { rowMaker, SilentDatabaseError, shortestFloat, utcTime } from './sql-rows.ts'

const killWithinMs = 5_000
/** How long the server waits for a reader who is busy with what it got; its default is a minute. */
const patienceSeconds = 3_600

/**
 * Reads a prepared statement as a stream in a read-only transaction (MySQL and MariaDB). The server's own time limits
 * (max_execution_time, max_statement_time) also count the time that the reader is busy, so the limit is kept here: a
 * query that gives nothing for `timeoutMs` is ended by KILL QUERY.
 */
export async function* readMysql(read: SqlRead): AsyncGenerator<SourceRow[]> {
  const { statement, timeoutMs, fetchSize, signal } = read
  signal.throwIfAborted()
  const opened = open(read.url, timeoutMs)
  const { connection } = opened
  let isReading = false
  let silence: SilentDatabaseError | undefined
  const stop = () => {
    if (isReading) killQuery(read.url, connection.threadId)
    isReading = false
    opened.drop()
  }
  const onSilence = () => {
    silence = new SilentDatabaseError(timeoutMs)
    stop()
  }
  signal.addEventListener('abort', stop, { once: true })
  try {
    await run(connection, `set time_zone = '+00:00', net_write_timeout = ${patienceSeconds}`)
    await run(connection, 'start transaction read only')
    isReading = true
    let columns: FieldPacket[] = []
    const records = connection
      .execute({ sql: statement.text, rowsAsArray: true }, statement.values)
      .stream({ highWaterMark: fetchSize })
      .on('fields', (fields: FieldPacket[]) => {
        columns = fields
      })
    // A connection that breaks tells itself only, not the stream that waits.
    connection.on('error', (error) => records.destroy(error))
    let toRow: ((values: readonly unknown[]) => SourceRow) | undefined
    for await (const batch of inBatches(watchSilence(records, timeoutMs, onSilence), fetchSize)) {
      toRow ??= rowMaker(columns.map(({ name }) => name))
      const make = toRow
      yield batch.map((values: unknown[]) =>
        make(values.map((value, index) => columnValue(value, columns[index]))),
      )
    }
    isReading = false
  } catch (error) {
    throw silence ?? error
  } finally {
    signal.removeEventListener('abort', stop)
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
    // The driver's own way to end a connection waits for the other side.
    stream: ({ config }: { config: { port: number; host: string; socketPath?: string } }) => {
      socket = config.socketPath ? connect(config.socketPath) : connect(config.port, config.host)
      socket.setKeepAlive(true)
      return socket
    },
  })
  // Whoever waits for an answer hears of it too.
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

/** Best effort: the server notices a closed connection only when it has something to send. */
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

function columnValue(value: unknown, column: FieldPacket | undefined): unknown {
  switch (column?.columnType) {
    case mysql.Types.DATETIME:
    case mysql.Types.TIMESTAMP:
      return typeof value === 'string' ? utcTime(value) : value
    case mysql.Types.JSON:
      return typeof value === 'string' ? parseExactJson(value) : value
    case mysql.Types.FLOAT:
      return typeof value === 'number' ? shortestFloat(value) : value
    case mysql.Types.BIT:
      return value instanceof Uint8Array ? bitNumber(value) : value
    default:
      return value
  }
}

/** A number when it is exact as one, else its digits. */
function bitNumber(bytes: Uint8Array): number | string {
  const number = BigInt(`0x${Buffer.from(bytes).toString('hex')}`)
  return number <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(number) : String(number)
}
