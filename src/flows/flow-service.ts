import type { Reason, StoredReason } from '../domain/flow-reasons.ts'
import type { FlowSeen } from '../fleet/observations.ts'
import type { DelayedDelivery, SkippedDelivery } from '../repositories/flows/delayed-deliveries.ts'
import type { Poll } from '../repositories/flows/flow-polls.ts'
import type { FlowActivity } from '../repositories/flows/flow-switches.ts'
import type { SendStop, StopScope } from '../repositories/flows/send-stops.ts'
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
  /** When the next poll was due, also for a paused flow. Null if none is due, or a stop has filled the queue. */
  pollDueSince: Date | null
  destinations: { name: string; sending: Sending; open: OpenCounts }[]
}

/** Waiting and failed deliveries of a destination. */
export type OpenCounts = {
  waiting: number
  delayed: number
  failed: number
  oldestWaitingAt: Date | null
}

/** Whether deliveries to a destination are sent, and why not. */
export type Sending = {
  /**
   * `stopped`: an operator stopped sending. `silent`: the destination asked for a pause. `open`: the breaker is open.
   * `probing`: one attempt checks whether it is back.
   */
  state: 'flowing' | 'stopped' | 'silent' | 'open' | 'probing'
  cause: string | null
  why: StoredReason | null
  since: Date | null
  nextAttemptAt: Date | null
  /** The widest stop in force. */
  stop: SendStop | null
  /** When the last stop ended; null if there was none. */
  startedAt: Date | null
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
 * `polling`: another poll takes long; the requested one follows. `held`: the source changed its schema, and nothing
 * is sent without approval.
 */
export type SyncOutcome = {
  changes: number
  skipped?: 'paused' | 'polling'
  /** The decision that a paused flow waits for. */
  why?: StoredReason
}

export type AlertResult = { type: string; target: string; ok: boolean; why?: Reason }

export type FlowProblemView = {
  file: string
  line: number
  column: number
  key: string
  /** The English texts of `why` and `advice`. */
  message: string
  hint: string | null
  why: Reason
  /** What to do, unless `why` says it. */
  advice: Reason | undefined
}

/** A flow on the operator's page. */
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
  /** Set while a poll waits for a file. */
  waitingFor: FileWait | null
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
  /** Why the timer does not poll, although the flow is neither paused nor outside its window. */
  readingPaused: Reason | null
  hasAlerts: boolean
}

/** A poll found a file that is still written or lacks its readiness marker. A later poll reads it. */
export type FileWait = {
  why: StoredReason
  since: Date
  /** The first planned poll that can read it without further changes; null if unknown. */
  until: Date | null
}

/** Deliveries of a flow to a destination. */
export type DestinationReport = {
  flow: string
  /** Items that wait, and items that arrived. */
  waiting: number
  done: number
  /** Deliveries per minute, over the last five whole minutes. */
  perMinute: number
  /** When the queue is empty at this rate; null if nothing waits or nothing is sent. */
  endsAt: Date | null
  rateLimit: { max: number; perMs: number } | null
  /** The minutes of the last hour, oldest first; `waiting` at their end. */
  samples: { at: Date; waiting: number; delivered: number; failed: number }[]
}

/** Pending deliveries of a flow without a definition in this process. */
export type PendingFlow = {
  name: string
  destinations: {
    name: string
    waiting: number
    delayed: number
    failed: number
    oldestWaitingAt: Date | null
  }[]
}

/** Deletes of a flow that the guard stopped. */
export type HeldDeletes = {
  items: number
  known: number
  reason: string
  why: StoredReason | null
  since: Date
}

/** Failed deliveries of one destination with the same cause. */
export type FailureView = {
  destination: string
  /** The error of one of the items. */
  error: string
  why: StoredReason | null
  /** The cause that all share, without the parts of one item. */
  cause: string
  status: number | null
  items: number
  lastAt: Date
  /** Keys of some of the items. */
  pks: string[]
}

/** The state of one item. */
export type ItemView = {
  /** The latest content at the source; null for an item that was never read, or was reset or deleted. */
  seen: { hash: string; changedAt: Date } | null
  destinations: ItemDestination[]
  history: ItemHistory
}

export type ItemDestination = {
  name: string
  type: string
  /** `unknown`: no record exists. It was delivered before the kept period, or was never queued. */
  state: 'waiting' | 'delayed' | 'failed' | 'delivered' | 'skipped' | 'unknown'
  /** Whether the destination has the latest content; null if unknown. */
  inSync: boolean | null
  attempts: number
  lastError: string | null
  why: StoredReason | null
  lastStatus: number | null
  queuedAt: Date | null
  nextAttemptAt: Date | null
  deliveredAt: Date | null
  /** Values kept from its answers, by name. */
  remembered: Record<string, unknown> | null
}

