import { z } from 'zod'
import { waitingCountedAtMost } from '../../payments/events/endpoints.ts'
import { replayedAtMost } from '../../payments/events/replay-events.ts'
import { answerAtMost } from '../../payments/process/endpoint-client.ts'
import { ClientQuery, ErpId, limitedText, queryLimit, Timestamp } from '../field-schemas.ts'
import { pageFields, querySequenceCursor } from '../list-cursor.ts'
import { PlaceFrom } from './consumer-schemas.ts'
import { EventTypeSchema, FeedEvent } from './feed-schemas.ts'

const daySeconds = 86_400

const EndpointId = z
  .string()
  .regex(/^ep_[0-9a-f]{32}$/)
  .describe('Id of the endpoint')
  .meta({ example: 'ep_5d0f7c1e2b444f0a9c3961c1f6a0e2d7' })

const EventId = z
  .string()
  .regex(/^evt_[0-9a-f]{32}$/)
  .describe('Id of the event')
  .meta({ example: 'evt_2f7b0f0c5d5e4c39a3c1b1f7e7a5b9d0' })

export const EndpointParams = z.object({ id: EndpointId })
export const SentEventParams = z.object({ id: EndpointId, event_id: EventId })
export const EndpointQuery = z.object(ClientQuery)

const contentFields = {
  url: limitedText(1, 2_000).describe(
    'Where events are sent: an https address. Private networks and http only where the operator allows them',
  ),
  types: z
    .array(EventTypeSchema)
    .min(1)
    .max(100)
    .nullable()
    .describe('Only events of these types; null: of all, also those that come with newer versions'),
  sucursal_id: ErpId.nullable().describe('Only events of this store'),
  caja_id: ErpId.nullable().describe('Only events of this box'),
}

export const NewEndpoint = z
  .strictObject({
    url: contentFields.url,
    types: contentFields.types.default(null),
    sucursal_id: contentFields.sucursal_id.default(null),
    caja_id: contentFields.caja_id.default(null),
    from: PlaceFrom.default('now'),
  })
  .meta({
    id: 'NewEndpoint',
    example: { url: 'https://erp.example/tillbridge', types: ['order.paid', 'order.refunded'] },
  })

export const EndpointChange = z
  .strictObject({
    url: contentFields.url.optional(),
    types: contentFields.types.optional(),
    sucursal_id: contentFields.sucursal_id.optional(),
    caja_id: contentFields.caja_id.optional(),
  })
  .meta({ id: 'EndpointChange', example: { types: null } })

const endpointFields = {
  id: EndpointId,
  client: z.string(),
  url: z.string(),
  types: z.array(EventTypeSchema).nullable(),
  sucursal_id: z.string().nullable(),
  caja_id: z.string().nullable(),
  state: z.enum(['active', 'stopped']),
  stop_reason: z
    .enum(['gone', 'exhausted', 'person', 'secret_lost'])
    .nullable()
    .describe(
      'Why it is stopped. `gone`: it answered 410. `exhausted`: an event could not be delivered for 75 h. `secret_lost`: rotate its secret, then resume it',
    ),
  stopped_at: Timestamp.nullable(),
  created_at: Timestamp,
  last_success_at: Timestamp.nullable(),
  failures: z.number().describe('Failed attempts since the last one that succeeded'),
  resting_until: Timestamp.nullable().describe(
    'Nothing is sent before: the endpoint answered so with `Retry-After`',
  ),
  waiting: z
    .number()
    .describe(`Events that it does not have yet, counted up to ${waitingCountedAtMost}`),
  oldest_at: Timestamp.nullable().describe('When the first of them happened'),
  failed: z.number().describe('How many of them failed and wait for their next attempt'),
  next_attempt_at: Timestamp.nullable().describe('When the first of those is sent again'),
  missed: z
    .number()
    .describe('Events that it never got: they were deleted after 30 days before it took them'),
  former_secret_until: Timestamp.nullable().describe('Until when the former secret signs too'),
}

