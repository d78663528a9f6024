import { z } from 'zod'
import {
  ClientQuery,
  ErpId,
  limitedText,
  PartQuery,
  PointAmount,
  Timestamp,
} from '../field-schemas.ts'
import { OutcomeSchema } from '../orders/order-schemas.ts'

const State = z.enum(['open', 'adopted', 'refunded', 'dismissed'])

const exampleOrphan = {
  id: '9c7e3a52-4b1d-4f7e-8a6d-0d2f5e1b7c33',
  state: 'open' as const,
  payment_id: '115019989861',
  caja_id: 'CAJA-1',
  sucursal_id: 'SUC-1',
  amount: '77.50',
  at: '2026-11-21T14:30:00.000Z',
  found_at: '2026-11-21T14:34:00.000Z',
  order_id: null,
  surplus_of: null,
  external_reference: '0001-00004711',
  mp_order_id: 'ORD01K8ZQ4M7N2P5R6S7T8V9W0X1Y',
  similar_order_ids: ['0d5a4c1e-6f0b-4c8e-9d55-3a1b2c4d5e6f'],
  reason: null,
}

export const OrphanResponse = z
  .object({
    id: z.uuid(),
    state: State,
    payment_id: z.string().describe("The payment's number at the provider"),
    caja_id: z.string().nullable(),
    sucursal_id: z.string().nullable(),
    amount: PointAmount,
    at: Timestamp.describe('When the provider had its money'),
    found_at: Timestamp,
    order_id: z.uuid().nullable().describe('The order that it was recorded as'),
    surplus_of: z
      .uuid()
      .nullable()
      .describe('The order that this is another payment of; null where no order matches it'),
    external_reference: z.string().nullable().describe('As the provider has it'),
    mp_order_id: z
      .string()
      .nullable()
      .describe("The provider's order that it was paid for, as that of another application"),
    similar_order_ids: z
      .array(z.uuid())
      .describe('Orders of this service with that reference; none is proven to be the one'),
    reason: z.string().nullable(),
  })
  .meta({ id: 'Orphan', example: exampleOrphan })

export const OrphanRefundResponse = OrphanResponse.extend({
  outcome: OutcomeSchema,
  retry_safe: z.boolean(),
}).meta({
  id: 'OrphanRefunded',
  example: {
    ...exampleOrphan,
    state: 'refunded' as const,
    order_id: '4f0d1a9e-1b7b-4f0c-9a51-2c3d4e5f6a7b',
    reason: 'Cobrado dos veces',
    outcome: 'not_charged',
    retry_safe: true,
  },
})

export const OrphansResponse = z
  .object({ orphans: z.array(OrphanResponse), total: z.number() })
  .meta({ id: 'Orphans', example: { orphans: [exampleOrphan], total: 1 } })

export const ListOrphansQuery = z.object({
  ...ClientQuery,
  state: State.optional().describe('Those of this state only'),
  caja_id: ErpId.optional().describe('Those of this box only').meta({ example: 'CAJA-1' }),
  ...PartQuery,
})

export const OrphanParams = z.object({
  orphanId: limitedText(1, 100).describe('Id of the charge').meta({ example: exampleOrphan.id }),
})

const reason = limitedText(1, 500).describe('The reason, kept with the record')

export const OrphanBody = z
  .strictObject({ reason })
  .meta({ id: 'OrphanReason', example: { reason: 'Cobrado dos veces' } })

export const AdoptBody = z
  .strictObject({
    reason,
    external_reference: limitedText(1, 64)
      .optional()
      .describe('Ticket that it was sold with; without one it is named by its payment')
      .meta({ example: '0001-00004712' }),
  })
  .meta({
    id: 'AdoptOrphan',
    example: { reason: 'Se cobró a mano en la terminal', external_reference: '0001-00004712' },
  })
