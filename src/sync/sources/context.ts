import type { LookupFunction } from 'node:net'
import type { Agent } from 'undici'
import type { Flow } from '../definition/schema.ts'
import type { GrantKeeper } from '../oauth/grant-keeper.ts'
import type { PaymentFeeds } from './payments-feed.ts'

/** What sources need of their surroundings; everything is handed in. */
export type SourceContext = {
  flow: Flow
  now: () => Date
  /** Milliseconds of a clock that nobody can set; the process's own when absent. */
  steadyMs?: (() => number) | undefined
  log: { warn(fields: object, message: string): void }
  /** The payment side, for sources of its types. */
  payments?: PaymentFeeds | undefined
  /** For an access that is renewed by refresh tokens; where it is absent there is none. */
  grants?: Pick<GrantKeeper, 'tokens'> | undefined
  /** Connections for HTTP; createGuardedAgent with the flow's `allowPrivateNetwork` when absent. Closed by the source. */
  createAgent?: (() => Agent) | undefined
  /** Stands in for the operating system's resolver, for connections that are not HTTP. */
  lookup?: LookupFunction | undefined
  /** Rejects when `signal` aborts; node:timers/promises when absent. */
  sleep?: ((ms: number, signal: AbortSignal) => Promise<void>) | undefined
}
