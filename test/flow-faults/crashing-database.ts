import { setImmediate } from 'node:timers/promises'
import type { CompiledQuery, DatabaseConnection, Dialect, Driver, QueryResult } from 'kysely'
import type { Database } from '../../src/db/database.ts'
import { build } from '../../src/db/open-database.ts'
import { openPglite } from '../../src/db/pglite-engine.ts'
import { postgresEngine } from '../../src/db/postgres-engine.ts'
import { type Moment, type StatementStep, stepOf } from './steps.ts'

/** The `nth` time from now that the process reaches this step. */
export type CrashPoint = { step: StatementStep; moment: Moment; nth: number }

export type CrashingDatabase = Database & { arm(point: CrashPoint): void }

/** The service's database, which kills the process at a step that can be chosen while it runs. It calls `onStep` with each step. */
export async function openCrashingDatabase(
  place: { databaseUrl: string } | { dataDir: string },
  onStep: (step: StatementStep) => void,
): Promise<CrashingDatabase> {
  let left: CrashPoint | undefined
  const due = (step: StatementStep | undefined): Moment | undefined => {
    if (step !== undefined) onStep(step)
    if (step === undefined || left?.step !== step) return undefined
    left = { ...left, nth: left.nth - 1 }
    return left.nth === 0 ? left.moment : undefined
  }
  const log = () => {}
  const engine =
    'dataDir' in place
      ? await openPglite({ ...place, log })
      : await postgresEngine({ ...place, log })
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
  const known = new WeakMap<DatabaseConnection, Crashing>()
  const realOf = (connection: DatabaseConnection) => known.get(connection)?.real ?? connection
  return {
    init: (options) => driver.init(options),
    acquireConnection: async (options) => {
      const crashing = crashingConnection(await driver.acquireConnection(options), due)
      known.set(crashing.connection, crashing)
      return crashing.connection
    },
    releaseConnection: (connection, options) =>
      driver.releaseConnection(realOf(connection), options),
    beginTransaction: (connection, settings) =>
      driver.beginTransaction(realOf(connection), settings),
    commitTransaction: async (connection) => {
      const crashing = known.get(connection)
      // PostgreSQL's driver sends a statement on the given connection, which is watched. The embedded driver sends none.
      if (!crashing || crashing.connection.command) await driver.commitTransaction(connection)
      else await crashing.watched('commit', () => driver.commitTransaction(crashing.real))
    },
    // On the real connection, which the driver closes when the statement fails.
    rollbackTransaction: (connection) => driver.rollbackTransaction(realOf(connection)),
    destroy: (options) => driver.destroy(options),
  }
}

/** The driver of PostgreSQL commits by a statement of its own, and reads the server's answer to it. */
type CommandingConnection = DatabaseConnection & {
  command?: (query: CompiledQuery) => Promise<string>
}

type Crashing = {
  connection: CommandingConnection
  real: CommandingConnection
  watched<T>(text: string, send: () => Promise<T>): Promise<T>
}

function crashingConnection(real: CommandingConnection, due: Due): Crashing {
  const steps = new Set<StatementStep>()
  const watched = async <T>(text: string, send: () => Promise<T>): Promise<T> => {
    const step = stepOf(text, steps)
    if (step !== undefined) steps.add(step)
    const moment = due(step)
    if (moment === 'before') killOwnProcess()
    const answer = send()
    if (moment === 'during') {
      // The statement is sent, and its result is never read.
      await setImmediate()
      killOwnProcess()
    }
    const result = await answer
    if (moment === 'after') killOwnProcess()
    return result
  }
  const connection: CommandingConnection = {
    executeQuery: <R>(query: CompiledQuery): Promise<QueryResult<R>> =>
      watched(query.sql, () => real.executeQuery<R>(query)),
    streamQuery: (query, chunkSize) => real.streamQuery(query, chunkSize),
    ...(real.command && {
      command: (query: CompiledQuery) =>
        watched(query.sql, async () => (await real.command?.(query)) ?? ''),
    }),
  }
  return { connection, real, watched }
}

function killOwnProcess(): void {
  process.kill(process.pid, 'SIGKILL')
}
