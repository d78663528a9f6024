import { z } from 'zod'

const Finding = z.object({
  kind: z
    .enum(['gone', 'type', 'changed'])
    .describe('gone: no record has the field any more; changed: too many items at once'),
  field: z.string().nullable(),
  was: z.array(z.string()).nullable().describe('Types of the values before'),
  is: z.string().nullable(),
  items: z.number().nullable().describe('Items that changed'),
  known: z.number().nullable().describe('Items of the flow'),
})

export const HeldDrift = z
  .object({
    reason: z.string(),
    findings: z.array(Finding),
    since: z.iso.datetime(),
    read: z.number().describe('Names the poll that found this, for the approval'),
    approved_at: z.iso.datetime().nullable().describe('While an approval waits for the next poll'),
  })
  .meta({
    id: 'HeldDrift',
    example: {
      reason: 'the field "precio" is gone',
      findings: [{ kind: 'gone', field: 'precio', was: null, is: null, items: null, known: null }],
      since: '2026-11-22T14:30:05.000Z',
      read: 4711,
      approved_at: null,
    },
  })

export const DriftResponse = z
  .object({ name: z.string(), held: HeldDrift.nullable().describe('null: the flow is not held') })
  .meta({ id: 'FlowDrift' })

export const ApproveDriftBody = z
  .strictObject({
    read: z
      .number()
      .int()
      .min(0)
      .optional()
      .describe('`held.read` as it was shown; when something else was found since, it is 409'),
  })
  .optional()
  .nullable()
