import { z } from 'zod'
import { fieldMessage } from '../../errors/field-reasons.ts'
import { healthStates } from '../../fleet/health-states.ts'
import { FlowReason, FlowTimestamp } from './api-model.ts'

/** Accepts any name, so that an unknown flow is 404 and not 400. */
export const FlowParams = z.object({ name: z.string().describe('Name of the flow') })

export const ItemParams = z.object({
  name: z.string().describe('Name of the flow'),
  pk: z.string().describe('Key of the item; the parts of a composite key are joined by |'),
})

export const PkParams = ItemParams.pick({ pk: true })

const sevenDigits = /^[0-9]{1,7}$/
const isCount = (value: number) => value >= 1 && value <= 1_000_000
const wholeCount = fieldMessage({ code: 'COUNT_FORM', data: { least: 1, most: 1_000_000 } })

export const LimitParams = z.object({
  name: z.string().describe('Name of the flow'),
  count: z
    .string()
    // Only for a number out of range. For any other text the pattern's error suffices.
    .regex(sevenDigits, wholeCount)
    .refine((text) => !sevenDigits.test(text) || isCount(Number(text)), wholeCount)
    .describe('Runs until the flow pauses, 1 to 1000000'),
})

export const ForceQuery = z.object({
  force: z.enum(['true', 'false']).optional().describe('true polls a paused flow too'),
})

export const ResyncQuery = ForceQuery.extend({
  destination: z
    .string()
    .min(1)
    .max(64)
    .optional()
    .describe('This one alone is sent everything; hashes are kept, and the others get nothing'),
})

export const HealthResponse = z
  .object({
    status: z.literal('ok'),
    timestamp: FlowTimestamp,
    version: z.string().optional().describe('For operators of flows, like commit'),
    commit: z
      .string()
      .nullable()
      .optional()
      .describe('What runs, as git names it; null when nothing tells'),
  })
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
    errors: z.number().describe('Deliveries failed permanently since the beginning'),
  })
  .meta({ id: 'QueueStatistics' })

const stopFields = {
  flow: z.string().nullable().describe('null: every flow'),
  destination: z.string().nullable().describe('null: every destination'),
}

const SendStopSchema = z
  .object({
    ...stopFields,
    since: FlowTimestamp,
    by: z.string().describe('Who stopped it'),
    reason: z.string().nullable(),
  })
  .meta({ id: 'SendStop' })

export const DestinationSending = z
  .object({
    state: z
      .enum(['flowing', 'stopped', 'silent', 'open', 'probing'])
      .describe(
        'stopped: an operator has stopped sending; silent: it asked for a pause; open: it fails, so sending is suspended; probing: one attempt tests it',
      ),
    cause: z.string().nullable(),
    why: FlowReason,
    since: FlowTimestamp.nullable(),
    next_attempt_at: FlowTimestamp.nullable().describe('null when one may be made now'),
    stop: SendStopSchema.nullable().describe('While it is stopped: the widest stop in force'),
  })
  .meta({ id: 'DestinationSending' })

export const FlowMetricsSchema = z
  .object({
    lastRun: FlowTimestamp.nullable(),
    avgDuration: z.number().describe('Milliseconds, over the last 1,000 polls'),
    p95Duration: z.number().describe('Milliseconds, over the last 1,000 polls'),
    totalRuns: z.number(),
    totalErrors: z.number(),
  })
  .meta({ id: 'FlowMetrics' })

export const MetricsResponse = z.record(z.string(), FlowMetricsSchema).meta({ id: 'Metrics' })

export const MetricsText = z
  .string()
  .describe('The same for Prometheus, in its text format')
  .meta({ example: 'tillbridge_flow_runs_total{flow="articulos"} 42\n' })

export const ErrorsQuery = z.object({
  limit: z.coerce.number().int().min(1).max(1000).default(100).describe('1 to 1000'),
  flow: z.string().max(200).optional(),
  adapter: z.string().max(200).optional().describe('Name of the destination, or source'),
  pk: z.string().max(1024).optional(),
})

export const ErrorRecordSchema = z
  .object({
    id: z.string(),
    entity: z.string().describe('Name of the flow'),
    adapter: z.string().describe('Name of the destination; source for a failed poll'),
    pk: z.string(),
    error: z.string(),
    why: FlowReason,
    timestamp: FlowTimestamp,
    attempts: z.number(),
  })
  .meta({ id: 'FlowError' })

export const ErrorsResponse = z.array(ErrorRecordSchema)

export const FlowStatusSchema = z
  .object({
    paused: z.boolean(),
    runLimit: z.number().nullable(),
    runCount: z.number(),
    paused_at: FlowTimestamp.nullable(),
    paused_by: z.string().nullable(),
    reason: z.string().nullable(),
    code: z.string().nullable().describe('Of `why`: set when the service has paused the flow'),
    why: FlowReason,
    polling: z.boolean().describe('This process is polling it now'),
  })
  .meta({ id: 'FlowStatus' })

