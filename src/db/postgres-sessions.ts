import { Client, type ClientConfig, DatabaseError } from 'pg'

/** A session on the server: the number of its process may be another one's later, but never with this start. */
export type Session = { pid: number; startedAt: string }

export type SessionLook = {
  /** Whether it works on a query; else whatever we wait for was answered on a way that is lost, or never arrived. */
  isWorking(session: Session): boolean
}

const TIMEOUT_MS = 2_000

/**
 * Asks the server what the sessions of this role do, on a connection of its own. A query without an answer may be a slow
 * one, or its connection may be dead without a word (a firewall that forgot it, a server that moved): only the server can
 * tell. Looks that overlap are one.
 */
export class PostgresSessions {
  readonly #config: ClientConfig
  #looking: Promise<SessionLook> | undefined

  constructor(config: ClientConfig) {
    this.#config = {
      ...config,
      connectionTimeoutMillis: TIMEOUT_MS,
      query_timeout: TIMEOUT_MS,
    }
  }

  /** Never rejects, and takes 4 s at most. Where no server can be reached nobody works. */
  look(): Promise<SessionLook> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  /** Ends a session that we have given up: what it holds locked would hold up everybody for seconds. Never rejects. */
  async end({ pid, startedAt }: Session): Promise<void> {
    await this.#ask(
      'select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and backend_start::text = $2',
      [pid, startedAt],
    ).catch(() => undefined)
  }

  async #look(): Promise<SessionLook> {
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
      // A server that refuses us, for want of connections perhaps, is there: nothing is known of the session then.
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

/** Which session a connection has, for `query` on it; undefined behind a pooler, where it changes under our hands. */
export const whichSession =
  'select pid, backend_start::text as started from pg_stat_activity where pid = pg_backend_pid()'
