import { resolve } from 'node:path'
import { type PGlite, parse, protocol, type Results, type Transaction } from '@electric-sql/pglite'
import {
  AbortedTransactionError,
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  PGliteAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  type TransactionSettings,
} from 'kysely'
import { codeOf } from '../domain/error-code.ts'
import { hideValues, isOutdatedStatement } from './database-failures.ts'
import type { DatabaseLog, Engine } from './engine.ts'
import { createTurns } from './event-loop-pauses.ts'
import { lockFolder } from './folder-lock.ts'
import { startPglite } from './start-pglite.ts'
import { StatementNames } from './statements.ts'
import { startVacuum } from './vacuum.ts'

type PgliteOptions = {
  /** The database is in `${dataDir}/pglite`; without it in memory. */
  dataDir?: string
  /** A result of PGlite.dumpDataDir, instead of an empty database. */
  loadDataDir?: Blob | File
  log: DatabaseLog
}

/**
 * Starts the embedded database: 2.5 to 5 s for a new one, 0.5 s for an existing or loaded one. It takes about 350 MB
 * of memory, and 650 MB in another process while a new one is made. Queries of `pglite` wait for open transactions,
 * so do not await them inside one.
 * @throws DatabaseLockedError if another process has the folder.
 */
export async function openPglite(options: PgliteOptions): Promise<Engine & { pglite: PGlite }> {
  const folder = options.dataDir === undefined ? undefined : resolve(options.dataDir)
  const unlock = folder === undefined ? () => {} : lockFolder(folder)
  try {
    const pglite = await startPglite(folder, options.loadDataDir)
    const stopVacuum = startVacuum(pglite, options.log)
    let stopped = false
    const listening = new Map<string, Set<(payload: string) => void>>()
    return {
      name: 'pglite',
      pglite,
      dialect: pgliteDialect(pglite),
      // There is no connection to lose, so there are no gaps.
      listen: async (channel, { onPayload }) => {
        // Quoted, or PGlite would fold capitals while pg_notify does not. The function that `listen` returns omits the
        // quotes.
        const name = quoted(channel)
        // A function of its own per call, since PGlite keeps a set of them.
        const own = (payload: string) => onPayload(payload)
        await pglite.listen(name, own)
        const others = listening.get(channel) ?? new Set()
        listening.set(channel, others.add(own))
        return async () => {
          others.delete(own)
          if (!stopped) await pglite.unlisten(name, own)
        }
      },
      notifyLocal: (channel, payload) => {
        for (const own of listening.get(channel) ?? []) own(payload)
      },
      stop: async () => {
        stopped = true
        await stopVacuum()
      },
      disconnect: async () => {
        await pglite.close()
        unlock()
      },
    }
  } catch (error) {
    unlock()
    throw error
  }
}

