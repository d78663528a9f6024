import type { LookupFunction } from 'node:net'
import type { Agent } from 'undici'
import type { Flow } from '../definition/schema.ts'
import type { OwnDatabase } from '../net/postgres-connection.ts'
import type { GrantKeeper } from '../oauth/refresh-token-grants.ts'
import type { PaymentFeeds } from './payments-feed.ts'

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
  grants?: Pick<GrantKeeper, 'tokens'> | undefined
  /** Connections for HTTP, closed by the source. Default: createGuardedAgent with the flow's `allowPrivateNetwork`. */
  createAgent?: (() => Agent) | undefined
  /** Replaces the operating system's resolver, for connections other than HTTP. */
  lookup?: LookupFunction | undefined
  /** For SQL sources: the service's own database, which no flow may read. */
  ownDatabase?: OwnDatabase | undefined
  /** Rejects when `signal` aborts; node:timers/promises when absent. */
  sleep?: ((ms: number, signal: AbortSignal) => Promise<void>) | undefined
}