export const FlowStatusResponse = z
  .record(z.string(), FlowStatusSchema)
  .meta({ id: 'FlowStatuses' })

const skipped = z
  .enum(['paused', 'polling'])
  .optional()
  .describe(
    'Set when nothing is sent; polling: another poll goes on for longer than 20 s, and the one that was asked for follows it',
  )

const reason = z
  .string()
  .optional()
  .describe(
    'The question of a paused flow: its definition changed. Only resume and /resync/{name}?force=true answer it',
  )

/** What a poll on request has found, or why there was none. */
const polled = { changes: z.number(), skipped, reason, why: FlowReason.optional() }

export const SyncResponse = z.object({ name: z.string(), ...polled }).meta({ id: 'Synced' })

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
  .object({
    name: z.string(),
    status: z.literal('reset'),
    ...polled,
    deliveries: z
      .number()
      .optional()
      .describe('With `destination`: how many items are queued for it, changed or not'),
  })
  .meta({ id: 'Resynced' })

export const ResyncItemResponse = z
  .object({ name: z.string(), pk: z.string(), status: z.literal('reset'), ...polled })
  .meta({ id: 'ItemResynced' })

/** Optional: the reason for a pause, for the next operator. */
export const ReasonBody = z
  .strictObject({ reason: z.string().max(500).optional() })
  .optional()
  .nullable()
  .meta({ example: { reason: 'The shop changes its prices by hand today' } })

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

const scopeName = z.string().min(1).max(200).optional()

/** The flow and destination whose sending is stopped or started. */
export const StartBody = z
  .strictObject({
    flow: scopeName.describe('Without it every flow'),
    destination: scopeName.describe('Without it every destination'),
  })
  .optional()
  .nullable()
  .meta({ example: { flow: 'articulos', destination: 'copia' } })

export const StopBody = z
  .strictObject({
    flow: scopeName.describe('Without it every flow'),
    destination: scopeName.describe('Without it every destination'),
    reason: z.string().max(500).optional(),
  })
  .optional()
  .nullable()
  .meta({
    example: { flow: 'articulos', destination: 'copia', reason: 'The shop is being moved' },
  })

export const StoppedResponse = SendStopSchema.extend({ status: z.literal('stopped') }).meta({
  id: 'SendingStopped',
})

export const StartedResponse = z
  .object({
    ...stopFields,
    status: z
      .enum(['started', 'stopped'])
      .describe('stopped: another stop still concerns some or all of it'),
    stops: z.array(SendStopSchema).describe('Those stops'),
  })
  .meta({ id: 'SendingStarted' })

export const SendingResponse = z
  .object({ stops: z.array(SendStopSchema).describe('The stops in force, the widest first') })
  .meta({ id: 'Sending' })

export const DestinationParams = z.object({ name: z.string().describe('Name of the destination') })

export const DestinationResponse = z
  .object({
    name: z.string(),
    flows: z.array(
      z.object({
        flow: z.string(),
        waiting: z.number(),
        done: z.number().describe('Items that have arrived'),
        still_there: z
          .number()
          .describe('Items that its filter or mapping leaves out now, and that it still has'),
        same_identity: z
          .object({
            count: z.number().describe('Identities that several items of the flow have'),
            groups: z.array(z.array(z.string())).describe('The keys of their items; at most 10'),
          })
          .describe(
            'Several items of the flow are one there, such as two with one upsertKey: the last one that is sent counts',
          ),
        per_minute: z.number().describe('Deliveries, over the last five whole minutes'),
        ends_at: FlowTimestamp.nullable().describe('When nothing waits any more at this rate'),
        rate_limit: z.object({ max: z.number(), per_ms: z.number() }).nullable(),
        samples: z
          .array(
            z.object({
              at: FlowTimestamp,
              waiting: z.number().describe('At the end of the minute, about'),
              delivered: z.number(),
              failed: z.number(),
            }),
          )
          .describe('The minutes of the last hour, oldest first'),
      }),
    ),
  })
  .meta({ id: 'Destination' })

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
        why: FlowReason.optional(),
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
    code: z.string().max(200).optional().describe('Only deliveries with this code in `why`'),
    status: z
      .int32()
      .nullable()
      .optional()
      .describe('Only deliveries with this HTTP status; null: those without one'),
  })
  .optional()
  .nullable()
  .meta({ example: { destination: 'copia' } })

/** How many entries of a list. */
export const ListQuery = z.object({
  limit: z.coerce.number().int().min(1).max(200).default(50).describe('1 to 200'),
})

