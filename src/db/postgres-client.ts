import type { CompiledQuery, DatabaseConnection, QueryResult } from 'kysely'
import type { QueryResult as PgResult, PoolClient, QueryConfig } from 'pg'
import {
  DatabaseUnavailableError,
  endsConnection,
  hideValues,
  isOutdatedStatement,
} from './database-failures.ts'
import { DescribedOnce } from './prepared-statement.ts'
import type { StatementNames } from './statements.ts'

/** The commands whose number of rows is returned. */
const writes = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE'])

export type ClientLimits = {
  /** How long a query may stay without an answer; 0 means for ever. */
  queryTimeoutMs: number
  /** Statements before the first use of a connection. */
  setUp?: string
}

/** Shared by all connections of a pool. */
export type Shared = {
  limits: ClientLimits
  /** Absent if a session may belong to another connection a moment later. */
  names?: StatementNames
  onLost: () => void
}

type Answer = Pick<PgResult, 'command' | 'rowCount'> & { rows?: unknown[] }
/** The last query without an answer. */
type Question = { giveUp: (reason: string) => void }

/**
 * A watched connection. Once it is lost, callers get DatabaseUnavailableError, and it is never used again. One query
 * runs at a time, so one timer is enough; each query resets it.
 */
export class WatchedClient implements DatabaseConnection {
  /** By performance.now(): the time of the server's last answer. */
  answeredAt = performance.now()
  /** Whether it has not been used since it was connected. */
  isNew = true
  /** Whether its settings are applied. */
  isSetUp = false
  readonly #client: PoolClient
  readonly #shared: Shared
  #question: Question | undefined
  #watch: NodeJS.Timeout | undefined
  #isSpoiled = false
  #lost: DatabaseUnavailableError | undefined

  constructor(client: PoolClient, shared: Shared) {
    this.#client = client
    this.#shared = shared
    // The pool listens to idle clients only. Without this, an error between two statements of a transaction would end
    // the process.
    client.on('error', (error) => this.#lose(error))
  }

  /** Applies the settings before the first use. */
  async setUp(timeoutMs: number): Promise<void> {
    const { setUp } = this.#shared.limits
    if (setUp !== undefined) await this.#askWithin(timeoutMs, setUp)
    this.isSetUp = true
    this.isNew = true
  }

  /** Whether the server still answers on this connection. */
  async proves(timeoutMs: number): Promise<boolean> {
    try {
      await this.#askWithin(timeoutMs, 'select 1')
      return true
    } catch {
      return false
    }
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    // Text without parameters may have several statements, which cannot be prepared.
    const name = parameters.length === 0 ? undefined : this.#shared.names?.nameOf(sql)
    const values = parameters as unknown[]
    try {
      return toResult<R>(
        await this.#ask(name === undefined ? { text: sql, values } : { name, text: sql, values }),
      )
    } catch (error) {
      if (!isOutdatedStatement(error)) throw error
      this.#shared.names?.renew()
      // Inside a transaction all of it must be repeated.
      if (this.#client.getTransactionStatus() !== 'I') throw error
      return toResult<R>(await this.#ask({ text: sql, values }))
    }
  }

  // biome-ignore lint/correctness/useYield: the interface asks for a generator, and nothing here reads rows one by one
  async *streamQuery(): AsyncIterableIterator<never> {
    throw new Error('Streams of rows are not supported')
  }

  /** Runs one command; returns the command that the server names in its answer. */
  async command({ sql }: CompiledQuery): Promise<string> {
    return (await this.#ask({ text: sql })).command
  }

  /** Prevents further use. */
  spoil(): void {
    this.#isSpoiled = true
  }

  release(destroy = false): void {
    const isLost = destroy || this.#isSpoiled || this.#lost !== undefined
    if (isLost) clearTimeout(this.#watch)
    this.#client.release(isLost)
  }

  async #askWithin(timeoutMs: number, text: string): Promise<Answer> {
    const timer = setTimeout(
      () => this.#question?.giveUp(`no answer within ${timeoutMs} ms`),
      timeoutMs,
    )
    try {
      return await this.#ask({ text })
    } finally {
      clearTimeout(timer)
    }
  }

  async #ask(query: QueryConfig): Promise<Answer> {
    this.isNew = false
    if (this.#lost) throw this.#lost
    try {
      const answer = await this.#answerTo(query)
      this.answeredAt = performance.now()
      return answer
    } catch (error) {
      if (this.#lost) throw this.#lost
      if (endsConnection(error)) this.#lose(error)
      hideValues(error)
      // The error was made where the socket is read, so its stack does not show the caller.
      if (error instanceof Error) Error.captureStackTrace(error)
      throw error
    }
  }

  #answerTo(query: QueryConfig): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#question = {
        giveUp: (reason) => {
          this.#question = undefined
          this.#lose(new Error(reason))
          reject(this.#lost)
        },
      }
      this.#beginWatch()
      const settle = (error: Error | null, result: PgResult) => {
        this.#question = undefined
        if (error) reject(error)
        else resolve(result)
      }
      if (query.name === undefined) void this.#client.query(query, settle)
      else this.#client.query(new DescribedOnce(query, settle))
    })
  }

  /** Resetting a timer costs almost nothing, unlike a new one for each query. */
  #beginWatch(): void {
    const { queryTimeoutMs } = this.#shared.limits
    if (this.#watch) this.#watch.refresh()
    else if (queryTimeoutMs > 0) {
      const giveUp = () => this.#question?.giveUp(`no answer within ${queryTimeoutMs} ms`)
      this.#watch = setTimeout(giveUp, queryTimeoutMs).unref()
    }
  }

  #lose(cause: unknown): void {
    if (this.#lost) return
    this.#lost = new DatabaseUnavailableError('The connection to the database was lost', { cause })
    this.#shared.onLost()
  }
}

/** For several statements in one text pg returns a list, which is not passed on. */
function toResult<R>({ command, rowCount, rows }: Answer): QueryResult<R> {
  const found = (rows ?? []) as R[]
  return writes.has(command)
    ? { rows: found, numAffectedRows: BigInt(rowCount ?? 0) }
    : { rows: found }
}
