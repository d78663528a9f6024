import { z } from 'zod'
import { cursorOf } from '../../domain/event-cursor.ts'
import { type EventType, eventTypes } from '../../domain/event-types.ts'
import { fieldMessage } from '../../errors/field-reasons.ts'
import {
  AnyClientQuery,
  ErpId,
  limitedText,
  queryInteger,
  queryLimit,
  Timestamp,
} from '../field-schemas.ts'

const types = Object.keys(eventTypes) as [EventType, ...EventType[]]
export const EventTypeSchema = z.enum(types)

/** The text of a cursor. */
export const Cursor = z
  .string()
  .max(40)
  .transform((text, context) => {
    const cursor = cursorOf(text)
    if (cursor !== undefined) return cursor
    context.addIssue({ code: 'custom', message: fieldMessage({ code: 'CURSOR_UNKNOWN' }) })
    return z.NEVER
  })

export const ReaderName = limitedText(1, 100)
  .optional()
  .describe(
    'Which program reads, such as the name of its computer; without it the address of the caller. Two programs with one name are one reader',
  )

const TypeList = z
  .string()
  .max(1_000)
  .transform((list) => list.split(','))
  .pipe(z.array(EventTypeSchema))

export const FeedQuery = z.object({
  ...AnyClientQuery,
  consumer: z
    .string()
    .max(64)
    .optional()
    .describe('Read from the place of this consumer, and take its lease for 60 s')
    .meta({ example: 'erp' }),
  reader: ReaderName,
  after: Cursor.optional().describe(
    'The `next` of the answer before; without it the oldest event that is kept comes first',
  ),
  types: TypeList.optional()
    .describe('Only events of these types, separated by commas')
    .meta({ example: 'order.paid,order.refunded' }),
  caja_id: ErpId.optional().describe('Only events of this box'),
  sucursal_id: ErpId.optional().describe('Only events of this store'),
  limit: queryLimit(500, 100),
  wait: queryInteger(1, 30)
    .optional()
    .describe('Without events, wait so many seconds for one before answering'),
})

const Change = z.union([z.string(), z.number(), z.null()])

const exampleEvent = {
  id: 'evt_2f7b0f0c5d5e4c39a3c1b1f7e7a5b9d0',
  type: 'order.paid',
  at: '2026-11-21T14:30:07.000Z',
  client: 'acme',
  sucursal_id: 'SUC-1',
  caja_id: 'CAJA-1',
  resource: {
    type: 'order',
    id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
    url: '/orders/5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
    version: 3,
  },
  order_id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
  changes: {
    status: { from: 'created', to: 'processed' },
    outcome: { from: 'unknown', to: 'charged' },
    paid_cents: { from: 0, to: 123450 },
  },
  data: { external_reference: '0001-00004711', amount: '1234.50', status: 'processed' },
}

export const FeedEvent = z
  .object({
    id: z.string().describe('Equal when the same event is read again'),
    type: EventTypeSchema,
    at: Timestamp,
    client: z.string(),
    sucursal_id: z.string().nullable(),
    caja_id: z.string().nullable(),
    resource: z.object({
      type: z.string(),
      id: z.string(),
      url: z.string().describe('Where its present state is read'),
      version: z
        .number()
        .nullable()
        .describe('Apply an event only if its version is higher than the one you have'),
    }),
    order_id: z.string().nullable().describe('The order that it is about'),
    changes: z
      .record(z.string(), z.object({ from: Change, to: Change }))
      .describe('What changed; money in integer cents'),
    data: z
      .record(z.string(), z.unknown())
      .nullable()
      .describe('The resource after the change; null: read it at `resource.url`'),
  })
  .meta({ id: 'FeedEvent', example: exampleEvent })

export const FeedResponse = z
  .object({
    events: z.array(FeedEvent).describe('Empty: there is nothing new for now'),
    next: z.string().describe('The cursor for the next request, also when there are no events'),
    has_more: z.boolean().describe('More events wait: read on at once'),
  })
  .meta({
    id: 'EventFeed',
    example: { events: [exampleEvent], next: 'MTo0MjE3', has_more: false },
  })
