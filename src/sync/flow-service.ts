import type { Reason, StoredReason } from '../domain/flow-reasons.ts'
import type { FlowSeen } from '../fleet/observations.ts'
import type { DelayedDelivery, SkippedDelivery } from '../repositories/flows/delayed-deliveries.ts'
import type { Poll } from '../repositories/flows/flow-polls.ts'
import type { FlowActivity } from '../repositories/flows/flow-switches.ts'
import type { Difference } from './item/differences.ts'
import type { PreviewLimits, SyncPreview } from './sync-preview.ts'

export type FlowStatus = {
  paused: boolean
  runLimit: number | null
  runCount: number
  pausedAt: Date | null
  pausedBy: string | null
  reason: string | null
  why: StoredReason | null
  polling: boolean
}

export type FlowMetrics = {
  lastRun: Date | null
  avgDuration: number
  p95Duration: number
  totalRuns: number
  totalErrors: number
  /** Since when a poll should have begun, whether it is paused or not; null when none is due. */
  pollDueSince: Date | null
  destinations: { name: string; sending: Sending; open: OpenCounts }[]
}

/** What a destination is owed and what failed there. */
export type OpenCounts = {
  waiting: number
  delayed: number
  failed: number
  oldestWaitingAt: Date | null
}

/** Whether a destination is sent what it is owed, and if not, why. */
export type Sending = {
  /**
   * `silent`: it asked for that; `open`: it is in trouble and left alone; `probing`: one
   * attempt finds out whether it is back.
   */
  state: 'flowing' | 'silent' | 'open' | 'probing'
  cause: string | null
  why: StoredReason | null
  since: Date | null
  nextAttemptAt: Date | null
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
  why: StoredReason | null
  timestamp: Date
  attempts: number
}

/**
 * `polling`: another poll goes on for long; the one that was asked for follows it. `held`: the source does not look as it did,
 * and nothing is sent until somebody lets it.
 */
export type SyncOutcome = {
  changes: number
  skipped?: 'paused' | 'polling'
  /** What a paused flow waits to be told. */
  why?: StoredReason
}

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
  /** The type of its source. */
  source: string
  pollIntervalMs: number
  status: FlowStatus
  lastPollAt: Date | null
  lastSuccessAt: Date | null
  nextPollAt: Date | null
  lastError: string | null
  lastErrorWhy: StoredReason | null
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
    sending: Sending
  }[]
  heldDeletes: HeldDeletes | null
  /** Why the timer does not poll it although it is neither paused nor outside of its window. */
  pollsHeldBack: Reason | null
  hasAlerts: boolean
}

/** What a flow owes that has no definition here. */
export type OwingFlow = {
  name: string
  destinations: {
    name: string
    waiting: number
    delayed: number
    failed: number
    oldestWaitingAt: Date | null
  }[]
}

/** Deletes that the guard of a flow holds back. */
export type HeldDeletes = {
  items: number
  known: number
  reason: string
  why: StoredReason | null
  since: Date
}

/** Failed deliveries of one destination that say the same but for what is of one item. */
export type FailureView = {
  destination: string
  /** Of one of the items. */
  error: string
  why: StoredReason | null
  /** What is the same of all of them, without what is of one item. */
  cause: string
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
  state: 'waiting' | 'delayed' | 'failed' | 'delivered' | 'skipped' | 'unknown'
  /** Whether what arrived there last is what the source showed last; null when that is not known. */
  inSync: boolean | null
  attempts: number
  lastError: string | null
  why: StoredReason | null
  lastStatus: number | null
  queuedAt: Date | null
  nextAttemptAt: Date | null
  deliveredAt: Date | null
  /** What is kept of its answers, by name. */
  remembered: Record<string, unknown> | null
}

/** A flow that knows an item. */
export type FoundItem = {
  name: string
  changedAt: Date | null
  destinations: Pick<ItemDestination, 'name' | 'state'>[]
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
  outcome: 'delivered' | 'retry' | 'failed' | 'skipped'
  status: number | null
  reason: string | null
  why: StoredReason | null
}

/** Everything the control API offers. Functions of one flow throw NOT_FOUND for a name that no file defines. */
/** A delivery that is still to be made, or tried again. */
export type WaitingDelivery = {
  destination: string
  pk: string
  /** Failed ones so far. */
  attempts: number
  lastError: string | null
  why: StoredReason | null
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
  /** Sends everything again, to all destinations or to one. */
  resync(
    name: string,
    options: { force: boolean; destination?: string | undefined },
    actor: string,
  ): Promise<SyncOutcome>
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
      cause?: string | undefined
    },
    actor: string,
  ): Promise<number>
  /** What failed for good in a flow and was not sent again since, by cause; most items first. */
  failures(name: string, limit: number): Promise<FailureView[]>
  /** Attempts now what one destination is owed, or all, also while it rests. Answers how many deliveries were delayed. */
  tryNow(name: string, destination: string | undefined, actor: string): Promise<number>
  /** What failed for good in all flows, or one, by cause; most items first. */
  allFailures(flow: string | undefined, limit: number): Promise<(FailureView & { flow: string })[]>
  /** What was not taken yet of all flows, or one; the oldest first. */
  allDelayed(flow: string | undefined, limit: number): Promise<DelayedDelivery[]>
  /** The last polls, newest first. */
  runs(name: string, limit: number): Promise<Poll[]>
  /** What is not sent to a destination, and why, the latest first. */
  skipped(name: string, limit: number): Promise<SkippedDelivery[]>
  waiting(
    name: string,
    limit: number,
  ): Promise<{
    waiting: WaitingDelivery[]
    destinations: { name: string; type: string; sending: Sending }[]
    /** As of FlowCard. */
    pollsHeldBack: Reason | null
  }>
  item(name: string, pk: string): Promise<ItemView>
  /** The flows that know an item. */
  findItem(pk: string): Promise<FoundItem[]>
  /** What is missing at the source and not deleted at the destinations yet. */
  heldDeletes(name: string): Promise<{
    /** So many full scans in a row have to miss an item. */
    scans: number
    held: HeldDeletes | null
    missing: number
    /** The first of them. */
    pks: string[]
    /** Set while an approval waits for the next full scan. */
    approvedAt: Date | null
  }>
  /** Lets held deletes through, of one item or all that are held, and polls, unless the flow is paused. */
  approveDeletes(
    name: string,
    pk: string | undefined,
    actor: string,
  ): Promise<SyncOutcome & { deletes: number }>
  /** What tells how each flow fares. */
  observed(): Promise<FlowSeen[]>
  cards(): Promise<FlowCard[]>
  /** Flows that no file defines and that owe deliveries: nobody sends them until the name is back. */
  withoutDefinition(): Promise<OwingFlow[]>
  problems(): FlowProblemView[]
  activity(filter: { flow?: string | undefined }, limit: number): Promise<FlowActivity[]>
  /** Reads the flow files again. Answers what is wrong with them. */
  reload(actor: string): Promise<{ flows: string[]; problems: FlowProblemView[] }>
}
