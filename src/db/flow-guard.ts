import { AsyncLocalStorage } from 'node:async_hooks'
import type { Dialect, Driver } from 'kysely'
import { DatabaseUnavailableError, OpenTransactionError } from './database-failures.ts'

/** `open` ends with the transaction: work it left behind (a timer) keeps the storage but may use the database again. */
type Flow = { open: boolean; afterwards: (() => void)[] }

const flow = new AsyncLocalStorage<Flow>()

/** Throws OpenTransactionError while a transaction of the same asynchronous flow is open. */
export function assertOutsideTransaction(): void {
  if (flow.getStore()?.open) throw new OpenTransactionError()
}

/**
 * Runs `transaction` with a mark for everything that its work calls, however deep, as inside a transaction. What was left
 * for the commit (`whenCommitted`) is called after it, also when nobody knows whether it happened, and never when it did not.
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

/** Calls once the transaction of this flow has committed; at once outside of one. */
export function whenCommitted(call: () => void): void {
  const current = flow.getStore()
  if (current?.open) current.afterwards.push(call)
  else call()
}

/** Runs `work` as nobody's: what it begins is no part of a transaction. */
export function leaveFlow<T>(work: () => T): T {
  return flow.exit(work)
}

const farewell = new AsyncLocalStorage<true>()

/** Runs `work` as what ends a database: a gate that is closed lets it pass. */
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

  /** Refuses newcomers at once; resolves when the last user has left, or after `timeoutMs`. */
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
 * The dialect with a gate before its connections. A query of a transaction does not pass here (it has its connection), so
 * whoever does while a transaction of his flow is open forgot to use its handle: an error at once on both databases,
 * where the embedded one would hang and PostgreSQL would write outside the transaction.
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
