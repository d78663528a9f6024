import { Client, type ClientConfig, DatabaseError } from 'pg'

/** A session on the server: another process may get the same number later, but never with this start. */
export type ServerSession = { pid: number; startedAt: string }

type SessionCheck = {
  /** Whether the session works on a query. If not, the answer was lost, or the query never arrived. */
  isWorking(session: ServerSession): boolean
}

const TIMEOUT_MS = 2_000

/**
 * Asks the server about the sessions of this role, on a separate connection. A query without an answer may be slow,
 * or its connection may be dead (a firewall dropped it): only the server can distinguish. Overlapping checks share
 * one result.
 */
export class PostgresSessions {
  readonly #config: ClientConfig
  #looking: Promise<SessionCheck> | undefined

  constructor(config: ClientConfig) {
    this.#config = {
      ...config,
      connectionTimeoutMillis: TIMEOUT_MS,
      query_timeout: TIMEOUT_MS,
    }
  }

  /** Never rejects, and takes at most 4 s. Without a reachable server no session works. */
  check(): Promise<SessionCheck> {
    this.#looking ??= this.#check().finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  /** Ends an abandoned session: its locks would delay others for seconds. Never rejects. */
  async end({ pid, startedAt }: ServerSession): Promise<void> {
    await this.#ask(
      'select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and backend_start::text = $2',
      [pid, startedAt],
    ).catch(() => undefined)
  }

  async #check(): Promise<SessionCheck> {
    try {
      const rows = await this.#ask(
        `select pid, backend_start::text as started, state from pg_stat_activity
         where usename = current_user and datname = current_database()`,
        [],
      )
      const working = new Set(
        rows.flatMap(({ pid, started, state }) =>
          state === 'active' ? [`${pid} ${started}`] : [],
        ),
      )
      return { isWorking: ({ pid, startedAt }) => working.has(`${pid} ${startedAt}`) }
    } catch (error) {
      // A server that refuses the connection, perhaps because of its limit, is alive: the session is unknown then.
      const isThere = error instanceof DatabaseError
      return { isWorking: () => isThere }
    }
  }

  async #ask(
    text: string,
    values: unknown[],
  ): Promise<{ pid: number; started: string; state: string | null }[]> {
    const client = new Client(this.#config)
    client.on('error', () => {})
    try {
      await client.connect()
      return (await client.query(text, values)).rows
    } finally {
      client.end().catch(() => {})
    }
  }
}

/** The session of a connection, for `query` on it; undefined behind a pooler, where it may change. */
export const whichSession =
  'select pid, backend_start::text as started from pg_stat_activity where pid = pg_backend_pid()'
