import { z } from 'zod'
import { FlowReason, FlowTimestamp } from './api-model.ts'
import { DestinationSending } from './control-schemas.ts'

const Change = z.enum(['upsert', 'delete'])

/** A field that differs between two versions of an item. */
export const DifferenceSchema = z.object({
  field: z.string().describe('Such as size.width or lines[2].quantity'),
  change: z.enum(['added', 'removed', 'changed']),
  from: z.unknown().optional().describe('Absent when added; a long value is shortened to text'),
  to: z.unknown().optional().describe('Absent when removed; a long value is shortened to text'),
})

const ItemHistory = z
  .object({
    content: z
      .record(z.string(), z.unknown())
      .nullable()
      .describe(
        'The newest version as the source gave it; null when none is kept, or beyond 64 KiB',
      ),
    versions: z
      .array(
        z.object({
          id: z.number(),
          seen_at: FlowTimestamp,
          kind: Change,
          hash: z.string(),
          comparison: z
            .enum(['compared', 'first', 'deleted', 'too_large'])
            .describe(
              'compared with the version before it; not, since it is the first on record, a deletion, or one of both is beyond 64 KiB',
            ),
          differences: z.array(DifferenceSchema).describe('By field; at most 50'),
          difference_count: z.number().describe('Of all fields that differ'),
        }),
      )
      .describe('The last 20 contents of the item, newest first'),
    attempts: z
      .array(
        z.object({
          at: FlowTimestamp,
          destination: z.string(),
          version: z
            .number()
            .nullable()
            .describe('Id of the version that was sent; null when it is not kept any longer'),
          kind: Change,
          attempt: z.number().describe('1 for the first of a delivery'),
          outcome: z
            .enum(['delivered', 'retry', 'failed', 'skipped'])
            .describe(
              'retry: another attempt follows; failed: none does by itself; skipped: it is not to be sent there',
            ),
          status: z.number().nullable().describe('HTTP status, where there was one'),
          reason: z.string().nullable().describe('Why it was not delivered'),
          why: FlowReason,
        }),
      )
      .describe('The last 100 attempts to deliver the item, newest first'),
  })
  .meta({ id: 'FlowItemHistory' })

export const Changes = z
  .object({
    comparison: z.enum(['compared', 'first', 'too_large']),
    differences: z.array(DifferenceSchema).describe('By field; at most 50'),
    difference_count: z.number().describe('Of all fields that differ'),
  })
  .nullable()

export const WaitingQuery = z.object({
  limit: z.coerce.number().int().min(1).max(200).default(100).describe('1 to 200'),
})

export const WaitingSchema = z.object({
  destination: z.string(),
  pk: z.string(),
  attempts: z.number().describe('Failed so far'),
  last_error: z.string().nullable(),
  why: FlowReason,
  last_status: z.number().nullable().describe('HTTP status, where there was one'),
  queued_at: FlowTimestamp,
  next_attempt_at: FlowTimestamp.nullable().describe('null when it is due'),
})

export const AllDelayedResponse = z
  .object({ delayed: z.array(WaitingSchema.extend({ flow: z.string() })) })
  .meta({ id: 'AllDelayed' })

export const WaitingResponse = z
  .object({
    name: z.string(),
    waiting: z.array(WaitingSchema),
    destinations: z
      .array(z.object({ name: z.string(), type: z.string(), sending: DestinationSending }))
      .describe('What is in the way of each destination'),
  })
  .meta({ id: 'FlowWaiting' })

const ItemState = z
  .enum(['waiting', 'delayed', 'failed', 'delivered', 'skipped', 'unknown'])
  .describe(
    'skipped: its filter or mapping leaves the item out; unknown: delivered longer ago than records are kept, or never queued',
  )

export const ItemResponse = z
  .object({
    name: z.string(),
    pk: z.string(),
    seen: z
      .object({ hash: z.string(), changed_at: FlowTimestamp })
      .nullable()
      .describe(
        'What the source showed last; null when it never did, or after a reset or a deletion',
      ),
    destinations: z.array(
      z.object({
        name: z.string(),
        type: z.string(),
        state: ItemState,
        in_sync: z
          .boolean()
          .nullable()
          .describe('Whether what arrived last is what the source showed last; null: not known'),
        still_there: z
          .boolean()
          .describe('The filter or mapping leaves the item out, and the destination still has it'),
        same_identity: z
          .array(z.string())
          .describe('Keys of other items of the flow with its identity there; at most 10'),
        attempts: z.number().describe('Failed attempts of the pending delivery'),
        last_error: z.string().nullable(),
        why: FlowReason,
        last_status: z.number().nullable(),
        queued_at: FlowTimestamp.nullable(),
        next_attempt_at: FlowTimestamp.nullable(),
        delivered_at: FlowTimestamp.nullable(),
        remembered: z
          .record(z.string(), z.unknown())
          .nullable()
          .describe('What is kept of its answers, such as its own id of the item'),
      }),
    ),
    history: ItemHistory,
  })
  .meta({ id: 'FlowItem' })

export const FoundItemResponse = z
  .object({
    pk: z.string(),
    flows: z
      .array(
        z.object({
          name: z.string(),
          changed_at: FlowTimestamp.nullable().describe(
            'When its source showed another content last; null when it shows none',
          ),
          destinations: z.array(z.object({ name: z.string(), state: ItemState })),
        }),
      )
      .describe('Only flows that know the item'),
  })
  .meta({ id: 'FoundItem' })