const exampleEndpoint = {
  id: 'ep_5d0f7c1e2b444f0a9c3961c1f6a0e2d7',
  client: 'acme',
  url: 'https://erp.example/tillbridge',
  types: ['order.paid' as const, 'order.refunded' as const],
  sucursal_id: null,
  caja_id: null,
  state: 'active' as const,
  stop_reason: null,
  stopped_at: null,
  created_at: '2026-11-21T12:00:00.000Z',
  last_success_at: '2026-11-21T14:30:08.000Z',
  failures: 0,
  resting_until: null,
  waiting: 0,
  oldest_at: null,
  failed: 0,
  next_attempt_at: null,
  missed: 0,
  former_secret_until: null,
}

export const EndpointResponse = z
  .object(endpointFields)
  .meta({ id: 'Endpoint', example: exampleEndpoint })

export const EndpointsResponse = z
  .object({ endpoints: z.array(z.object(endpointFields)) })
  .meta({ id: 'Endpoints', example: { endpoints: [exampleEndpoint] } })

export const EndpointWithSecret = z
  .object({
    ...endpointFields,
    secret: z.string().describe('Signs what is sent. It is shown in this answer only: store it'),
  })
  .meta({
    id: 'EndpointWithSecret',
    example: { ...exampleEndpoint, secret: 'whsec_<base64 of 32 bytes>' },
  })

export const RotateBody = z
  .strictObject({
    overlap_seconds: z
      .int()
      .min(0)
      .max(7 * daySeconds)
      .default(daySeconds)
      .describe('How long the former secret signs too: 0 to 7 days, a day unless given'),
  })
  .meta({ id: 'SecretRotation', example: { overlap_seconds: daySeconds } })

export const ReplayBody = z
  .strictObject({
    event_id: EventId.optional().describe('This event'),
    from: z.iso.datetime({ offset: true }).optional().describe('The events from this time on'),
    to: z.iso.datetime({ offset: true }).optional().describe('Until this time; now unless given'),
    failed: z.literal(true).optional().describe('All that failed and wait, at once'),
    dry_run: z.boolean().default(false).describe('Only counts them'),
  })
  .meta({ id: 'Replay', example: { from: '2026-11-21T00:00:00-03:00', dry_run: true } })

export const EventReplayResponse = z
  .object({
    events: z.number().describe(`How many events are sent again, ${replayedAtMost} at most`),
    dry_run: z.boolean(),
  })
  .meta({ id: 'ReplayResult', example: { events: 42, dry_run: true } })

const resultFields = {
  at: Timestamp,
  duration_ms: z.number(),
  success: z.boolean().describe('The status is 2xx'),
  status: z.number().nullable().describe('Null without an answer'),
  failure: z
    .enum(['network', 'timeout', 'refused_address'])
    .nullable()
    .describe(
      'Why there is no answer. `timeout`: none within 15 s. `refused_address`: the name leads to a private network or a metadata service',
    ),
  answer: z.string().nullable().describe(`The first ${answerAtMost} characters of the answer`),
}

const exampleResult = {
  at: '2026-11-21T14:30:07.412Z',
  duration_ms: 83,
  success: false,
  status: 500,
  failure: null,
  answer: 'Internal Server Error',
}

export const PingResponse = z
  .object(resultFields)
  .meta({ id: 'PingResult', example: { ...exampleResult, success: true, status: 204, answer: '' } })

const Attempt = z.object({
  event_id: EventId.nullable().describe('Null for a ping'),
  type: z.string(),
  ...resultFields,
})
const exampleAttempt = {
  event_id: 'evt_2f7b0f0c5d5e4c39a3c1b1f7e7a5b9d0',
  type: 'order.paid',
  ...exampleResult,
}

export const AttemptsQuery = z.object({
  ...ClientQuery,
  event_id: EventId.optional().describe('Of this event only'),
  outcome: z.enum(['success', 'failed']).optional().describe('Only those that ended so'),
  limit: queryLimit(200, 50),
  cursor: querySequenceCursor(),
})

export const AttemptsResponse = z
  .object({ attempts: z.array(Attempt), ...pageFields })
  .meta({ id: 'EndpointAttempts', example: { attempts: [exampleAttempt], total: 1 } })

export const SentEventResponse = z.object({ event: FeedEvent, attempts: z.array(Attempt) }).meta({
  id: 'SentEvent',
  example: { event: FeedEvent.meta()?.example as never, attempts: [exampleAttempt] },
})
