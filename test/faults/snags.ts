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
import { build, type Database } from '../../src/db/database.ts'
import { DatabaseUnavailableError } from '../../src/db/database-failures.ts'

/**
 * What happens to one request at one of its steps; a step is a statement, or a whole transaction. `stall`: it stands still
 * there, with its timers, until it is released. `cut`: the database has done that step, and is away for it from then on.
 */
export type Snag = {
  readonly kind: 'stall' | 'cut'
  /** Resolves when the request has come so far. */
  readonly reached: Promise<void>
  /** Lets it go on. */
  release(): void
}

type Caught = Snag & { enter(): Promise<void>; sees(sql: string): void; leave(): Promise<void> }

const flow = new AsyncLocalStorage<Caught>()

/** A snag at the end of step number `at`, counted from 1; with `from` the first is the one with such a statement. */
export function createSnag(kind: Snag['kind'], at: number, from = /(?:)/): Snag {
  const reached = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  let steps = 0
  let begun = false
  const hold = async () => {
    if (kind === 'stall') await released.promise
    else throw new DatabaseUnavailableError('The database went away')
  }
  const caught: Caught = {
    kind,
    reached: reached.promise,
    release: released.resolve,
    async enter() {
      if (steps >= at) await hold()
    },
    sees(sql) {
      begun ||= from.test(sql)
    },
    async leave() {
      if (!begun) return
      steps += 1
      if (steps < at) return
      reached.resolve()
      await hold()
    },
  }
  return caught
}

/** Does `work`, and everything that it sets off, with this snag. */
export function withSnag<T>(snag: Snag, work: () => Promise<T>): Promise<T> {
  return flow.run(snag as Caught, work)
}

/** The same database, where each request meets its own snag, and whose clock is this one. */
export function snagged(database: Database, now: () => Date): Database {
  const own = build({
    name: database.engine,
    dialect: borrowed(database),
    listen: (channel, { onPayload, onGap }) => database.listen(channel, onPayload, onGap),
    stop: async () => {},
    disconnect: async () => {},
  })
  return { ...own, clockMs: async () => now().getTime() }
}

/** Connections of another Kysely: a snag holds none of them, since it comes after they were given back. */
function borrowed(database: Database): Dialect {
  const givenBack = new WeakMap<DatabaseConnection, () => Promise<void>>()
  const underneath = new WeakMap<DatabaseConnection, DatabaseConnection>()
  // The embedded database has its own way to hold a transaction together.
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
      const lent = database.db.getExecutor().provideConnection(async (connection) => {
        const watched: DatabaseConnection = {
          executeQuery: (query, options) => {
            flow.getStore()?.sees(query.sql)
            return connection.executeQuery(query, options)
          },
          streamQuery: (...args) => connection.streamQuery(...args),
        }
        underneath.set(watched, connection)
        givenBack.set(watched, () => {
          done.resolve()
          return lent
        })
        taken.resolve(watched)
        await done.promise
      })
      lent.catch(taken.reject)
      return taken.promise
    },
    async releaseConnection(connection) {
      await givenBack.get(connection)?.()
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

/** Moves what every process measures as time that has passed; returns the function that ends it. */
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
