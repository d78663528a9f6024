import { z } from 'zod'
import { countedAtMost } from '../../payments/events/consumers.ts'
import { ClientQuery, Timestamp } from '../field-schemas.ts'
import { Cursor, ReaderName } from './feed-schemas.ts'

const ConsumerName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/)
  .describe('Name of the consumer: a-z, 0-9, - and _')
  .meta({ example: 'erp' })

export const ConsumerParams = z.object({ name: ConsumerName })
export const ReaderQuery = z.object({ ...ClientQuery, reader: ReaderName })

/** Where a reader of the feed begins. */
export const PlaceFrom = z
  .union([z.enum(['beginning', 'now']), z.iso.datetime({ offset: true })])
  .describe('The oldest event that is kept, the next one, or the first one from a time on')

export const NewConsumer = z
  .strictObject({ name: ConsumerName, from: PlaceFrom })
  .meta({ id: 'NewConsumer', example: { name: 'erp', from: 'beginning' } })

export const CommitBody = z
  .strictObject({ after: Cursor.describe('`next` of the page that you have processed') })
  .meta({ id: 'ConsumerCommit', example: { after: 'MTow' } })

export const SeekBody = z
  .strictObject({ from: PlaceFrom.optional(), after: Cursor.optional() })
  .meta({ id: 'ConsumerSeek', example: { from: '2026-11-21T00:00:00-03:00' } })

const consumerFields = {
  name: z.string(),
  after: z.string().describe('Its place: the cursor that was committed last'),
  created_at: Timestamp,
  committed_at: Timestamp.nullable(),
  reader: z.string().nullable().describe('Who read last'),
  lease_until: Timestamp.nullable().describe('Until when no other reader gets events'),
}
const exampleConsumer = {
  name: 'erp',
  after: 'MTo0MjE3',
  created_at: '2026-11-21T12:00:00.000Z',
  committed_at: '2026-11-21T14:30:09.000Z',
  reader: 'SERVIDOR-ERP',
  lease_until: '2026-11-21T14:31:09.000Z',
}

export const ConsumerResponse = z
  .object(consumerFields)
  .meta({ id: 'Consumer', example: exampleConsumer })

export const ConsumersResponse = z
  .object({
    consumers: z.array(
      z.object({
        ...consumerFields,
        waiting: z.number().describe(`Events after its place, counted up to ${countedAtMost}`),
        oldest_at: Timestamp.nullable().describe('When the first of them happened'),
      }),
    ),
  })
  .meta({
    id: 'Consumers',
    example: {
      consumers: [{ ...exampleConsumer, waiting: 2, oldest_at: '2026-11-21T14:30:11.000Z' }],
    },
  })
