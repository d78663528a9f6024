import type { FaultBox } from './faults.ts'
import type { LateCall } from './late-calls.ts'
import type { RequestLog } from './request-log.ts'
import type { Application } from './rows.ts'
import type { SandboxState } from './sandbox-state.ts'

export type WebhookSettings = {
  url: string | null
  /** The case of `data.id` in the signature: real order webhooks matched lower case only (provider facts 6.4). */
  case: 'lower' | 'as_received'
  /** `auto`: milliseconds for orders, seconds for other topics, as in the provider's samples. */
  tsUnit: 'auto' | 'ms' | 's'
  secret: 'right' | 'wrong'
}

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
  faults: FaultBox
  requests: RequestLog
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
    lagMs: number
    chargesAfterMs: number
    resultsAtMost: number
    totalStep: number
    drift: number
  }
  /** Rows that lists show before the real ones, by account and list, for invalid rows. */
  oddRows: Map<string, unknown[]>
  /** Terminals with a print that is not done: they accept no order. */
  prints: Set<string>
  /** Accounts whose token answers have no refresh token. */
  withoutRefresh: Set<number>
  /** How long the provider remembers a key, in milliseconds. */
  keyMemoryMs: number
  /** Runs the scheduler now, after something became due. */
  wake: () => void
}

/** The rows that a list of an account shows first. */
export function oddRowsOf(ctx: Context, userId: number, list: OddList): unknown[] {
  return ctx.oddRows.get(`${userId} ${list}`) ?? []
}

export const oddLists = ['terminals', 'stores', 'pos'] as const
export type OddList = (typeof oddLists)[number]

export function applicationOf(ctx: Context): Application {
  const application = ctx.state.tables.application.get('app')
  if (application === undefined) throw new Error('the sandbox has no application')
  return application
}