/** A flow that has the item. */
export type FoundItem = {
  name: string
  changedAt: Date | null
  destinations: Pick<ItemDestination, 'name' | 'state'>[]
}

/** The kept history of one item, newest first. */
export type ItemHistory = {
  /** The latest content at the source; null if it is not kept or was too large. */
  content: Record<string, unknown> | null
  versions: ItemVersion[]
  attempts: ItemAttempt[]
}

export type ItemVersion = {
  id: number
  seenAt: Date
  kind: 'upsert' | 'delete'
  hash: string
  /** Where `differences` come from; they are empty unless `compared`. */
  comparison: 'compared' | 'first' | 'deleted' | 'too_large'
  differences: Difference[]
  /** All of them, including those left out. */
  differenceCount: number
}

export type ItemAttempt = {
  at: Date
  destination: string
  /** The version that was sent; null if it is no longer kept. */
  version: number | null
  kind: 'upsert' | 'delete'
  attempt: number
  outcome: 'delivered' | 'retry' | 'failed' | 'skipped'
  status: number | null
  reason: string | null
  why: StoredReason | null
}

/** A delivery that waits, for the first time or for a retry. */
export type WaitingDelivery = {
  destination: string
  pk: string
  /** Failed attempts so far. */
  attempts: number
  lastError: string | null
  why: StoredReason | null
  lastStatus: number | null
  queuedAt: Date
  nextAttemptAt: Date | null
}

/** The functions of the control API. Those of one flow throw NOT_FOUND for a name that no file defines. */
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
  /** Polls now; a paused flow only with `force`. Records a request of an `actor`. */
  sync(name: string, options: { force: boolean }, actor?: string): Promise<SyncOutcome>
  /**
   * What `sync` would do now, without writing. Ends when `signal` aborts, with its reason. See engine/previews.ts.
   */
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
  /**
   * Stops sending; polls go on and deliveries wait. Throws NOT_FOUND for an unknown flow, and for a destination that
   * no flow in scope has. Returns the stop in force.
   */
  stopSending(scope: StopScope, actor: string, reason: string | null): Promise<SendStop>
  /** Ends the stop of exactly this scope. Returns other stops that still cover it. */
  startSending(scope: StopScope, actor: string): Promise<SendStop[]>
  /** One report for each flow with a destination of this name. Throws NOT_FOUND if none has it. */
  destination(name: string): Promise<DestinationReport[]>
  /** The stops in force, the widest first. */
  sendStops(): Promise<SendStop[]>
  limit(name: string, count: number, actor: string): Promise<void>
  unlimit(name: string, actor: string): Promise<FlowStatus>
  testAlerts(name: string, actor?: string): Promise<AlertResult[]>
  /** Sends failed deliveries again: of a flow, a destination, an item, or one cause. Returns how many. */
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
  /** Permanent failures of a flow that were not sent again, by cause, the largest group first. */
  failures(name: string, limit: number): Promise<FailureView[]>
  /**
   * Sends waiting deliveries of one destination, or of all, now, also during a requested pause. Returns how many were
   * delayed.
   */
  tryNow(name: string, destination: string | undefined, actor: string): Promise<number>
  /** Permanent failures of all flows, or of one, by cause, the largest group first. */
  allFailures(flow: string | undefined, limit: number): Promise<(FailureView & { flow: string })[]>
  /** Delayed deliveries of all flows, or of one, the oldest first. */
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
    /** See FlowCard. */
    readingPaused: Reason | null
  }>
  item(name: string, pk: string): Promise<ItemView>
  /** The flows that have an item. */
  findItem(pk: string): Promise<FoundItem[]>
  /** Items missing at the source that are not deleted at the destinations yet. */
  heldDeletes(name: string): Promise<{
    /** How many full scans in a row must miss an item. */
    scans: number
    held: HeldDeletes | null
    missing: number
    /** The first keys. */
    pks: string[]
    /** The same items with their names; null if unknown. */
    items: { pk: string; name: string | null }[]
    /** Set while an approval waits for the next full scan. */
    approvedAt: Date | null
  }>
  /** Approves stopped deletes, of these items or of all, and polls unless the flow is paused. */
  approveDeletes(
    name: string,
    pks: readonly string[] | undefined,
    actor: string,
  ): Promise<SyncOutcome & { deletes: number }>
  /** The observed state of each flow. */
  observed(): Promise<FlowSeen[]>
  cards(): Promise<FlowCard[]>
  /** Flows without a definition that have pending deliveries. They wait until the name is back. */
  withoutDefinition(): Promise<PendingFlow[]>
  problems(): FlowProblemView[]
  activity(filter: { flow?: string | undefined }, limit: number): Promise<FlowActivity[]>
  /** Reads the flow files again. Returns their problems. */
  reload(actor: string): Promise<{ flows: string[]; problems: FlowProblemView[] }>
}
