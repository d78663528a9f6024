import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { Options } from 'node-firebird'
import { wallClockOf } from '../../domain/time-zone.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { inBatches } from './record-batches.ts'
import {
  type FirebirdColumn,
  firebirdText,
  firebirdValue,
  readRawValues,
} from './sql-firebird-values.ts'
import { ImpossibleValueError, type SqlRead, withRecordTimeout } from './sql-reader.ts'
import { DatabaseTimeoutError, maxRowsAhead, rowMaker } from './sql-rows.ts'

const closeTimeoutMs = 1_000
const maxPortionRows = 1_000
/** Memory limit of one response, which the driver keeps as a whole. */
const portionBytes = 512 * 1024
/** Bytes of a blob per request; the protocol allows no more. */
const blobBytes = 65_535
const varying = 448

/** The driver members that a read needs. The driver's own types lack some of them. */
type Callback<T> = (error: unknown, value: T) => void
type Transaction = {
  newStatement(text: string, done: Callback<Statement>): void
  rollback(done: Callback<void>): void
}
type Statement = {
  output: FirebirdColumn[]
  input: { type: number }[]
  execute(
    transaction: Transaction,
    values: readonly string[],
    done: Callback<void>,
    options: object,
  ): void
  fetch(
    transaction: Transaction,
    count: number,
    done: Callback<{ data: unknown[][]; fetched: boolean }>,
  ): void
}
type Database = {
  startTransaction(options: object, done: Callback<Transaction>): void
  detach(done: () => void): void
  on(event: 'error', listener: () => void): void
}
type Connection = {
  _socket: Socket
  cancelOperation(kind: number | undefined, done: () => void): void
}
/** A blob that is not read yet: the call requests it. */
type Blob = (
  transaction: Transaction,
  done: (e: unknown, name: string, data: EventEmitter) => void,
) => void

/**
 * Reads Firebird in portions, in a read-only transaction with a snapshot of the database. Values are sent as text, which the
 * server converts to the column's type. A query without a result for `timeoutMs` is canceled.
 */
export async function* readFirebird(read: SqlRead): AsyncGenerator<SourceRow[]> {
  const { statement, timeoutMs, fetchSize, signal } = read
  signal.throwIfAborted()
  const clock = read.timeZone === undefined ? undefined : wallClockOf(read.timeZone)
  const firebird = (await import('node-firebird')).default
  const options = firebirdOptions(read.url)
  // The driver would take one from the environment of the service, or try the one that every new server has.
  if (options.password === '') throw new SourceError({ code: 'FIREBIRD_NEEDS_PASSWORD' })
  let connection: Connection | undefined
  // A single shared promise would keep every response in memory until the end of the read.
  const waiting = new Set<(reason: unknown) => void>()
  let stopped: { reason: unknown } | undefined
  const untilStopped = async <T>(answer: Promise<T>): Promise<T> => {
    if (stopped) throw stopped.reason
    const given = Promise.withResolvers<never>()
    waiting.add(given.reject)
    try {
      return await Promise.race([answer, given.promise])
    } finally {
      waiting.delete(given.reject)
    }
  }
  const stop = (reason: unknown) => {
    stopped ??= { reason }
    for (const reject of waiting) reject(reason)
    // The server notices a closed connection only when it sends something.
    connection?.cancelOperation(undefined, () => undefined)
    connection?._socket.destroySoon()
  }
  const onAbort = () => stop(signal.reason)
  const onTimeout = () => stop(new DatabaseTimeoutError(timeoutMs))
  signal.addEventListener('abort', onAbort, { once: true })
  const preparing = setTimeout(onTimeout, timeoutMs)
  const call = <T>(start: (done: Callback<T>) => void): Promise<T> => {
    const answer = new Promise<T>((resolve, reject) =>
      start((error, value) => (error ? reject(error) : resolve(value))),
    )
    answer.catch(() => undefined)
    return untilStopped(answer)
  }
  let database: Database | undefined
  try {
    const attached = call<unknown>((done) =>
      firebird.attach({ ...options, isPool: true } as Options, done as never),
    )
    // Before the connection is established, the driver exposes it only here, as a type without what stops it.
    connection = firebird.connection as unknown as Connection
    database = (await attached) as Database
    database.on('error', () => undefined)
    const open = database
    const transaction = await call<Transaction>((done) =>
      open.startTransaction(
        { readOnly: true, isolation: firebird.ISOLATION_REPEATABLE_READ },
        done,
      ),
    )
    const prepared = await call<Statement>((done) => transaction.newStatement(statement.text, done))
    const columns = prepared.output
    readRawValues(columns)
    // Otherwise the driver would convert texts to times by this machine's zone.
    for (const input of prepared.input) input.type = varying
    await call<void>((done) =>
      prepared.execute(transaction, statement.values, done, { asObject: false }),
    ).catch(asImpossibleValue)
    clearTimeout(preparing)
    const toRow = rowMaker(columns.map(({ alias }) => alias))
    const context = { text: firebirdText(options.encoding), clock }
    const socket = connection._socket

    async function* records() {
      for (let portion = maxRowsAhead; ; ) {
        const before = socket.bytesRead
        const size = portion
        const answer = await call<{ data: unknown[][]; fetched: boolean }>((done) =>
          prepared.fetch(transaction, size, done),
        )
        const bytesEach = (socket.bytesRead - before) / Math.max(1, answer.data.length)
        for (const values of answer.data) {
          for (const [index, value] of values.entries()) {
            if (typeof value !== 'function') continue
            values[index] = await call<Buffer>((done) => readBlob(value as Blob, transaction, done))
          }
          yield toRow(columns.map((column, index) => firebirdValue(values[index], column, context)))
        }
        if (answer.fetched || answer.data.length === 0) return
        portion = Math.max(
          1,
          Math.min(fetchSize, maxPortionRows, Math.floor(portionBytes / bytesEach)),
        )
      }
    }
    yield* inBatches(withRecordTimeout(records(), timeoutMs, onTimeout), fetchSize, (row) => row)
  } finally {
    clearTimeout(preparing)
    signal.removeEventListener('abort', onAbort)
    await disconnect(database, connection)
  }
}