export const FailureSchema = z.object({
  destination: z.string(),
  error: z.string().describe('Of the first of the items; all have the code of its `why`'),
  why: FlowReason,
  status: z.number().nullable().describe('HTTP status of all, where there was one'),
  items: z.number(),
  last_at: FlowTimestamp,
  pks: z.array(z.string()).describe('The first 20 of the items'),
})

export const FailuresResponse = z
  .object({ name: z.string(), failures: z.array(FailureSchema) })
  .meta({ id: 'FlowFailures' })

/** All flows or one. An unknown flow gives an empty list. */
export const AllOpenQuery = ListQuery.extend({ flow: z.string().max(200).optional() })

export const AllFailuresResponse = z
  .object({ failures: z.array(FailureSchema.extend({ flow: z.string() })) })
  .meta({ id: 'AllFailures' })

export const RetryResponse = z
  .object({ name: z.string(), retried: z.number() })
  .meta({ id: 'FailuresRetried' })

export const TryBody = z
  .strictObject({
    destination: z.string().min(1).max(200).optional().describe('One of them; without it all'),
  })
  .optional()
  .nullable()
  .meta({ example: { destination: 'copia' } })

export const TryResponse = z
  .object({
    name: z.string(),
    due: z.number().describe('Deliveries that waited for a later attempt and are due now'),
  })
  .meta({ id: 'DestinationsTried' })

export const RunsResponse = z
  .object({
    name: z.string(),
    runs: z.array(
      z
        .object({
          id: z.number(),
          kind: z.enum(['full', 'incremental']),
          started_at: FlowTimestamp,
          duration_ms: z.number(),
          rows_read: z.number(),
          changes: z.number().describe('Items that were sent on'),
          items: z
            .object({
              new: z.number(),
              changed: z.number(),
              deleted: z.number(),
              refused: z.number().describe('Records that are no item, or repeat one'),
            })
            .nullable()
            .describe('null for polls that were recorded before this was counted'),
          error: z.string().nullable().describe('Why it failed'),
          why: FlowReason,
        })
        .meta({ id: 'FlowRun' }),
    ),
  })
  .meta({ id: 'FlowRuns' })

export const SkippedResponse = z
  .object({
    name: z.string(),
    skipped: z.array(
      z.object({
        destination: z.string(),
        pk: z.string(),
        reason: z.string(),
        why: FlowReason,
        at: FlowTimestamp.describe('When it was left out'),
      }),
    ),
  })
  .meta({ id: 'FlowSkipped' })

export const FlowProblem = z
  .object({
    file: z.string(),
    line: z.number(),
    column: z.number(),
    key: z.string(),
    message: z.string(),
    hint: z.string().nullable(),
    why: FlowReason.unwrap()
      .extend({ hint: z.string().nullable().describe('The likely fix, in the same language') })
      .describe('The same by its code, in the language of Accept-Language'),
  })
  .meta({ id: 'FlowProblem' })

const FlowHealth = z
  .object({
    state: z.enum(healthStates),
    cause: z.string().nullable().describe('As in GET /health/fleet of port 3000'),
    since: FlowTimestamp.nullable(),
    message: z.string().nullable(),
  })
  .meta({ id: 'FlowHealth' })

export const FlowSchema = z
  .object({
    name: z.string(),
    file: z.string().describe('The flow file, without its folder'),
    description: z.string().nullable(),
    source: z.string().describe('What it reads, such as file or payments.orders'),
    poll_interval_ms: z.number(),
    status: FlowStatusSchema,
    last_poll_at: FlowTimestamp.nullable(),
    last_success_at: FlowTimestamp.nullable(),
    next_poll_at: FlowTimestamp.nullable(),
    last_error: z.string().nullable(),
    last_error_why: FlowReason,
    waiting_for: z
      .object({
        why: FlowReason,
        since: FlowTimestamp,
        until: FlowTimestamp.nullable().describe(
          'The first planned poll that can read it if nothing changes any more; null when that is not known',
        ),
      })
      .nullable()
      .describe('While a file is still written, or its marker is missing: nothing failed'),
    items: z.number(),
    changes_today: z.number(),
    durations: z.array(z.number()).describe('Milliseconds of the last polls, oldest first'),
    progress: z
      .object({ started_at: FlowTimestamp, rows_read: z.number(), changes: z.number() })
      .nullable()
      .describe('Of the poll that is running'),
    destinations: z.array(
      z.object({
        name: z.string(),
        type: z.string(),
        waiting: z.number(),
        delayed: z.number(),
        failed: z.number(),
        oldest_waiting_at: FlowTimestamp.nullable(),
        sending: DestinationSending,
        health: FlowHealth.nullable().describe('How this destination fares'),
      }),
    ),
    question: z
      .object({
        number: z.number(),
        about: z.enum(['definition', 'deletes']),
        reason: z.string(),
        why: FlowReason,
        asked_at: FlowTimestamp.nullable(),
      })
      .nullable()
      .describe('While it waits for an answer; see GET /flow/{name}/question'),
    has_alerts: z.boolean(),
    health: FlowHealth.nullable().describe(
      'How it fares, no better than the worst of its destinations',
    ),
  })
  .meta({ id: 'Flow' })

