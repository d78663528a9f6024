import type { LookupFunction } from 'node:net'
import type { Agent } from 'undici'
import type { Flow } from '../definition/schema.ts'
import type { OwnDatabase } from '../net/postgres-connection.ts'
import type { RefreshTokens } from '../oauth/access-tokens.ts'
import type { SourceRow } from '../types.ts'

/**
 * Reads payment-side records in the order of their last change, each once in its current state, after the position `after`
 * (null: from the start). `next` is the position of the last row, or `after` when there are no rows. Fewer rows than `limit`
 * mean that there are no more.
 */
type ListChanges = (options: {
  client?: string
  after: string | null
  limit: number
}) => Promise<{ rows: SourceRow[]; next: string | null }>

/** The payment-side changes that flows can read. The application passes the functions in. */
export type PaymentFeeds = {
  'payments.orders': ListChanges
  'payments.settlements': ListChanges
  'payments.closings': ListChanges
}

/** What a source gets from the flow runtime. */
export type SourceContext = {
  flow: Flow
  now: () => Date
  /** Milliseconds of a clock that cannot be set. Default: the clock of this process. */
  monotonicMs?: (() => number) | undefined
  log: { warn(fields: object, message: string): void }
  /** For sources of the payment types. */
  payments: PaymentFeeds
  /** For HTTP sources whose access uses refresh tokens. */
  grants?: RefreshTokens | undefined
  /** Connections for HTTP, closed by the source. Default: createGuardedAgent with the flow's `allowPrivateNetwork`. */
  createAgent?: (() => Agent) | undefined
  /** Replaces the operating system's resolver, for connections other than HTTP. */
  lookup?: LookupFunction | undefined
  /** For SQL sources: the service's own database, which no flow may read. */
  ownDatabase?: OwnDatabase | undefined
  /** Rejects when `signal` aborts; node:timers/promises when absent. */
  sleep?: ((ms: number, signal: AbortSignal) => Promise<void>) | undefined
}
