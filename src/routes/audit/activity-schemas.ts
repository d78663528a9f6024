import { z } from 'zod'
import { fieldMessage } from '../../errors/field-reasons.ts'
import {
  ClientNameSchema,
  limitedText,
  queryInteger,
  queryLimit,
  queryOffset,
  Timestamp,
} from '../field-schemas.ts'
import { pageFields, querySequenceCursor } from '../list-cursor.ts'

export const ActivityQuery = z.object({
  limit: queryLimit(200, 50),
  offset: queryOffset(1_000_000_000),
  action: limitedText(1, 100).optional().describe('This action only, such as order.created'),
  resource_type: limitedText(1, 100).optional().describe('This kind of thing only, such as order'),
  status: z.enum(['success', 'failed']).optional().describe('What became of the action'),
  client: ClientNameSchema.optional().describe('Actions for this client only'),
  order_id: z.uuid().optional().describe('What was done to this order'),
  person_id: z.uuid().optional().describe('What this person did'),
  from: z.iso.datetime({ offset: true }).optional().describe('At or after'),
  to: z.iso.datetime({ offset: true }).optional().describe('Before'),
  cursor: querySequenceCursor(),
})

export const WhoSchema = z
  .object({
    kind: z.enum(['person', 'key', 'administrator', 'service']),
    name: z
      .string()
      .nullable()
      .describe('Of the person, or the description of the key, or its mask; null for the others'),
  })
  .describe('Who did it')

export const ActivityResponse = z
  .object({
    logs: z.array(
      z
        .object({
          id: z.uuid(),
          client_name: z.string().nullable(),
          ip_address: z.string().nullable(),
          action: z.string().meta({ example: 'order.created' }),
          resource_type: z.string(),
          resource_id: z.string().nullable(),
          status: z.enum(['success', 'failed']),
          error_message: z.string().nullable(),
          metadata: z.record(z.string(), z.unknown()),
          who: WhoSchema,
          duration_ms: z.number(),
          created_at: Timestamp,
          seq: z
            .number()
            .nullable()
            .describe('Place in the chain; null until it is sealed, within about a second'),
          hash: z.string().nullable().describe('Hash of the chain there; null until it is sealed'),
        })
        .meta({
          id: 'Activity',
          example: {
            id: '0b6f3a52-9a8e-4c67-8b0e-3f1f3a7d2c11',
            client_name: 'acme',
            ip_address: '192.0.2.7',
            action: 'order.created',
            resource_type: 'order',
            resource_id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
            status: 'success',
            error_message: null,
            metadata: {
              mp_order_id: 'ORD01K8ZQ4M7N2P5R6S7T8V9W0X1Y',
              amount: '1234.50',
              caja_id: 'CAJA-1',
            },
            who: { kind: 'person', name: 'ana.gomez' },
            duration_ms: 412,
            created_at: '2026-11-21T14:30:00.000Z',
            seq: 4711,
            hash: '9f2c…',
          },
        }),
    ),
    ...pageFields,
  })
  .meta({ id: 'ActivityLog' })

export const VerifyQuery = z.object({
  checkpoint_seq: queryInteger(1, Number.MAX_SAFE_INTEGER)
    .optional()
    .describe(
      '`seq` of a line `activity log checkpoint`, or of an earlier check; with checkpoint_hash',
    ),
  checkpoint_hash: z
    .string()
    .regex(/^[0-9a-f]{64}$/, fieldMessage({ code: 'HASH_WRONG' }))
    .optional()
    .describe('`hash` of the same line'),
})

export const VerifyResponse = z
  .object({
    valid: z.boolean(),
    start: z
      .number()
      .describe('Place of the last entry that was deleted for its age; the check starts after it'),
    entries: z.number().describe('How many fit, from the start on'),
    broken_at: z.number().nullable().describe('Place of the first entry that does not fit'),
    reason: z.string().nullable(),
    head: z
      .object({ seq: z.number(), hash: z.string() })
      .describe('Up to where the log is sealed. Keep it elsewhere: it is a checkpoint'),
    lost: z
      .number()
      .nullable()
      .describe(
        'What entries up to this place say is not checked, since their audit key was lost; null: all are',
      ),
    unsealed: z.number().describe('Entries after that, which are still to be sealed'),
    findings: z
      .array(
        z.object({
          seq: z
            .number()
            .describe('Place in the chain; of a row that has none, the place after the end'),
          entry_id: z.string().nullable(),
          reason: z.string(),
        }),
      )
      .describe('All that does not fit, 100 at most'),
    checkpoint: z
      .object({ seq: z.number(), found: z.boolean() })
      .nullable()
      .describe('Whether the log holds the checkpoint of the query'),
  })
  .meta({
    id: 'ActivityCheck',
    example: {
      valid: true,
      start: 0,
      entries: 4711,
      broken_at: null,
      reason: null,
      head: { seq: 4711, hash: '9f2c…' },
      lost: null,
      unsealed: 2,
      findings: [],
      checkpoint: null,
    },
  })
