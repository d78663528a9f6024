import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { Options } from 'node-firebird'
import { wallClockOf } from '../../domain/time-zone.ts'
import type { SourceRow } from '../types.ts'
import { inBatches } from './counted.ts'
import { watchSilence } from './silence.ts'
import { ImpossibleValueError, type SqlRead } from './sql-driver.ts'
import {
  type FirebirdColumn,
  firebirdText,
  firebirdValue,
  takeAsTheyCome,
} from './sql-firebird-values.ts'
import { maxRowsAhead, rowMaker, SilentDatabaseError } from './sql-rows.ts'

const goodbyeMs = 1_000
const maxPortionRows = 1_000
/** Of the records of one answer: the driver holds it as a whole. */
const portionBytes = 512 * 1024
/** Of a blob for each question; more is not possible. */
const blobBytes = 65_535
const varying = 448

/** As much of the driver as a read needs: its own types know less of columns and connections. */
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
/** A blob is a question still to be asked. */
type Blob = (
  transaction: Transaction,
  done: (e: unknown, name: string, data: EventEmitter) => void,
) => void

/**
 * Reads in portions in a read-only transaction that sees the database as it was when it began (Firebird). Values go as texts, which
 * the server converts to the type of the column. A query that gives nothing for `timeoutMs` is canceled.
 */
export async function* readFirebird(read: SqlRead): AsyncGenerator<SourceRow[]> {
  const { statement, timeoutMs, fetchSize, signal } = read
  signal.throwIfAborted()
  const clock = read.timeZone === undefined ? undefined : wallClockOf(read.timeZone)
  const firebird = (await import('node-firebird')).default
  const options = firebirdOptions(read.url)
  let connection: Connection | undefined
  // One promise for all of them would hold every answer until the end of the read.
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
    for (const give of waiting) give(reason)
    // The server notices a closed connection only when it has something to send.
    connection?.cancelOperation(undefined, () => undefined)
    connection?._socket.destroySoon()
  }
  const onAbort = () => stop(signal.reason)
  const onSilence = () => stop(new SilentDatabaseError(timeoutMs))
  signal.addEventListener('abort', onAbort, { once: true })
  const preparing = setTimeout(onSilence, timeoutMs)
  const ask = <T>(start: (done: Callback<T>) => void): Promise<T> => {
    const answer = new Promise<T>((resolve, reject) =>
      start((error, value) => (error ? reject(error) : resolve(value))),
    )
    answer.catch(() => undefined)
    return untilStopped(answer)
  }
  let database: Database | undefined
  try {
    const attached = ask<unknown>((done) =>
      firebird.attach({ ...options, isPool: true } as Options, done as never),
    )
    // The driver tells of a connection in no other way before it stands.
    connection = firebird.connection as unknown as Connection
    database = (await attached) as Database
    database.on('error', () => undefined)
    const open = database
    const transaction = await ask<Transaction>((done) =>
      open.startTransaction(
        { readOnly: true, isolation: firebird.ISOLATION_REPEATABLE_READ },
        done,
      ),
    )
    const prepared = await ask<Statement>((done) => transaction.newStatement(statement.text, done))
    const columns = prepared.output
    takeAsTheyCome(columns)
    // The driver would make times of texts by the zone of this machine.
    for (const input of prepared.input) input.type = varying
    await ask<void>((done) =>
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
        const answer = await ask<{ data: unknown[][]; fetched: boolean }>((done) =>
          prepared.fetch(transaction, size, done),
        )
        const bytesEach = (socket.bytesRead - before) / Math.max(1, answer.data.length)
        for (const values of answer.data) {
          for (const [index, value] of values.entries()) {
            if (typeof value !== 'function') continue
            values[index] = await ask<Buffer>((done) => readBlob(value as Blob, transaction, done))
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
    yield* inBatches(watchSilence(records(), timeoutMs, onSilence), fetchSize, (row) => row)
  } finally {
    clearTimeout(preparing)
    signal.removeEventListener('abort', onAbort)
    await leave(database, connection)
  }
}

/** A clean goodbye, which also rolls back; a server that does not take it is left. */
async function leave(
  database: Database | undefined,
  connection: Connection | undefined,
): Promise<void> {
  const socket = connection?._socket
  if (!socket) return
  if (database && !socket.destroyed && socket.writable) {
    const said = Promise.withResolvers<void>()
    const late = setTimeout(said.resolve, goodbyeMs)
    database.detach(said.resolve)
    await said.promise
    clearTimeout(late)
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
 * What the driver wants of `firebird://user:password@host:3050/path?charset=WIN1252&role=READER`. A path with a slash in it is
 * one from the root of the server, or of a drive (`C:/ERP/DATOS.FDB`); without one it is an alias.
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

/** isc_dsql_error as the answer to values, where no record has been looked at yet. */
const impossibleValue = 335_544_569

function asImpossibleValue(error: unknown): never {
  const { gdscode } = error as { gdscode?: unknown }
  if (gdscode !== impossibleValue) throw error
  throw new ImpossibleValueError('a parameter has a value that its column cannot hold', {
    cause: error,
  })
}
