import { z } from 'zod'
import { FlowReason } from '../api-model.ts'
import { Difference } from './item-schemas.ts'

export const PreviewQuery = z.object({
  max_seconds: z.coerce
    .number()
    .int()
    .min(1)
    .max(600)
    .default(60)
    .describe('Then the reading is cut off; 1 to 600'),
  max_rows: z.coerce
    .number()
    .int()
    .min(1)
    .max(10_000_000)
    .default(1_000_000)
    .describe('Of more records than these the rest is not read; 1 to 10000000'),
})

const Deletes = z.object({
  verdict: z
    .enum(['none', 'send', 'hold_back', 'not_asked', 'unknown'])
    .describe(
      'none: nothing is gone; hold_back: by deletes.guard; not_asked: this sync would not look; unknown: cut off',
    ),
  count: z.number().nullable().describe('Known items that the source no longer has'),
  reason: z.string().nullable().describe('Why they are not sent, or not known'),
  why: FlowReason,
})

const Destination = z.object({
  name: z.string(),
  type: z.string(),
  upserts: z.number().describe('Those that are skipped included'),
  deletes: z.number(),
  tried: z.number().describe('How many of these were mapped and checked: all, or the first 10,000'),
  skipped: z
    .number()
    .describe('Of those tried, how many its filter or its mapping leaves out: they are not sent'),
  refused: z.number().describe('Of those tried, how many could not be delivered as they are'),
  refusals: z
    .array(z.object({ pk: z.string(), reason: z.string(), why: FlowReason }))
    .describe('The first 5'),
})

const Sampled = z.object({
  pk: z.string(),
  kind: z
    .enum(['new', 'changed', 'deleted'])
    .describe('deleted: gone at the source; sent only when deletes.verdict is send'),
  comparison: z
    .enum(['compared', 'first', 'deleted', 'too_large'])
    .describe(
      'compared with the last version on record; not, since there is none, the item is gone, or one of both is beyond 64 KiB',
    ),
  differences: z.array(Difference).describe('By field; at most 50'),
  difference_count: z.number().describe('Of all fields that differ'),
})

export const PreviewResponse = z
  .object({
    name: z.string(),
    paused: z.boolean().describe('A sync of a paused flow does this only with force=true'),
    definition: z
      .enum(['none', 'comparing', 'asked', 'answered'])
      .describe(
        'The question about a changed definition; see GET /flow/{name}/question. While it is `comparing`, a preview reads nothing',
      ),
    source_changed: z
      .boolean()
      .describe('Another source than before: all of it is read, and deletes wait for an approval'),
    scan: z
      .object({
        kind: z.enum(['full', 'incremental']),
        since: z
          .string()
          .nullable()
          .describe('Where the source is read from; null: from the beginning'),
      })
      .nullable()
      .describe('What the sync would read; null when it would read nothing'),
    cut_off: z
      .enum(['rows', 'time'])
      .nullable()
      .describe('The limit at which the reading ended; all counts are then "at least"'),
    rows_read: z.number(),
    duration_ms: z.number(),
    changes: z.number().describe('What POST /sync/{name} would answer as changes'),
    items: z.object({
      new: z.number(),
      changed: z.number(),
      unchanged: z.number(),
      filtered: z.number().describe('Left out by item.filter'),
      duplicate: z.number().describe('Records whose key had come before; they are errors'),
      rejected: z.number().describe('Records that are no items, such as one without a key'),
    }),
    deletes: Deletes,
    destinations: z.array(Destination),
    problems: z
      .array(z.object({ pk: z.string().nullable(), message: z.string(), why: FlowReason }))
      .describe('The first 20 rejected and duplicate records'),
    sample: z.array(Sampled).describe('20 of the changes, of each kind some'),
  })
  .meta({ id: 'SyncPreview' })