/** An orderly close, which also rolls back. The connection is dropped when the server does not respond. */
async function disconnect(
  database: Database | undefined,
  connection: Connection | undefined,
): Promise<void> {
  const socket = connection?._socket
  if (!socket) return
  if (database && !socket.destroyed && socket.writable) {
    const detached = Promise.withResolvers<void>()
    const timer = setTimeout(detached.resolve, closeTimeoutMs)
    database.detach(detached.resolve)
    await detached.promise
    clearTimeout(timer)
  }
  socket.destroy()
}

function readBlob(blob: Blob, transaction: Transaction, done: Callback<Buffer>): void {
  const pieces: Buffer[] = []
  blob(transaction, (error, _name, data) => {
    if (error) {
      done(error, Buffer.alloc(0))
      return
    }
    data.on('data', (piece: Buffer) => pieces.push(piece))
    data.on('end', () => done(undefined, Buffer.concat(pieces)))
    data.on('error', (failure: unknown) => done(failure, Buffer.alloc(0)))
  })
}

/**
 * The driver's options from `firebird://user:password@host:3050/path?charset=WIN1252&role=READER`. A path with a slash starts
 * at the server's root or at a drive (`C:/ERP/DATOS.FDB`). A path without a slash is an alias.
 */
function firebirdOptions(address: string) {
  const url = new URL(address)
  const path = decodeURIComponent(url.pathname.slice(1))
  const isFromRoot = path.includes('/') && !/^(?:\/|[A-Za-z]:\/)/.test(path)
  const role = url.searchParams.get('role')
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(url.port || 3050),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database: isFromRoot ? `/${path}` : path,
    encoding: (url.searchParams.get('charset') ?? 'UTF8').toUpperCase(),
    ...(role !== null && { role }),
    blobReadChunkSize: blobBytes,
    lowercase_keys: false,
  }
}

/** isc_dsql_error as the response to the values, before any record is read. */
const impossibleValue = 335_544_569

function asImpossibleValue(error: unknown): never {
  const { gdscode } = error as { gdscode?: unknown }
  if (gdscode !== impossibleValue) throw error
  throw new ImpossibleValueError(
    { code: 'IMPOSSIBLE_VALUE' },
    {
      cause: error,
    },
  )
}
