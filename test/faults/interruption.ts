import { AsyncLocalStorage } from 'node:async_hooks'
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely'
import type { Database } from '../../src/db/database.ts'
import { DatabaseUnavailableError } from '../../src/db/database-failures.ts'
import { build } from '../../src/db/open-database.ts'

/**
 * An interruption of one request at one of its steps; a step is a statement, or a whole transaction. `stall`: it waits
 * there, with its timers, until `release`. `cut`: the database has done that step, and each later one fails.
 */
export type Interruption = {
  readonly kind: 'stall' | 'cut'
  /** Resolves when the request has reached the step. */
  readonly reached: Promise<void>
  /** Lets the request continue. */
  release(): void
}

type ActiveInterruption = Interruption & {
  enter(): Promise<void>
  observe(sql: string): void
  leave(): Promise<void>
}

const flow = new AsyncLocalStorage<ActiveInterruption>()

/** An interruption at the end of step number `at`, counted from 1; with `from` the first is the one with such a statement. */
export function createInterruption(
  kind: Interruption['kind'],
  at: number,
  from = /(?:)/,
): Interruption {
  const reached = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  let steps = 0
  let begun = false
  const interrupt = async () => {
    if (kind === 'stall') await released.promise
    else throw new DatabaseUnavailableError('The database went away')
  }
  const active: ActiveInterruption = {
    kind,
    reached: reached.promise,
    release: released.resolve,
    async enter() {
      if (steps >= at) await interrupt()
    },
    observe(sql) {
      begun ||= from.test(sql)
    },
    async leave() {
      if (!begun) return
      steps += 1
      if (steps < at) return
      reached.resolve()
      await interrupt()
    },
  }
  return active
}

/** Runs `work`, and everything that it starts, with this interruption. */
export function withInterruption<T>(
  interruption: Interruption,
  work: () => Promise<T>,
): Promise<T> {
  return flow.run(interruption as ActiveInterruption, work)
}

/** The same database with this clock; each request has its own interruption. */
export function interruptible(database: Database, now: () => Date): Database {
  const own = build({
    name: database.engine,
    dialect: connectionsOf(database),
    listen: (channel, { onPayload, onGap }) => database.listen(channel, onPayload, onGap),
    stop: async () => {},
    disconnect: async () => {},
  })
  return { ...own, clockMs: async () => now().getTime() }
}

/** Connections of another Kysely. An interruption comes after a connection was released, so it keeps none of them. */
function connectionsOf(database: Database): Dialect {
  const releases = new WeakMap<DatabaseConnection, () => Promise<void>>()
  const underneath = new WeakMap<DatabaseConnection, DatabaseConnection>()
  // The embedded database has its own functions for a transaction.
  const run = async (connection: DatabaseConnection, command: 'begin' | 'commit' | 'rollback') => {
    const own = underneath.get(connection) as DatabaseConnection & Record<string, unknown>
    if (typeof own[command] === 'function') await own[command]({})
    else await connection.executeQuery(CompiledQuery.raw(command))
  }
  const driver: Driver = {
    async init() {},
    async acquireConnection() {
      await flow.getStore()?.enter()
      const taken = Promise.withResolvers<DatabaseConnection>()
      const done = Promise.withResolvers<void>()
      const provided = database.db.getExecutor().provideConnection(async (connection) => {
        const watched: DatabaseConnection = {
          executeQuery: (query, options) => {
            flow.getStore()?.observe(query.sql)
            return connection.executeQuery(query, options)
          },
          streamQuery: (...args) => connection.streamQuery(...args),
        }
        underneath.set(watched, connection)
        releases.set(watched, () => {
          done.resolve()
          return provided
        })
        taken.resolve(watched)
        await done.promise
      })
      provided.catch(taken.reject)
      return taken.promise
    },
    async releaseConnection(connection) {
      await releases.get(connection)?.()
      await flow.getStore()?.leave()
    },
    beginTransaction: (connection) => run(connection, 'begin'),
    commitTransaction: (connection) => run(connection, 'commit'),
    rollbackTransaction: (connection) => run(connection, 'rollback'),
    async destroy() {},
  }
  return {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => driver,
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  }
}

/** Advances the monotonic time of this process on demand, until `restore`. */
export function movableMonotonicTime(): { advance(ms: number): void; restore(): void } {
  const real = performance.now
  let aheadMs = 0
  performance.now = () => real.call(performance) + aheadMs
  return {
    advance(ms) {
      aheadMs += ms
    },
    restore() {
      performance.now = real
    },
  }
}
