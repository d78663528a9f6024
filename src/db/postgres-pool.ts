import { setTimeout as sleep } from 'node:timers/promises'
import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely'
import { Pool, type PoolClient, type PoolConfig } from 'pg'
import type { Log } from './engine.ts'
import { DatabaseUnavailableError, endsConnection, hideValues } from './failures.ts'
import { PostgresSessions, type Session, whichSession } from './postgres-sessions.ts'

/** A connection that idled longer is asked before it is used, as HikariCP does. */
const VERIFY_AFTER_IDLE_MS = 500
const VERIFY_TIMEOUT_MS = 2_000
/** Between two looks at what the server does for a query that got no answer. */
const SUSPECT_AGAIN_MS = 500

export type PoolLimits = {
  /** How long a query may stay without an answer; 0 means for ever. */
  queryTimeoutMs: number
  /** After which silence the server is asked whether it still works on the query; never when absent. */
  suspectAfterMs?: number
  verifyAfterIdleMs?: number
  verifyTimeoutMs?: number
}

/**
 * A pg Pool as Kysely wants it, made to survive a server that goes away. A connection that was lost, or that did not
 * answer within `queryTimeoutMs` (a server that vanished without a word), or whose session at the server no longer works on
 * what it was asked, is never used again; whoever used it gets DatabaseUnavailableError, also for the ROLLBACK that Kysely then tries. One that has idled, or has not been used since
 * another was lost, proves itself first: so a restart of the server costs at most the queries that were under way.
 */
export function resilientPool(config: PoolConfig, limits: PoolLimits, log: Log): PostgresPool {
  const pool = new Pool(config)
  const clients = new WeakMap<PoolClient, WatchedClient>()
  const verifyAfterIdleMs = limits.verifyAfterIdleMs ?? VERIFY_AFTER_IDLE_MS
  const verifyTimeoutMs = limits.verifyTimeoutMs ?? VERIFY_TIMEOUT_MS
  let lastLossAt = Number.NEGATIVE_INFINITY
  const onLost = () => {
    lastLossAt = performance.now()
  }
  const sessions = new PostgresSessions(config)
  pool.on('connect', (client) => {
    clients.set(client, new WatchedClient(client, limits, sessions, onLost))
  })
  // Without a listener, an idle connection that the server ends would end the process.
  pool.on('error', (error) => log('warn', { err: error }, 'an idle database connection was lost'))
  return {
    options: pool.options,
    connect: async () => {
      // After one that failed, the other idle ones are thrown away unasked: with a silent server each would take its time.
      let asking = true
      for (;;) {
        // Set by the 'connect' event, which comes before the first checkout.
        const client = clients.get(await connect(pool)) as WatchedClient
        await introduce(client, verifyTimeoutMs)
        const mustProve = Math.max(lastLossAt, performance.now() - verifyAfterIdleMs)
        if (client.answeredAt > mustProve) return client
        if (asking ? await client.proves(verifyTimeoutMs) : client.isNew) return client
        asking = false
        // Removed from the pool, so the loop ends with a new connection at the latest: that one needs no proof.
        client.release(true)
      }
    },
    end: () => pool.end(),
  }
}

/** Any failure here, be it a refused socket, a full pool or a login that no longer works, means: no database. */
async function connect(pool: Pool): Promise<PoolClient> {
  try {
    return await pool.connect()
  } catch (error) {
    throw new DatabaseUnavailableError('No connection to the database', { cause: error })
  }
}

async function introduce(client: WatchedClient, timeoutMs: number): Promise<void> {
  try {
    await client.introduce(timeoutMs)
  } catch (error) {
    client.release(true)
    throw new DatabaseUnavailableError('No connection to the database', { cause: error })
  }
}

class WatchedClient implements PostgresPoolClient {
  /** Of performance.now(): when the server was last heard of. */
  answeredAt = performance.now()
  /** Whether nobody has used it since it was connected. */
  isNew = true
  readonly #client: PoolClient
  readonly #limits: PoolLimits
  readonly #sessions: PostgresSessions
  readonly #onLost: () => void
  #isIntroduced = false
  /** Unknown until it was introduced, and behind a pooler. */
  #session: Session | undefined
  #lost: DatabaseUnavailableError | undefined

