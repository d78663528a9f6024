import { z } from 'zod'

export const Timestamp = z.iso.datetime().meta({ example: '2026-11-21T14:30:00.000Z' })

/** Any name: one that no file defines is 404, not 400. */
export const FlowParams = z.object({ name: z.string().describe('Name of the flow') })

export const ItemParams = z.object({
  name: z.string().describe('Name of the flow'),
  pk: z.string().describe('Key of the item; the parts of a composite key are joined by |'),
})

export const LimitParams = z.object({
  name: z.string().describe('Name of the flow'),
  count: z
    .string()
    .regex(
      /^(?=[0-9]{1,7}$)0*(?:[1-9][0-9]{0,5}|1000000)$/,
      'must be a whole number from 1 to 1000000',
    )
    .describe('Runs until the flow pauses, 1 to 1000000'),
})

export const ForceQuery = z.object({
  force: z.enum(['true', 'false']).optional().describe('true polls a paused flow too'),
})

export const HealthResponse = z
  .object({ status: z.literal('ok'), timestamp: Timestamp })
  .meta({ id: 'ControlHealth' })

export const StatsResponse = z
  .object({
    queue: z.object({
      waiting: z.number(),
      active: z.number(),
      completed: z.number(),
      failed: z.number(),
      delayed: z.number(),
    }),
    processed: z.number().describe('Deliveries completed since the beginning'),
    errors: z.number().describe('Deliveries failed for good since the beginning'),
  })
  .meta({ id: 'QueueStatistics' })

export const FlowMetrics = z
  .object({
    lastRun: Timestamp.nullable(),
    avgDuration: z.number().describe('Milliseconds, over the last 1,000 polls'),
    p95Duration: z.number().describe('Milliseconds, over the last 1,000 polls'),
    totalRuns: z.number(),
    totalErrors: z.number(),
  })
  .meta({ id: 'FlowMetrics' })

export const MetricsResponse = z.record(z.string(), FlowMetrics).meta({ id: 'Metrics' })

export const ErrorsQuery = z.object({
  limit: z.coerce.number().int().min(1).max(1000).default(100).describe('1 to 1000'),
  flow: z.string().max(200).optional(),
  adapter: z.string().max(200).optional().describe('Name of the destination, or source'),
  pk: z.string().max(1024).optional(),
})

export const ErrorRecord = z
  .object({
    id: z.string(),
    entity: z.string().describe('Name of the flow'),
    adapter: z.string().describe('Name of the destination; source for a failed poll'),
    pk: z.string(),
    error: z.string(),
    timestamp: Timestamp,
    attempts: z.number(),
  })
  .meta({ id: 'FlowError' })

export const ErrorsResponse = z.array(ErrorRecord)

export const FlowStatus = z
  .object({
    paused: z.boolean(),
    runLimit: z.number().nullable(),
    runCount: z.number(),
    paused_at: Timestamp.nullable(),
    paused_by: z.string().nullable(),
    reason: z.string().nullable(),
    polling: z.boolean().describe('This process is polling it now'),
  })
  .meta({ id: 'FlowStatus' })

export const StatusResponse = z.record(z.string(), FlowStatus).meta({ id: 'FlowStatuses' })

const skipped = z.literal('paused').optional().describe('Set when no poll ran')

export const SyncResponse = z
  .object({ name: z.string(), changes: z.number(), skipped })
  .meta({ id: 'Synced' })

export const SyncItemResponse = z
  .object({
    name: z.string(),
    pk: z.string(),
    found: z.boolean(),
    changed: z.boolean(),
    jobs: z.number(),
  })
  .meta({ id: 'ItemSynced' })

export const ResetResponse = z
  .object({ name: z.string(), status: z.literal('reset') })
  .meta({ id: 'FlowReset' })

export const ResetItemResponse = z
  .object({ name: z.string(), pk: z.string(), status: z.literal('reset'), existed: z.boolean() })
  .meta({ id: 'ItemReset' })

export const ResyncResponse = z
  .object({ name: z.string(), status: z.literal('reset'), changes: z.number(), skipped })
  .meta({ id: 'Resynced' })

export const ResyncItemResponse = z
  .object({
    name: z.string(),
    pk: z.string(),
    status: z.literal('reset'),
    changes: z.number(),
    skipped,
  })
  .meta({ id: 'ItemResynced' })

