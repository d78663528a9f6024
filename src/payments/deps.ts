import type { Database } from '../db/database.ts'
import type { Sealer } from '../domain/sealed.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { BackgroundWork } from '../jobs/background-work.ts'
import type { SingleFlight } from '../jobs/single-flight.ts'
import type { Provider } from '../provider/provider.ts'
import type { OrderRow } from '../repositories/orders/order-queries.ts'
import type { KeyUses } from './api-keys/key-uses.ts'
import type { EventSource } from './events/event-subscribers.ts'
import type { ForeignOrders } from './orders/foreign-orders.ts'
import type { OrderCalls } from './orders/order-calls.ts'
import type { OrderChanges } from './orders/order-changes.ts'
import type { StatusCheckNotes } from './orders/status-check-schedule.ts'

export type PaymentSettings = {
  /** Base of the OAuth redirect, without a trailing slash. */
  publicUrl: string
  posCreateDelayMs: number
  duplicateOrderGuard: boolean
  sendTicketNumber: boolean
  maskTokens: boolean
  enrolment: 'open' | 'invite'
  oauthTargetOrigins: readonly string[]
  webhookSecrets: readonly string[]
  /** How long after an attempt without an answer its effect may still show up at the provider. */
  lateArrivalMs: number
  /** How long the provider's payment search may not show what was just paid. */
  searchLagMs: number
}

export type Log = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Everything the payment rules are given; nothing here is global, so a test can run several services in one process. */
export type PaymentDeps = {
  database: Database
  provider: Provider
  sealer: Sealer
  changes: OrderChanges
  calls: OrderCalls
  keyUses: KeyUses
  statusChecks: StatusCheckNotes
  /** How boxes and everything they need fare. */
  fleet: Fleet
  news: EventSource
  once: SingleFlight
  foreignOrders: ForeignOrders
  background: BackgroundWork
  /** Has the sweeper look for due orders now. */
  wakeSweeper: () => void
  now: () => Date
  /** Milliseconds by a clock that nobody can set, from any beginning: what deadlines go by. */
  stopwatch: () => number
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  log: Log
  /** Hears of each move of an order that this process makes, perhaps before it is committed. May not fail. */
  noteMove: (before: OrderRow, after: OrderRow) => void
  settings: PaymentSettings
  /** What this process has not heard since then it does not take for true. */
  startedAt: Date
  /** Names this process as the owner of leases. */
  processId: string
}

/** Who asked, for the audit log. */
export type Actor = {
  ipAddress: string | null
  /** The key it was asked with, and the session; neither for the administrator's token. */
  keyId?: string | undefined
  sessionId?: string | undefined
  startedAt: Date
}
