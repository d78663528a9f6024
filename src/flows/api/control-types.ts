import type { Reason } from '../../texts/reason.ts'
import type { Model } from './api-model.ts'
import type {
  DestinationResponse,
  DestinationSending,
  ErrorRecordSchema,
  FailureSchema,
  FlowMetricsSchema,
  FlowProblem,
  FlowStatusSchema,
  FlowsResponse,
  QuestionResponse,
  StatsResponse,
  SyncResponse,
  TestAlertsResponse,
} from './control-schemas.ts'
import type {
  FoundItemResponse,
  ItemResponse,
  WaitingResponse,
  WaitingSchema,
} from './item-schemas.ts'

export type FlowStatus = Omit<Model<typeof FlowStatusSchema>, 'code'>
export type QueueStatistics = Model<typeof StatsResponse>
export type ErrorRecord = Model<typeof ErrorRecordSchema>
export type DestinationReport = Model<typeof DestinationResponse>['flows'][number]
export type FailureView = Model<typeof FailureSchema>
export type WaitingDelivery = Model<typeof WaitingSchema>
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

/** The waiting deliveries of a flow, and the state of each destination. */
export type WaitingView = {
  waiting: WaitingDelivery[]
  destinations: (Model<typeof WaitingResponse>['destinations'][number] & { sending: Sending })[]
}
