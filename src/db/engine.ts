import type { Dialect } from 'kysely'
import type { Session } from './database.ts'

export type DatabaseLog = (
  level: 'info' | 'warn' | 'error',
  fields: Record<string, unknown>,
  message: string,
) => void

/** A listener of a channel. Neither function may fail. */
export type ListenerHandlers = {
  onPayload: (payload: string) => void
  /** The channel works again after an interruption: what was sent meanwhile is lost. */
  onGap: () => void
}

/** The differences between the two databases; everything else is shared. */
export type Engine = {
  name: 'pglite' | 'postgres'
  dialect: Dialect
  /** Connections without time limits, for migrations; absent if there are no limits. */
  maintenanceDialect?: () => Dialect
  /** A connection outside of the pool; absent where there is one process. */
  openSession?(): Promise<Session>
  /** The state of the pool; absent with a single connection, whose use is known without it. */
  pool?(): { most: number; open: number; idle: number; waiting: number }
  /** Starts to listen on a channel; resolves with the function that ends it. */
  listen(channel: string, handlers: ListenerHandlers): Promise<() => Promise<void>>
  /** Notifies the listeners of a channel without a statement, if all are in this process. Never fails. */
  notifyLocal?(channel: string, payload: string): void
  /** Ends background work (listener, vacuum). Called once, before `disconnect`. */
  stop(): Promise<void>
  /** Closes the connections and releases the folder. Called once, after the last query. */
  disconnect(): Promise<void>
}
