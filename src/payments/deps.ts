import type { Database } from '../db/database.ts'
import type { Sealer } from '../domain/sealed.ts'
import type { Provider } from '../provider/provider.ts'
import type { LastingWork } from './lasting-work.ts'
import type { News } from './news.ts'
import type { OrderCalls } from './order-calls.ts'
import type { OrderChanges } from './order-changes.ts'
import type { SingleFlight } from './single-flight.ts'
import type { Strangers } from './strangers.ts'

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
  news: News
  once: SingleFlight
  strangers: Strangers
  lasting: LastingWork
  now: () => Date
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  log: Log
  settings: PaymentSettings
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
  /** The same moment by performance.now(), which nobody can set: how much of the answer's time is left goes by it. */
  startedMs: number
}

/** The service itself as the one who acts: sweeper, token renewal, webhooks. */
export function serviceActor(now: Date): Actor {
  return { ipAddress: null, startedAt: now, startedMs: performance.now() }
}
