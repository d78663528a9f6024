import type { FlowSeen } from '../../fleet/observations.ts'
import type {
  DelayedDelivery,
  SkippedDelivery,
} from '../../repositories/flows/delayed-deliveries.ts'
import type { FlowActivity } from '../../repositories/flows/flow-pauses-and-limits.ts'
import type { Poll } from '../../repositories/flows/flow-polls.ts'
import type { SendStop, StopScope } from '../../repositories/flows/send-stops.ts'
import type { Reason } from '../../texts/reason.ts'
import type { Model } from '../api-model.ts'
import type {
  DestinationResponse,
  DestinationSending,
  ErrorRecord as ErrorRecordSchema,
  Failure,
  FlowMetrics as FlowMetricsSchema,
  FlowProblem,
  FlowStatus as FlowStatusSchema,
  FlowsResponse,
  QuestionResponse,
  StatsResponse,
  SyncResponse,
  TestAlertsResponse,
} from '../routes/control-schemas.ts'
import type {
  FoundItemResponse,
  ItemResponse,
  Waiting,
  WaitingResponse,
} from '../routes/item-schemas.ts'
import type { GivenAnswer } from './answer-question.ts'

export type FlowStatus = Omit<Model<typeof FlowStatusSchema>, 'code'>
export type QueueStatistics = Model<typeof StatsResponse>
export type ErrorRecord = Model<typeof ErrorRecordSchema>
export type DestinationReport = Model<typeof DestinationResponse>['flows'][number]
export type FailureView = Model<typeof Failure>
export type WaitingDelivery = Model<typeof Waiting>
export type FoundItem = Model<typeof FoundItemResponse>['flows'][number]
export type ItemView = Omit<Model<typeof ItemResponse>, 'name' | 'pk'>
export type ItemDestination = ItemView['destinations'][number]
export type ItemHistory = ItemView['history']

/** Whether deliveries to a destination are sent, and why not. `startedAt`: when the last stop ended. */
export type Sending = Model<typeof DestinationSending> & { startedAt: Date | null }

export type QuestionView = Omit<Model<typeof QuestionResponse>, 'name'>

/** Prometheus shows more than JSON. */
export type FlowMetrics = Model<typeof FlowMetricsSchema> & {
  /** When the next poll was due, also for a paused flow. Null if none is due, or a stop has filled the queue. */
  pollDueSince: Date | null
  destinations: { name: string; sending: Sending; open: OpenCounts }[]
}

type Flows = Model<typeof FlowsResponse>
type Card = Flows['flows'][number]
type CardDestination = Card['destinations'][number]

/** A flow on the operator's page. The route adds the health of the fleet. */
export type FlowCard = Omit<Card, 'status' | 'destinations' | 'health'> & {
  status: FlowStatus
  destinations: (Omit<CardDestination, 'health'> & { sending: Sending })[]
}
export type FileWait = NonNullable<Card['waitingFor']>

/** Pending deliveries of a flow without a definition in this process. */
export type PendingFlow = Flows['withoutDefinition'][number]
/** Waiting and failed deliveries of a destination. */
export type OpenCounts = Omit<PendingFlow['destinations'][number], 'name'>

export type SyncOutcome = Pick<Model<typeof SyncResponse>, 'changes' | 'skipped' | 'why'>

export type AlertResult = Omit<
  Model<typeof TestAlertsResponse>['results'][number],
  'error' | 'why'
> & { why?: Reason }

/** `message` and `hint`: the English texts of `why` and `advice`. */
export type FlowProblemView = Omit<Model<typeof FlowProblem>, 'why'> & {
  why: Reason
  /** What to do, unless `why` says it. */
  advice: Reason | undefined
}

/** The functions of the control API. Those of one flow throw NOT_FOUND for a name that no file defines. */
export type ControlService = {
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
  /** What a changed definition would send, and whether an operator must answer. */
  question(name: string): Promise<QuestionView>
  /** Answers the question of this number (answerQuestion), and polls soon unless the flow is paused. */
  answer(name: string, given: GivenAnswer, actor: string): Promise<void>
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
  /** Sends failed deliveries again: of a flow, a destination, an item, or a group. Returns how many. */
  retryFailed(
    filter: {
      flow: string
      destination?: string | undefined
      pk?: string | undefined
      error?: string | undefined
      code?: string | undefined
      status?: number | null | undefined
    },
    actor: string,
  ): Promise<number>
  /** Permanent failures of a flow that were not sent again, by code and status, the largest group first. */
  failures(name: string, limit: number): Promise<FailureView[]>
  /**
   * Sends waiting deliveries of one destination, or of all, now, also during a requested pause. Returns how many were
   * delayed.
   */
  tryNow(name: string, destination: string | undefined, actor: string): Promise<number>
  /** Permanent failures of all flows, or of one, by code and status, the largest group first. */
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
    destinations: (Model<typeof WaitingResponse>['destinations'][number] & { sending: Sending })[]
  }>
  item(name: string, pk: string): Promise<ItemView>
  /** The flows that have an item. */
  findItem(pk: string): Promise<FoundItem[]>
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
