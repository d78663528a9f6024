import type { LoggedRequest } from './call-faults.ts'
import type { ArmedRule } from './faults.ts'
import type { LateCall } from './late-calls.ts'
import type { Application } from './rows.ts'
import type { SandboxState } from './sandbox-state.ts'
import type { WebhookSettings } from './webhook-control.ts'

export type Delivery = {
  at: string
  id: string
  action: string
  data_id: string
  request_id: string
  attempt: number
  status: number | null
  error: string | null
}

/** A call without an answer. */
export type HangingCall = {
  method: string
  /** Path and query. */
  url: string
  headers: Record<string, string | string[] | undefined>
}

/** The shared state of the sandbox's modules. */
export type Context = {
  state: SandboxState
  nowMs: () => number
  pace: { fetchMs: number; eventMs: number }
  redirectUris: string[]
  webhooks: WebhookSettings
  webhookRetryMs: number[]
  faults: ArmedRule[]
  /** The requests of callers, newest last; `count` is of all that ever came. */
  requests: { count: number; entries: LoggedRequest[] }
  deliveries: Delivery[]
  /** Webhooks that wait until a later one was sent; `after` names it once it exists. */
  waitingForNext: Map<string, { after: string | null }>
  /** Delayed calls, and the marks of those that are running. */
  lateCalls: LateCall[]
  arriving: Set<string>
  arrivals: Promise<void>
  /** Functions that end the hanging calls. */
  hanging: Set<() => void>
  onHang: (call: HangingCall) => void
  /**
   * How far searches lag behind, and how long after a payment its charges are shown, in milliseconds; the maximum of
   * offset plus limit of a search of payments; and by how much each answer's total differs from the last.
   */
  index: {
    lag_ms: number
    charges_after_ms: number
    results_at_most: number
    total_step: number
    drift: number
  }
  /** Terminals with a print that is not done: they accept no order. */
  prints: Set<string>
  /** Accounts whose token answers have no refresh token. */
  withoutRefresh: Set<number>
  /** How long the provider remembers a key, in milliseconds. */
  keyMemoryMs: number
  /** Runs the scheduler now, after something became due. */
  wake: () => void
}

export function applicationOf(ctx: Context): Application {
  const application = ctx.state.tables.application.get('app')
  if (application === undefined) throw new Error('the sandbox has no application')
  return application
}
