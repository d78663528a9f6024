import { setImmediate } from 'node:timers/promises'
import type { CompiledQuery, DatabaseConnection, Dialect, Driver, QueryResult } from 'kysely'
import { build, type Database } from '../../src/db/database.ts'
import { postgresEngine } from '../../src/db/postgres-engine.ts'
import { type Moment, type StatementStep, stepOf } from './steps.ts'

/** At the `nth` time from now that this step is reached. */
export type CrashPoint = { step: StatementStep; moment: Moment; nth: number }

export type CrashingDatabase = Database & { arm(point: CrashPoint): void }

/** The service's database, which kills the process at a step that can be chosen while it runs. */
export async function openCrashingDatabase(databaseUrl: string): Promise<CrashingDatabase> {
  let left: CrashPoint | undefined
  const due = (step: StatementStep | undefined): Moment | undefined => {
    if (step === undefined || left?.step !== step) return undefined
    left = { ...left, nth: left.nth - 1 }
    return left.nth === 0 ? left.moment : undefined
  }
  const engine = await postgresEngine({ databaseUrl, log: () => {} })
  const database = build({ ...engine, dialect: crashingDialect(engine.dialect, due) })
  return {
    ...database,
    arm: (point) => {
      left = point
    },
  }
}

type Due = (step: StatementStep | undefined) => Moment | undefined

function crashingDialect(dialect: Dialect, due: Due): Dialect {
  return {
    createAdapter: () => dialect.createAdapter(),
    createIntrospector: (db) => dialect.createIntrospector(db),
    createQueryCompiler: () => dialect.createQueryCompiler(),
    createDriver: () => crashingDriver(dialect.createDriver(), due),
  }
}

function crashingDriver(driver: Driver, due: Due): Driver {
  const real = new WeakMap<DatabaseConnection, DatabaseConnection>()
  const realOf = (connection: DatabaseConnection) => real.get(connection) ?? connection
  return {
    init: (options) => driver.init(options),
    acquireConnection: async (options) => {
      const connection = await driver.acquireConnection(options)
      const crashing = crashingConnection(connection, due)
      real.set(crashing, connection)
      return crashing
    },
    releaseConnection: (connection, options) =>
      driver.releaseConnection(realOf(connection), options),
    // These run their statement on the connection they are given.
    beginTransaction: (connection, settings) => driver.beginTransaction(connection, settings),
    commitTransaction: (connection) => driver.commitTransaction(connection),
    // On the real one, which it throws away when the statement fails.
    rollbackTransaction: (connection) => driver.rollbackTransaction(realOf(connection)),
    destroy: (options) => driver.destroy(options),
  }
}

/** The driver of PostgreSQL commits by a statement of its own, whose answer says what the server made of it. */
type CommandingConnection = DatabaseConnection & {
  command?(query: CompiledQuery): Promise<string>
}

function crashingConnection(connection: CommandingConnection, due: Due): CommandingConnection {
  const steps = new Set<StatementStep>()
  const watched = async <T>(query: CompiledQuery, send: () => Promise<T>): Promise<T> => {
    const step = stepOf(query.sql, steps)
    if (step !== undefined) steps.add(step)
    const moment = due(step)
    if (moment === 'before') die()
    const answer = send()
    if (moment === 'during') {
      // The statement is on its way; what becomes of it nobody here will know.
      await setImmediate()
      die()
    }
    const result = await answer
    if (moment === 'after') die()
    return result
  }
  return {
    executeQuery: <R>(query: CompiledQuery): Promise<QueryResult<R>> =>
      watched(query, () => connection.executeQuery<R>(query)),
    command: (query) => watched(query, async () => (await connection.command?.(query)) ?? ''),
    streamQuery: (query, chunkSize) => connection.streamQuery(query, chunkSize),
  }
}

function die(): void {
  process.kill(process.pid, 'SIGKILL')
}
