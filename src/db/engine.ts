import type { Dialect } from 'kysely'

export type Log = (
  level: 'info' | 'warn' | 'error',
  fields: Record<string, unknown>,
  message: string,
) => void

/** Who listens on a channel. Neither function may fail. */
export type Hearer = {
  onPayload: (payload: string) => void
  /** The channel is heard again after a time in which it was not: what was sent meanwhile is lost. */
  onGap: () => void
}

/** What the two databases do differently; everything else is shared. */
export type Engine = {
  name: 'pglite' | 'postgres'
  dialect: Dialect
  /** Connections without time limits, for migrations; absent where there are no limits to lift. */
  maintenanceDialect?: () => Dialect
  /** As Database.copyFiles; absent where there are no files of ours. */
  copyFiles?: (folder: string, signal: AbortSignal) => Promise<void>
  /** How the pool stands; absent where there is one connection, and who uses it is known without asking. */
  pool?(): { most: number; open: number; idle: number; waiting: number }
  /** As Database.ownSessions. */
  ownSessions?(): number[] | undefined
  /** Starts to listen on a channel; resolves with the function that ends it. */
  listen(channel: string, hearer: Hearer): Promise<() => Promise<void>>
  /** Tells who listens on a channel, where nobody can but in this process: no statement is needed for that. Never fails. */
  tell?(channel: string, payload: string): void
  /** Ends what runs beside the queries (listener, vacuum). Called once, before `disconnect`. */
  stop(): Promise<void>
  /** Closes the connections and gives back the folder. Called once, when nobody queries any more. */
  disconnect(): Promise<void>
}
