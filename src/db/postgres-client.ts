import { setTimeout as sleep } from 'node:timers/promises'
import type { CompiledQuery, DatabaseConnection, QueryResult } from 'kysely'
import type { QueryResult as PgResult, PoolClient, QueryConfig } from 'pg'
import {
  DatabaseUnavailableError,
  endsConnection,
  hideValues,
  isOutdatedStatement,
} from './database-failures.ts'
import { DescribedOnce } from './described-once.ts'
import { type PostgresSessions, type Session, whichSession } from './postgres-sessions.ts'
import type { StatementNames } from './statement-names.ts'

/** Between two looks at what the server does for a query that got no answer. */
const SUSPECT_AGAIN_MS = 500
/** The commands of which the number of rows is told on. */
const writes = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE'])

export type ClientLimits = {
  /** How long a query may stay without an answer; 0 means for ever. */
  queryTimeoutMs: number
  /** After which silence the server is asked whether it still works on the query; never when absent. */
  suspectAfterMs?: number
  /** Statements before the first use of a connection. */
  setUp?: string
}

/** What all connections of a pool share. */
export type Shared = {
  limits: ClientLimits
  sessions: PostgresSessions
  /** Absent where a session may be somebody else's a moment later. */
  names?: StatementNames
  onLost: () => void
}

type Answer = Pick<PgResult, 'command' | 'rowCount'> & { rows?: unknown[] }
/** What the server was asked last and has not answered. */
type Question = { giveUp: (reason: string) => void }

/**
 * A connection that is watched: once it is lost, whoever asks gets DatabaseUnavailableError, and it is never used again. One
 * question at a time, so one timer does for all of them: it is set back at each, and what it finds without an answer is
 * looked into then.
 */
export class WatchedClient implements DatabaseConnection {
  /** Of performance.now(): when the server was last heard of. */
  answeredAt = performance.now()
  /** Whether nobody has used it since it was connected. */
  isNew = true
  /** Whether it has its settings, and its session is known. */
  isIntroduced = false
  readonly #client: PoolClient
  readonly #shared: Shared
  readonly #firstLookMs: number
  /** Unknown until it was introduced, and behind a pooler. */
  #session: Session | undefined
  #question: Question | undefined
  #watch: NodeJS.Timeout | undefined
  #isSpoiled = false
  #lost: DatabaseUnavailableError | undefined

  constructor(client: PoolClient, shared: Shared) {
    this.#client = client
    this.#shared = shared
    const { queryTimeoutMs, suspectAfterMs = queryTimeoutMs } = shared.limits
    this.#firstLookMs = Math.min(queryTimeoutMs, suspectAfterMs)
    // The pool listens to idle clients only: between two statements of a transaction this would end the process.
    client.on('error', (error) => this.#lose(error))
  }

  /** Before the first use: its settings, and which session this is, so that the server can be asked about it. */
  async introduce(timeoutMs: number): Promise<void> {
    const { setUp, suspectAfterMs } = this.#shared.limits
    if (setUp !== undefined) await this.#askWithin(timeoutMs, setUp)
    if (suspectAfterMs !== undefined) await this.#findSession(timeoutMs)
    this.isIntroduced = true
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
    // Text without parameters may hold several statements, which cannot be prepared.
    const name = parameters.length === 0 ? undefined : this.#shared.names?.nameOf(sql)
    const values = parameters as unknown[]
    try {
      return toResult<R>(
        await this.#ask(name === undefined ? { text: sql, values } : { name, text: sql, values }),
      )
    } catch (error) {
      if (!isOutdatedStatement(error)) throw error
      this.#shared.names?.renew()
      // Within a transaction all of it is to be done again.
      if (this.#client.getTransactionStatus() !== 'I') throw error
      return toResult<R>(await this.#ask({ text: sql, values }))
    }
  }

  // biome-ignore lint/correctness/useYield: the interface asks for a generator, and nobody here reads rows one by one
  async *streamQuery(): AsyncIterableIterator<never> {
    throw new Error('Streams of rows are not supported')
  }

  /** Runs one command; gives the one that the server then names. */
  async command({ sql }: CompiledQuery): Promise<string> {
    return (await this.#ask({ text: sql })).command
  }

  /** It is not used again after this. */
  spoil(): void {
    this.#isSpoiled = true
  }

  release(destroy = false): void {
    const isLost = destroy || this.#isSpoiled || this.#lost !== undefined
    if (isLost) clearTimeout(this.#watch)
    this.#client.release(isLost)
  }

  async #findSession(timeoutMs: number): Promise<void> {
    const { rows } = await this.#askWithin(timeoutMs, whichSession)
    const [row] = rows as { pid: number; started: string }[]
    // Absent from the published types.
    const { processID } = this.#client as unknown as { processID: number }
    // A pooler gives its own number, since the session behind it may be another one for each transaction.
    if (row?.pid === processID) this.#session = { pid: row.pid, startedAt: row.started }
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
      // It was made where the socket is read, which tells nobody who asked.
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

  /** To set a timer back costs next to nothing, a new one for each query would. */
  #beginWatch(): void {
    if (this.#watch) this.#watch.refresh()
    else if (this.#firstLookMs > 0) {
      this.#watch = setTimeout(() => this.#lookInto(this.#question), this.#firstLookMs).unref()
    }
  }

  #lookInto(question: Question | undefined): void {
    if (!question) return
    const { queryTimeoutMs, suspectAfterMs } = this.#shared.limits
    setTimeout(() => {
      if (this.#question === question) question.giveUp(`no answer within ${queryTimeoutMs} ms`)
    }, queryTimeoutMs - this.#firstLookMs).unref()
    if (suspectAfterMs !== undefined) void this.#suspect(question)
  }

  /** Gives up when the server, twice in a row, is not at our query or cannot be reached. */
  async #suspect(question: Question): Promise<void> {
    let isDoubted = false
    while (this.#question === question && this.#session) {
      const session = this.#session
      const look = await this.#shared.sessions.look()
      if (this.#question !== question) return
      if (look.isWorking(session)) {
        isDoubted = false
      } else if (isDoubted) {
        question.giveUp('the server is not at the query, or cannot be reached')
        void this.#shared.sessions.end(session)
        return
      } else {
        isDoubted = true
      }
      await sleep(SUSPECT_AGAIN_MS, undefined, { ref: false })
    }
  }

  #lose(cause: unknown): void {
    if (this.#lost) return
    this.#lost = new DatabaseUnavailableError('The connection to the database was lost', { cause })
    this.#shared.onLost()
  }
}

/** Of several statements in one text pg gives a list, of which nothing is told on. */
function toResult<R>({ command, rowCount, rows }: Answer): QueryResult<R> {
  const found = (rows ?? []) as R[]
  return writes.has(command)
    ? { rows: found, numAffectedRows: BigInt(rowCount ?? 0) }
    : { rows: found }
}
