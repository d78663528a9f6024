import type { FlowActivity } from '../repositories/flow-control.ts'
import type { Difference } from './item/differences.ts'
import type { PreviewLimits, SyncPreview } from './sync-preview.ts'

export type FlowStatus = {
  paused: boolean
  runLimit: number | null
  runCount: number
  pausedAt: Date | null
  pausedBy: string | null
  reason: string | null
  polling: boolean
}

export type FlowMetrics = {
  lastRun: Date | null
  avgDuration: number
  p95Duration: number
  totalRuns: number
  totalErrors: number
}

export type QueueStatistics = {
  queue: { waiting: number; active: number; completed: number; failed: number; delayed: number }
  processed: number
  errors: number
}

export type ErrorRecord = {
  id: string
  entity: string
  adapter: string
  pk: string
  error: string
  timestamp: Date
  attempts: number
}

export type SyncOutcome = { changes: number; skipped?: 'paused' }

export type AlertResult = { type: string; target: string; ok: boolean; error?: string }

export type FlowProblemView = {
  file: string
  line: number
  column: number
  key: string
  message: string
  hint: string | null
}

/** One flow as the operator's page shows it. */
export type FlowCard = {
  name: string
  description: string | null
  pollIntervalMs: number
  status: FlowStatus
  lastPollAt: Date | null
  lastSuccessAt: Date | null
  nextPollAt: Date | null
  lastError: string | null
  items: number
  changesToday: number
  durations: number[]
  progress: { startedAt: Date; rowsRead: number; changes: number } | null
  destinations: {
    name: string
    type: string
    waiting: number
    delayed: number
    failed: number
    oldestWaitingAt: Date | null
  }[]
  hasAlerts: boolean
}

/** Failed deliveries of one destination that say the same. */
export type FailureView = {
  destination: string
  error: string
  status: number | null
  items: number
  lastAt: Date
  /** Some of the items. */
  pks: string[]
}

/** Where one item is. */
export type ItemView = {
  /** What the source showed last; null for an item that it never showed, or that was reset or deleted. */
  seen: { hash: string; changedAt: Date } | null
  destinations: ItemDestination[]
  history: ItemHistory
}

export type ItemDestination = {
  name: string
  type: string
  /** `unknown`: there is no record. It was delivered longer ago than records are kept, or was never owed. */
  state: 'waiting' | 'delayed' | 'failed' | 'delivered' | 'unknown'
  /** Whether what arrived there last is what the source showed last; null when that is not known. */
  inSync: boolean | null
  attempts: number
  lastError: string | null
  lastStatus: number | null
  queuedAt: Date | null
  nextAttemptAt: Date | null
  deliveredAt: Date | null
}

/** What is kept of one item for a while; newest first. */
export type ItemHistory = {
  /** The item as its source showed it last; null when nothing is kept, or it is too large to be. */
  content: Record<string, unknown> | null
  versions: ItemVersion[]
  attempts: ItemAttempt[]
}

export type ItemVersion = {
  id: number
  seenAt: Date
  kind: 'upsert' | 'delete'
  hash: string
  /** How `differences` came to be; they are empty unless `compared`. */
  comparison: 'compared' | 'first' | 'deleted' | 'too_large'
  differences: Difference[]
  /** All of them, also those that are left out. */
  differenceCount: number
}

export type ItemAttempt = {
  at: Date
  destination: string
  /** The version that was sent; null when it is not kept any longer. */
  version: number | null
  kind: 'upsert' | 'delete'
  attempt: number
  outcome: 'delivered' | 'retry' | 'failed'
  status: number | null
  reason: string | null
}

/** Everything the control API offers. Functions of one flow throw NOT_FOUND for a name that no file defines. */
/** A delivery that is still to be made, or tried again. */
export type WaitingDelivery = {
  destination: string
  pk: string
  /** Failed ones so far. */
  attempts: number
  lastError: string | null
  lastStatus: number | null
  queuedAt: Date
  nextAttemptAt: Date | null
}

export type FlowService = {
  status(): Promise<Map<string, FlowStatus>>
  metrics(): Promise<Map<string, FlowMetrics>>
  stats(): Promise<QueueStatistics>
  errors(filter: {
    flow?: string | undefined
    adapter?: string | undefined
    pk?: string | undefined
    limit: number
  }): Promise<ErrorRecord[]>
  /** Polls now; a paused flow only with `force`. What somebody asked for is written down with the `actor`. */
  sync(name: string, options: { force: boolean }, actor?: string): Promise<SyncOutcome>
  /** What `sync` would do now; nothing is written. Ends when `signal` aborts, with its reason. See engine/previews.ts. */
  preview(
    name: string,
    limits: PreviewLimits,
    signal: AbortSignal,
  ): Promise<SyncPreview & { paused: boolean }>
  syncItem(
    name: string,
    pk: string,
    actor?: string,
  ): Promise<{ found: boolean; changed: boolean; jobs: number }>
  reset(name: string, actor: string): Promise<void>
  resetItem(name: string, pk: string, actor: string): Promise<{ existed: boolean }>
  resync(name: string, options: { force: boolean }, actor: string): Promise<SyncOutcome>
  resyncItem(
    name: string,
    pk: string,
    options: { force: boolean },
    actor: string,
  ): Promise<SyncOutcome>
  pause(names: 'all' | string, actor: string, reason: string | null): Promise<string[]>
  resume(names: 'all' | string, actor: string): Promise<string[]>
  limit(name: string, count: number, actor: string): Promise<void>
  unlimit(name: string, actor: string): Promise<FlowStatus>
  testAlerts(name: string, actor?: string): Promise<AlertResult[]>
  /** Sends failed deliveries again: of a flow, a destination, an item, or one kind of error. Answers how many. */
  retryFailed(
    filter: {
      flow: string
      destination?: string | undefined
      pk?: string | undefined
      error?: string | undefined
    },
    actor: string,
  ): Promise<number>
  /** What failed for good in a flow and was not sent again since, by cause; most items first. */
  failures(name: string, limit: number): Promise<FailureView[]>
  waiting(name: string, limit: number): Promise<WaitingDelivery[]>
  item(name: string, pk: string): Promise<ItemView>
  cards(): Promise<FlowCard[]>
  problems(): FlowProblemView[]
  activity(filter: { flow?: string | undefined }, limit: number): Promise<FlowActivity[]>
  /** Reads the flow files again. Answers what is wrong with them. */
  reload(actor: string): Promise<{ flows: string[]; problems: FlowProblemView[] }>
}
