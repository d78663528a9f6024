import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { type DatabaseConnection, type Dialect, type Driver, sql } from 'kysely'
import { type Backoff, backoffMs } from '../domain/backoff.ts'
import { createSemaphore } from '../domain/semaphore.ts'
import type { Db, Trx } from './database.ts'
import {
  DatabaseUnavailableError,
  isRepeatable,
  OpenTransactionError,
} from './database-failures.ts'
import type { DatabaseLog, Engine } from './engine.ts'
import type { WriteProof } from './write-check.ts'

/** `open` ends with the transaction. Later work of the same flow (a timer) may use the database again. */
type Flow = { open: boolean; afterwards: (() => void)[] }

const flow = new AsyncLocalStorage<Flow>()

/** @throws OpenTransactionError while a transaction of the same asynchronous flow is open. */
export function assertOutsideTransaction(): void {
  if (flow.getStore()?.open) throw new OpenTransactionError()
}

/**
 * Runs `transaction` and marks everything that its work calls as inside a transaction. Functions for the commit
 * (`whenCommitted`) run after it, also if its outcome is unknown, and never if it failed.
 */
export async function insideTransaction<T>(
  transaction: (inside: <R>(work: () => Promise<R>) => Promise<R>) => Promise<T>,
): Promise<T> {
  const mine: Flow = { open: true, afterwards: [] }
  const callAfterwards = () => {
    for (const call of mine.afterwards) call()
  }
  try {
    const result = await transaction(async (work) => {
      try {
        return await flow.run(mine, work)
      } finally {
        mine.open = false
      }
    })
    callAfterwards()
    return result
  } catch (error) {
    if (error instanceof DatabaseUnavailableError) callAfterwards()
    throw error
  }
}

const TRANSACTION_ATTEMPTS = 5
/** Wholly random: what collided must not collide again. */
const PAUSES: Backoff = { firstMs: 20, longestMs: 320, jitter: 1 }

/** Like Database.transaction: runs `work` again after a serialization failure or a deadlock. */
export async function runTransaction<T>(
  db: Db,
  work: (trx: Trx) => Promise<T>,
  writeProof: WriteProof,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await insideTransaction((inside) =>
        db.transaction().execute((trx) => inside(() => work(trx))),
      )
    } catch (error) {
      writeProof.noteFailure(error)
      if (!isRepeatable(error) || attempt === TRANSACTION_ATTEMPTS) throw error
      await sleep(backoffMs(attempt, PAUSES))
    }
  }
}

/** Calls after the transaction of this flow has committed; at once outside of one. */
export function whenCommitted(call: () => void): void {
  const current = flow.getStore()
  if (current?.open) current.afterwards.push(call)
  else call()
}

/** Runs `work`, which a transaction starts but does not wait for, outside of this transaction. */
export function outsideTransaction<T>(work: () => T): T {
  return flow.exit(work)
}

const farewell = new AsyncLocalStorage<true>()

/** Runs `work` that closes a database: it may pass a closed gate. */
export function asLast<T>(work: () => T): T {
  return farewell.run(true, work)
}

/** Counts the connections in use, refuses new ones once closed. */
export class ConnectionGate {
  #inUse = 0
  #closed = false
  #onIdle: (() => void) | undefined

  get inUse(): number {
    return this.#inUse
  }

  enter(): void {
    assertOutsideTransaction()
    if (this.#closed && !farewell.getStore()) {
      throw new DatabaseUnavailableError('The database is closed')
    }
    this.#inUse += 1
  }

