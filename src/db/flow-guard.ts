import { AsyncLocalStorage } from 'node:async_hooks'
import type { Dialect, Driver } from 'kysely'
import { DatabaseUnavailableError, OpenTransactionError } from './database-failures.ts'

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

/** Calls after the transaction of this flow has committed; at once outside of one. */
export function whenCommitted(call: () => void): void {
  const current = flow.getStore()
  if (current?.open) current.afterwards.push(call)
  else call()
}

/** Runs `work` outside of any transaction of this flow. */
export function leaveFlow<T>(work: () => T): T {
  return flow.exit(work)
}

const farewell = new AsyncLocalStorage<true>()

/** Runs `work` that closes a database: it may pass a closed gate. */
export function asLast<T>(work: () => T): T {
  return farewell.run(true, work)
}

/** Counts the connections in use, refuses new ones once closed. */
export class Gate {
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
export function guarded(dialect: Dialect, gate: Gate): Dialect {
  return {
    createAdapter: () => dialect.createAdapter(),
    createIntrospector: (db) => dialect.createIntrospector(db),
    createQueryCompiler: () => dialect.createQueryCompiler(),
    createDriver: () => guardedDriver(dialect.createDriver(), gate),
  }
}

function guardedDriver(driver: Driver, gate: Gate): Driver {
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