/** Optional: who pauses tells why, for the next operator. */
export const ReasonBody = z
  .strictObject({ reason: z.string().max(500).optional() })
  .optional()
  .nullable()

export const PausedResponse = z
  .object({ name: z.string(), status: z.literal('paused') })
  .meta({ id: 'FlowPaused' })

export const ResumedResponse = z
  .object({ name: z.string(), status: z.literal('running') })
  .meta({ id: 'FlowResumed' })

export const AllPausedResponse = z
  .object({ status: z.literal('paused'), flows: z.array(z.string()) })
  .meta({ id: 'FlowsPaused' })

export const AllResumedResponse = z
  .object({ status: z.literal('running'), flows: z.array(z.string()) })
  .meta({ id: 'FlowsResumed' })

export const LimitedResponse = z
  .object({ name: z.string(), runLimit: z.number(), status: z.literal('limited') })
  .meta({ id: 'FlowLimited' })

export const UnlimitedResponse = z
  .object({ name: z.string(), runLimit: z.null(), status: z.enum(['running', 'paused']) })
  .meta({ id: 'FlowUnlimited' })

export const TestAlertsResponse = z
  .object({
    flow: z.string(),
    results: z.array(
      z.object({
        type: z.string(),
        target: z.string().describe('Secrets are masked'),
        ok: z.boolean(),
        error: z.string().optional(),
      }),
    ),
  })
  .meta({ id: 'AlertTest' })

export const RetryBody = z
  .strictObject({
    destination: z.string().max(200).optional(),
    pk: z.string().max(1024).optional(),
    error: z
      .string()
      .max(20_000)
      .optional()
      .describe('Only deliveries whose last error is this text'),
  })
  .optional()
  .nullable()

export const FailuresQuery = z.object({
  limit: z.coerce.number().int().min(1).max(200).default(50).describe('1 to 200'),
})

export const FailuresResponse = z
  .object({
    name: z.string(),
    failures: z.array(
      z.object({
        destination: z.string(),
        error: z.string(),
        status: z.number().nullable().describe('HTTP status, where there was one'),
        items: z.number(),
        last_at: Timestamp,
        pks: z.array(z.string()).describe('The first 20 of the items'),
      }),
    ),
  })
  .meta({ id: 'FlowFailures' })

export const RetryResponse = z
  .object({ name: z.string(), retried: z.number() })
  .meta({ id: 'FailuresRetried' })

const Problem = z
  .object({
    file: z.string(),
    line: z.number(),
    column: z.number(),
    key: z.string(),
    message: z.string(),
    hint: z.string().nullable(),
  })
  .meta({ id: 'FlowProblem' })

export const FlowsResponse = z
  .object({
    flows: z.array(
      z
        .object({
          name: z.string(),
          description: z.string().nullable(),
          poll_interval_ms: z.number(),
          status: FlowStatus,
          last_poll_at: Timestamp.nullable(),
          last_success_at: Timestamp.nullable(),
          next_poll_at: Timestamp.nullable(),
          last_error: z.string().nullable(),
          items: z.number(),
          changes_today: z.number(),
          durations: z.array(z.number()).describe('Milliseconds of the last polls, oldest first'),
          progress: z
            .object({ started_at: Timestamp, rows_read: z.number(), changes: z.number() })
            .nullable()
            .describe('Of the poll that is running'),
          destinations: z.array(
            z.object({
              name: z.string(),
              type: z.string(),
              waiting: z.number(),
              delayed: z.number(),
              failed: z.number(),
              oldest_waiting_at: Timestamp.nullable(),
            }),
          ),
          has_alerts: z.boolean(),
        })
        .meta({ id: 'Flow' }),
    ),
    problems: z.array(Problem).describe('What is wrong with flow files'),
  })
  .meta({ id: 'Flows' })

export const ReloadResponse = z
  .object({ flows: z.array(z.string()), problems: z.array(Problem) })
  .meta({ id: 'FlowsReloaded' })

export const ActivityQuery = z.object({
  limit: z.coerce.number().int().min(1).max(500).default(100).describe('1 to 500'),
  flow: z.string().max(200).optional(),
})

export const ActivityResponse = z
  .object({
    activity: z.array(
      z
        .object({
          id: z.number(),
          at: Timestamp,
          flow: z.string().nullable(),
          action: z.string(),
          actor: z.string(),
          detail: z.string().nullable(),
        })
        .meta({ id: 'FlowActivity' }),
    ),
  })
  .meta({ id: 'FlowActivityLog' })
