import type { KeyObject } from 'node:crypto'
import type { Database } from '../db/database.ts'
import type { Encryption } from '../domain/encryption.ts'
import type { Log } from '../domain/log.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { SingleFlight } from '../jobs/single-flight.ts'
import type { UnfinishedWork } from '../jobs/unfinished-work.ts'
import type { Provider, ProviderClock } from '../provider/provider.ts'
import type { OrderRow } from '../repositories/orders/order-queries.ts'
import type { EndpointClient } from './process/endpoint-client.ts'
import type { EventSource } from './process/event-source.ts'
import type { ForeignOrders } from './process/foreign-orders.ts'
import type { KeyUses } from './process/key-uses.ts'
import type { OrderCallLog } from './process/order-call-log.ts'
import type { OrderChanges } from './process/order-changes.ts'
import type { Passwords } from './process/passwords.ts'
import type { StatusCheckNotes } from './process/status-check-notes.ts'

type PaymentSettings = {
  /** Base of the OAuth redirect, without a trailing slash. */
  publicUrl: string
  posCreateDelayMs: number
  duplicateOrderGuard: boolean
  sendTicketNumber: boolean
  maskTokens: boolean
  enrolment: 'open' | 'invite'
  oauthTargetOrigins: readonly string[]
  webhookSecrets: readonly string[]
  /** How long after an unanswered attempt its effect may still appear at the provider. */
  lateArrivalMs: number
  /** How long the provider's payment search may lack a new payment. */
  searchLagMs: number
}

/** All dependencies of the payment rules. Nothing here is global, so a test can run several services in one process. */
export type PaymentDeps = {
  database: Database
  provider: Provider
  encryption: Encryption
  /** Signs the audit log. */
  auditKey: KeyObject
  changes: OrderChanges
  calls: OrderCallLog
  keyUses: KeyUses
  statusChecks: StatusCheckNotes
  /** The state of boxes and everything that they need. */
  fleet: Fleet
  events: EventSource
  endpointClient: EndpointClient
  once: SingleFlight
  foreignOrders: ForeignOrders
  passwords: Passwords
  unfinished: UnfinishedWork
  /** Makes the sweeper look for due orders now. */
  wakeSweeper: () => void
  now: () => Date
  providerClock: ProviderClock
  /** Milliseconds of a monotonic clock, from any start: deadlines use it. */
  stopwatch: () => number
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  log: Log
  /** Called with each move of an order that this process makes, perhaps before it is committed. Must not throw. */
  recordMove: (before: OrderRow, after: OrderRow) => void
  settings: PaymentSettings
  /** Facts of which this process has had no sign since then are not assumed. */
  startedAt: Date
  /** The owner of this process's leases. */
  processId: string
}

/** Who made a request, for the audit log. */
export type Actor = {
  ipAddress: string | null
  /** The API key or the person, and the session of the request; none of them for the administrator's token. */
  keyId?: string | undefined
  person?: { id: string; name: string; stores?: readonly string[] | null } | undefined
  sessionId?: string | undefined
  /** Why, in the person's words; of a cancel or refund on a page. */
  reason?: string | undefined
  startedAt: Date
}
