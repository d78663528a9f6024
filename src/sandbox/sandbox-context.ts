import type { FaultBox } from './faults.ts'
import type { LateCall } from './late-calls.ts'
import type { RequestLog } from './request-log.ts'
import type { Application } from './rows.ts'
import type { World } from './sandbox-state.ts'

export type WebhookSettings = {
  url: string | null
  /** How `data.id` enters the signature: real order deliveries matched lower case only (provider facts 6.4). */
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

/** A call that was left without an answer. */
export type HangingCall = {
  method: string
  /** Path and query. */
  url: string
  headers: Record<string, string | string[] | undefined>
}

/** What every room of the sandbox works on. */
export type Context = {
  world: World
  nowMs: () => number
  pace: { fetchMs: number; eventMs: number }
  redirectUris: string[]
  webhooks: WebhookSettings
  webhookRetryMs: number[]
  faults: FaultBox
  requests: RequestLog
  deliveries: Delivery[]
  /** Webhooks held back until a later one went out; `after` names it once it exists. */
  held: Map<string, { after: string | null }>
  /** Calls that arrive later, and the marks of those that are arriving now. */
  lateCalls: LateCall[]
  arriving: Set<string>
  arrivals: Promise<void>
  /** Calls that hang, by what ends them. */
  hanging: Set<() => void>
  onHang: (call: HangingCall) => void
  /**
   * How far searches lag behind, and how long after a payment its charges are told, in milliseconds; how far a search of
   * payments pages (offset plus limit), and by how much each answer's total differs from the last.
   */
  index: {
    lagMs: number
    chargesAfterMs: number
    resultsAtMost: number
    totalStep: number
    drift: number
  }
  /** Rows that lists show before the real ones, by account and list: rows as they should not be. */
  oddRows: Map<string, unknown[]>
  /** Terminals with a print that is not done: they take no order. */
  prints: Set<string>
  /** Accounts whose token answers have no refresh token. */
  withoutRefresh: Set<number>
  /** How long the provider remembers a key, in milliseconds. */
  keyMemoryMs: number
  /** Says that something became due: orders move and webhooks leave on the next turn. */
  wake: () => void
}

/** What a list of an account shows first. */
export function oddRowsOf(ctx: Context, userId: number, list: OddList): unknown[] {
  return ctx.oddRows.get(`${userId} ${list}`) ?? []
}

export const oddLists = ['terminals', 'stores', 'pos'] as const
export type OddList = (typeof oddLists)[number]

export function applicationOf(ctx: Context): Application {
  const application = ctx.world.tables.application.get('app')
  if (application === undefined) throw new Error('the sandbox has no application')
  return application
}