  constructor(
    client: PoolClient,
    limits: PoolLimits,
    sessions: PostgresSessions,
    onLost: () => void,
  ) {
    this.#client = client
    this.#limits = limits
    this.#sessions = sessions
    this.#onLost = onLost
    // The pool listens to idle clients only: between two statements of a transaction this would end the process.
    client.on('error', (error) => this.#lose(error))
  }

  /** Before the first use: which session this is, so that the server can be asked about it. */
  async introduce(timeoutMs: number): Promise<void> {
    if (this.#isIntroduced || this.#limits.suspectAfterMs === undefined) return
    const { rows } = (await this.#ask(whichSession, [], timeoutMs)) as {
      rows: { pid: number; started: string }[]
    }
    this.#isIntroduced = true
    this.isNew = true
    const [row] = rows
    // A pooler gives its own number, since the session behind it may be another one for each transaction.
    if (row?.pid === this.processID) this.#session = { pid: row.pid, startedAt: row.started }
  }

  get processID(): number {
    // Absent from the published types; Kysely reads it to cancel a query.
    return (this.#client as unknown as { processID: number }).processID
  }

  /** Kysely's interface has a second form, for cursors; without a cursor library in its settings it is never used. */
  query<R>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<R>>
  query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>
  query<R>(
    text: string | PostgresCursor<R>,
    parameters: readonly unknown[] = [],
  ): Promise<PostgresQueryResult<R>> & PostgresCursor<R> {
    return this.#ask(text as string, parameters, this.#limits.queryTimeoutMs) as Promise<
      PostgresQueryResult<R>
    > &
      PostgresCursor<R>
  }

  /** Whether the server still answers on this connection. */
  async proves(timeoutMs: number): Promise<boolean> {
    try {
      await this.#ask('select 1', [], timeoutMs)
      return true
    } catch {
      return false
    }
  }

  release(destroy?: boolean): void {
    this.#client.release(destroy === true || this.#lost !== undefined)
  }

  async #ask(text: string, parameters: readonly unknown[], timeoutMs: number): Promise<unknown> {
    this.isNew = false
    if (this.#lost) throw this.#lost
    try {
      const answer = await this.#answer(text, parameters, timeoutMs)
      this.answeredAt = performance.now()
      return answer
    } catch (error) {
      if (this.#lost) throw this.#lost
      if (endsConnection(error)) this.#lose(error)
      hideValues(error)
      throw error
    }
  }

  async #answer(text: string, parameters: readonly unknown[], timeoutMs: number): Promise<unknown> {
    const answer = this.#client.query(text, [...parameters])
    if (timeoutMs === 0) return await answer
    const timeout = Promise.withResolvers<never>()
    const giveUp = (reason: string) => {
      this.#lose(new Error(reason))
      timeout.reject(this.#lost)
    }
    const timer = setTimeout(() => giveUp(`no answer within ${timeoutMs} ms`), timeoutMs)
    const answered = new AbortController()
    void this.#suspect(answered.signal, giveUp)
    try {
      return await Promise.race([answer, timeout.promise])
    } finally {
      clearTimeout(timer)
      answered.abort()
    }
  }

  /** Gives up when the server, twice in a row, is not at our query or cannot be reached. */
  async #suspect(answered: AbortSignal, giveUp: (reason: string) => void): Promise<void> {
    const { suspectAfterMs } = this.#limits
    if (suspectAfterMs === undefined) return
    const pause = (ms: number) =>
      sleep(ms, true, { signal: answered, ref: false }).catch(() => false)
    let isDoubted = false
    for (let waitMs = suspectAfterMs; await pause(waitMs); waitMs = SUSPECT_AGAIN_MS) {
      const session = this.#session
      if (!session) return
      const look = await this.#sessions.look()
      if (answered.aborted) return
      if (look.isWorking(session)) {
        isDoubted = false
      } else if (isDoubted) {
        giveUp('the server is not at the query, or cannot be reached')
        void this.#sessions.end(session)
        return
      } else {
        isDoubted = true
      }
    }
  }

  #lose(cause: unknown): void {
    if (this.#lost) return
    this.#lost = new DatabaseUnavailableError('The connection to the database was lost', { cause })
    this.#onLost()
  }
}