function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`
}

/** PGlite answers in microtasks, so a loop of awaited queries would keep timers and sockets from running. */
const LONGEST_TURN_MS = 8
type Turn = () => Promise<void> | undefined

/** The commands for which pg reports affected rows. */
const writes = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE'])
const IN_FAILED_TRANSACTION = '25P02'

/**
 * Kysely's PGlite dialect with four differences. Queries yield to the event loop, statements are prepared, and
 * isolation levels are applied. A failed BEGIN rejects (in Kysely's it is an unhandled rejection that ends the
 * process). Each user gets its own connection object; PGlite queues queries and transactions.
 */
export function pgliteDialect(pglite: PGlite): Dialect {
  const turn = createTurns(LONGEST_TURN_MS)
  return {
    createAdapter: () => new QueueingAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
    createDriver: () => pgliteDriver(pglite, turn),
  }
}

class QueueingAdapter extends PGliteAdapter {
  // With `false` Kysely would queue before it calls the driver, and the guard in front of the driver would not run.
  override get supportsMultipleConnections(): boolean {
    return true
  }
}

function pgliteDriver(pglite: PGlite, turn: Turn): Driver {
  const statements = new PgliteStatements(pglite)
  // Kysely passes back the same objects that acquireConnection returned.
  const own = (connection: DatabaseConnection) => connection as PgliteConnection
  const run = async (connection: DatabaseConnection, command: string) => {
    await own(connection).exec(command)
  }
  return {
    init: async () => await pglite.waitReady,
    acquireConnection: async () => new PgliteConnection(pglite, statements, turn),
    releaseConnection: async () => {},
    beginTransaction: (connection, settings) => own(connection).begin(settings),
    commitTransaction: (connection) => own(connection).commit(),
    rollbackTransaction: (connection) => own(connection).rollback(),
    savepoint: (connection, name) => run(connection, `savepoint "${name}"`),
    rollbackToSavepoint: (connection, name) => run(connection, `rollback to "${name}"`),
    releaseSavepoint: (connection, name) => run(connection, `release "${name}"`),
    // The code that opened PGlite closes it.
    destroy: async () => {},
  }
}

type OpenTransaction = { handle: Transaction; end: () => void; ended: Promise<void> }

class PgliteConnection implements DatabaseConnection {
  readonly #pglite: PGlite
  readonly #statements: PgliteStatements
  readonly #turn: Turn
  #open: OpenTransaction | undefined

  constructor(pglite: PGlite, statements: PgliteStatements, turn: Turn) {
    this.#pglite = pglite
    this.#statements = statements
    this.#turn = turn
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    await this.#turn()
    // As in pg, text without parameters may have several statements (migrations); it then returns no rows.
    if (query.parameters.length === 0) {
      const results = await this.exec(query.sql)
      return results.length === 1 && results[0] ? toResult<R>(results[0]) : { rows: [] }
    }
    const result = await this.#query<R>(query)
    // A long answer is processed in a turn of its own.
    await this.#turn()
    return result
  }

  async #query<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    try {
      return toResult(
        this.#open
          ? await this.#statements.queryInside<R>(sql, parameters)
          : await this.#statements.query<R>(sql, parameters),
      )
    } catch (error) {
      hideValues(error)
      throw error
    }
  }

  async exec(text: string): Promise<Results[]> {
    try {
      return await (this.#open?.handle ?? this.#pglite).exec(text)
    } catch (error) {
      hideValues(error)
      throw error
    }
  }

  // biome-ignore lint/correctness/useYield: the interface asks for a generator, PGlite cannot stream
  async *streamQuery(): AsyncIterableIterator<never> {
    throw new Error('PGlite cannot stream')
  }

  async begin(settings: TransactionSettings): Promise<void> {
    await this.#turn()
    const begun = Promise.withResolvers<Transaction>()
    const end = Promise.withResolvers<void>()
    const ended = this.#pglite.transaction(async (handle) => {
      begun.resolve(handle)
      await end.promise
    })
    ended.catch(begun.reject)
    this.#open = { handle: await begun.promise, end: end.resolve, ended }
    const modes = [
      settings.isolationLevel && `isolation level ${settings.isolationLevel}`,
      settings.accessMode,
    ].filter((mode) => mode !== undefined)
    if (modes.length > 0) await this.exec(`set transaction ${modes.join(' ')}`)
  }

  async commit(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    open?.end()
    try {
      await open?.ended
    } catch (error) {
      if (codeOf(error) === IN_FAILED_TRANSACTION) {
        throw new AbortedTransactionError({ cause: error })
      }
      throw error
    }
  }

  /** Nothing to do after a commit that failed: it has rolled back. */
  async rollback(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    if (!open) return
    try {
      if (!open.handle.closed) await open.handle.rollback()
    } finally {
      open.end()
      await open.ended.catch(() => {})
    }
  }
}

function toResult<R>(results: Results<unknown>): QueryResult<R> {
  const rows = results.rows as R[]
  if (!writes.has(results.command ?? '')) return { rows }
  return { rows, numAffectedRows: BigInt(results.affectedRows ?? 0) }
}

const { serialize } = protocol
type Answer = Awaited<ReturnType<PGlite['execProtocolStream']>>
/** The database's description of a statement: the types of its parameters, and the message about its columns. */
type Description = { types: readonly number[]; columns: Answer }

/**
 * Runs statements with parameters in PGlite. Its own `query` enters the database six times (parse, describe, bind,
 * describe, execute, sync), which takes longer than most statements. This class enters twice, and once for a repeated
 * text, which stays prepared.
 */
class PgliteStatements {
  readonly #pglite: PGlite
  readonly #names = new StatementNames()
  readonly #prepared = new Map<string, Description>()

  constructor(pglite: PGlite) {
    this.#pglite = pglite
  }

  /** In the queue with all other queries and transactions. */
  async query<R>(text: string, values: readonly unknown[]): Promise<Results<R>> {
    const pglite = this.#pglite
    await pglite._checkReady()
    return pglite._runExclusiveTransaction(async () => {
      const results = await this.queryInside<R>(text, values).catch((error: unknown) => {
        if (!isOutdatedStatement(error)) throw error
        return this.queryInside<R>(text, values)
      })
      await pglite.syncToFs()
      return results
    })
  }

  /** In the open transaction. */
  queryInside<R>(text: string, values: readonly unknown[]): Promise<Results<R>> {
    return this.#pglite.runExclusive(async () => {
      try {
        const name = this.#names.nameOf(text)
        const described = await this.#describe(text, name)
        const asked = [
          serialize.bind({
            statement: name ?? '',
            values: values.map((value, index) => this.#toText(value, described.types[index])),
          }),
          serialize.execute({}),
        ]
        const answer = await this.#send(asked)
        const messages = [...described.columns, ...answer]
        const [results] = parse.parseResults(messages, this.#pglite.parsers)
        return results as Results<R>
      } catch (error) {
        if (isOutdatedStatement(error)) this.#renew()
        throw error
      }
    })
  }

  async #describe(text: string, name: string | undefined): Promise<Description> {
    const known = name === undefined ? undefined : this.#prepared.get(name)
    if (known) return known
    const statement = name ?? ''
    const answer = await this.#send([
      serialize.parse({ name: statement, text }),
      serialize.describe({ type: 'S', name: statement }),
    ])
    const described = {
      types: parse.parseDescribeStatementResults(answer),
      columns: answer.filter((message) => message.name === 'rowDescription'),
    }
    if (name !== undefined) this.#prepared.set(name, described)
    return described
  }

  /** Sends the messages and a sync, at which the database reports an error of any of them. */
  #send(messages: readonly Uint8Array[]): Promise<Answer> {
    const series = Buffer.concat([...messages, serialize.sync()])
    return this.#pglite.execProtocolStream(series, { syncToFs: false })
  }

  #toText(value: unknown, type = 0): string | null {
    if (value === null || value === undefined) return null
    const { [type]: serializer } = this.#pglite.serializers
    return serializer ? serializer(value) : String(value)
  }

  #renew(): void {
    this.#names.renew()
    this.#prepared.clear()
  }
}