export const FlowWithoutDefinition = z.object({
  name: z.string(),
  destinations: z.array(
    z.object({
      name: z.string(),
      waiting: z.number(),
      delayed: z.number(),
      failed: z.number(),
      oldest_waiting_at: FlowTimestamp.nullable(),
    }),
  ),
})

export const FlowsResponse = z
  .object({
    flows: z.array(FlowSchema),
    dashboard_page: z
      .string()
      .nullable()
      .describe('Address of the dashboard of payments; null where none is known'),
    time_zone: z
      .string()
      .nullable()
      .describe('The one time zone of the shops; null when there are several, or one is unknown'),
    problems: z.array(FlowProblem).describe('What is wrong with flow files'),
    without_definition: z
      .array(FlowWithoutDefinition)
      .describe(
        'Flows that no file defines and that have pending deliveries; these wait for the name',
      ),
  })
  .meta({ id: 'Flows' })

export const ReloadResponse = z
  .object({ flows: z.array(z.string()), problems: z.array(FlowProblem) })
  .meta({ id: 'FlowsReloaded' })

export const FlowActivityQuery = z.object({
  limit: z.coerce.number().int().min(1).max(500).default(100).describe('1 to 500'),
  flow: z.string().max(200).optional(),
})

export const FlowActivityResponse = z
  .object({
    activity: z.array(
      z
        .object({
          id: z.number(),
          at: FlowTimestamp,
          flow: z.string().nullable(),
          action: z.string(),
          actor: z.string(),
          detail: z.string().nullable(),
          why: FlowReason,
        })
        .meta({ id: 'FlowActivity' }),
    ),
  })
  .meta({ id: 'FlowActivityLog' })

const Counted = z.number().int().min(0)

export const QuestionResponse = z
  .object({
    name: z.string(),
    state: z
      .enum(['none', 'comparing', 'asked', 'answered'])
      .describe(
        'comparing: a read compares all items with what was delivered; until the answer the destinations that differ are sent nothing',
      ),
    number: Counted.nullable().describe(
      'Names this question in an answer; null while nothing is asked',
    ),
    asked_at: FlowTimestamp.nullable(),
    about: z
      .enum(['definition', 'deletes'])
      .nullable()
      .describe(
        'definition: what a changed definition would send. deletes: what deletes.guard does not let be deleted',
      ),
    reason: z.string().nullable(),
    why: FlowReason,
    destinations: z.array(
      z.object({
        name: z.string(),
        is_moved: z.boolean().describe('Another place than the one that has what was delivered'),
        new: Counted.describe('Items that it does not have'),
        changed: Counted.describe('Items that it has otherwise'),
        excluded: Counted.describe('Items that it has and that the definition excludes; they stay'),
        not_mappable: Counted.describe('Items whose mapping fails'),
        unchanged: Counted,
      }),
    ),
    missing: Counted.describe('Items that are not read any more, and that the answer concerns'),
    missing_items: z
      .array(z.object({ pk: z.string(), name: z.string().nullable() }))
      .describe(
        'The first 100 items that the last full scan has missed, with their names as the source showed them last; null where no name is known',
      ),
    of_source: Counted.describe('Changes of the source; they are sent after any answer'),
    examples: z.array(
      z.object({
        destination: z.string(),
        pk: z.string(),
        kind: z.enum(['new', 'changed']),
        body: z.string().describe('What would be sent, as JSON; at most 1,000 characters'),
      }),
    ),
  })
  .meta({ id: 'FlowQuestion' })

export const AnswerBody = z
  .strictObject({
    number: Counted.describe('Of the question that was read'),
    answer: z
      .enum(['send', 'send_without_deletes', 'keep'])
      .describe(
        'send: send what differs, and delete what is missing. send_without_deletes: forget what is missing. keep: take what differs for delivered, and forget what is missing',
      ),
    pks: z
      .array(z.string().min(1).max(1024))
      .min(1)
      .max(200)
      .optional()
      .describe(
        'The missing items that the answer concerns, in a question about deletes; without it all',
      ),
  })
  .meta({ example: { number: 4711, answer: 'send' } })

export const AnsweredResponse = z
  .object({ name: z.string(), status: z.literal('answered') })
  .meta({ id: 'QuestionAnswered' })