  leave(): void {
    this.#inUse -= 1
    if (this.#inUse === 0) this.#onIdle?.()
  }

  /** Refuses new users at once; resolves when the last user has left, or after `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    this.#closed = true
    if (this.#inUse === 0) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs)
      this.#onIdle = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/**
 * The dialect with a gate before its connections. A query of a transaction has its connection and does not pass here.
 * Another query that passes while a transaction of its flow is open did not use the transaction's handle, so it fails
 * at once. Otherwise the embedded database would hang, and PostgreSQL would write outside the transaction.
 */
export function guarded(dialect: Dialect, gate: ConnectionGate): Dialect {
  return {
    createAdapter: () => dialect.createAdapter(),
    createIntrospector: (db) => dialect.createIntrospector(db),
    createQueryCompiler: () => dialect.createQueryCompiler(),
    createDriver: () => guardedDriver(dialect.createDriver(), gate),
  }
}

function guardedDriver(driver: Driver, gate: ConnectionGate): Driver {
  return {
    init: (options) => driver.init(options),
    acquireConnection: async (options) => {
      gate.enter()
      try {
        return await driver.acquireConnection(options)
      } catch (error) {
        gate.leave()
        throw error
      }
    },
    releaseConnection: async (connection, options) => {
      try {
        await driver.releaseConnection(connection, options)
      } finally {
        gate.leave()
      }
    },
    beginTransaction: (connection, settings) => driver.beginTransaction(connection, settings),
    commitTransaction: (connection) => driver.commitTransaction(connection),
    rollbackTransaction: (connection) => driver.rollbackTransaction(connection),
    savepoint: async (...args) => await driver.savepoint?.(...args),
    rollbackToSavepoint: async (...args) => await driver.rollbackToSavepoint?.(...args),
    releaseSavepoint: async (...args) => await driver.releaseSavepoint?.(...args),
    destroy: (options) => driver.destroy(options),
  }
}

/**
 * The driver for work that uses at most `most` of its connections at a time. This work waits in the order of its
 * requests, so other work never waits behind all of it.
 */
export function limitConnections(driver: Driver, most: number): Driver {
  const slots = createSemaphore(most)
  const releases = new WeakMap<DatabaseConnection, () => void>()

  return {
    ...driver,
    acquireConnection: async (options) => {
      // A query inside a transaction would wait for itself.
      assertOutsideTransaction()
      const release = await slots.acquire()
      try {
        const connection = await driver.acquireConnection(options)
        releases.set(connection, release)
        return connection
      } catch (error) {
        release()
        throw error
      }
    },
    releaseConnection: async (connection, options) => {
      // Read before, because the next one may get the same connection at once.
      const release = releases.get(connection)
      try {
        await driver.releaseConnection(connection, options)
      } finally {
        release?.()
      }
    },
  }
}

type Announcer = {
  announce(channel: string, payload: string): void
  /** Sends what is collected. Never fails. */
  close(): Promise<void>
}

/** PostgreSQL accepts no longer payload, and one would prevent the others from being sent. */
const longestPayload = 7_999
/** While the database is unreachable: listeners that miss one read the tables by themselves. */
const waitingAtMost = 1_000
const retryMs = 1_000

/** Short compared with a wake-up, long compared with a statement: simultaneous announcements are sent together. */
const collectMs = 4
/** Statements of announcements begin this long after each other, so that their number has a limit at any load. */
const spacingMs = 25

/**
 * NOTIFY takes a lock of the whole database at the commit, so transactions with NOTIFY wait for each other's disk.
 * Announcements are sent afterwards in one statement, which delays no transaction: at once when none was sent a moment
 * ago, else at most every `spacingMs`. With `notifyLocal` no statement is needed. A crash in between loses a hint.
 */
export function createAnnouncer(
  db: Db,
  log: DatabaseLog,
  notifyLocal?: Engine['notifyLocal'],
): Announcer {
  let waiting: { channel: string; payload: string }[] = []
  let timer: NodeJS.Timeout | undefined
  let sending: Promise<void> = Promise.resolve()
  let isClosed = false
  let sentMs = Number.NEGATIVE_INFINITY

  const send = async () => {
    timer = undefined
    const pending = waiting
    waiting = []
    if (pending.length === 0) return
    if (notifyLocal) {
      for (const { channel, payload } of pending) notifyLocal(channel, payload)
      return
    }
    sentMs = performance.now()
    try {
      await sql`select pg_notify(t.channel, t.payload)
        from jsonb_to_recordset(${JSON.stringify(pending)}::jsonb) as t(channel text, payload text)`.execute(
        db,
      )
    } catch (error) {
      if (isClosed) return
      log(
        'warn',
        { err: error, pending: pending.length },
        'changes could not be announced; other processes poll',
      )
      waiting = [...pending, ...waiting].slice(-waitingAtMost)
      soon(retryMs)
    }
  }
  const soon = (ms: number) => {
    // Outside the caller's flow: it may be in a transaction that ends before.
    timer ??= outsideTransaction(() =>
      setTimeout(() => {
        sending = sending.then(send)
      }, ms).unref(),
    )
  }

  return {
    announce(channel, payload) {
      if (Buffer.byteLength(payload) > longestPayload) {
        log('error', { channel }, 'the payload of a database notification is too long')
        return
      }
      whenCommitted(() => {
        waiting.push({ channel, payload })
        const leftMs = sentMs + spacingMs - performance.now()
        soon(Math.min(Math.max(collectMs, leftMs), spacingMs))
      })
    },
    async close() {
      isClosed = true
      clearTimeout(timer)
      sending = sending.then(send)
      await sending
    },
  }
}

/** Delivers the notifications of `channel`. A failure of the functions given is logged. */
export async function listen(
  engine: Engine,
  log: DatabaseLog,
  channel: string,
  { onPayload, onGap }: { onPayload: (payload: string) => void; onGap?: (() => void) | undefined },
): Promise<() => Promise<void>> {
  assertOutsideTransaction()
  const safely = (call: () => void) => {
    try {
      call()
    } catch (error) {
      // A socket or a microtask called it, so an uncaught error would end the process.
      log('error', { err: error, channel }, 'a listener of the database failed')
    }
  }
  return await engine.listen(channel, {
    onPayload: (payload) => safely(() => onPayload(payload)),
    onGap: () => safely(() => onGap?.()),
  })
}
