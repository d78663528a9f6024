import { z } from 'zod'
import { chargebackStates } from '../../domain/chargeback.ts'
import {
  ClientQuery,
  ErpId,
  limitedText,
  PartQuery,
  PointAmount,
  Timestamp,
} from '../field-schemas.ts'

const State = z.enum(chargebackStates)

const exampleChargeback = {
  id: '5b0a1f64-9a3c-4d1e-8f5c-2f6f1f0c7d21',
  client: 'acme',
  state: 'open' as const,
  case_id: '217000087654321000',
  payment_id: '115019989861',
  payment_ids: ['115019989861'],
  order_id: '0a9f4b3e-2a58-4a3e-9d57-6f2c1d7be001',
  caja_id: 'CAJA-1',
  sucursal_id: 'SUC-1',
  amount: '1000.00',
  currency: 'ARS',
  reason: 'general',
  coverage_eligible: true,
  coverage_applied: null,
  documentation_status: 'pending',
  documents_due_at: '2026-11-28T14:30:00.000Z',
  opened_at: '2026-11-21T14:30:00.000Z',
  found_at: '2026-11-21T14:30:05.000Z',
  read_at: '2026-11-21T14:30:05.000Z',
  decided_at: null,
}

export const ChargebackResponse = z
  .object({
    id: z.uuid(),
    client: z.string(),
    state: State.describe(
      '`open`; `won`: the shop keeps the money; `lost`: the buyer has it; `unknown`: the provider shows a charge-back, and its case could not be read',
    ),
    case_id: z.string().nullable().describe('The number of the case at the provider'),
    payment_id: z.string().describe('Number of the disputed payment at the provider'),
    payment_ids: z.array(z.string()).describe('All numbers that the case names'),
    order_id: z.uuid().nullable().describe('The order of the payment, whose state stays as it is'),
    caja_id: z.string().nullable(),
    sucursal_id: z.string().nullable(),
    amount: PointAmount.nullable().describe('Null where the provider does not say it readably'),
    currency: z.string().nullable(),
    reason: z.string().nullable().describe("The provider's own word"),
    coverage_eligible: z.boolean().nullable().describe('Whether the provider may bear it'),
    coverage_applied: z.boolean().nullable().describe('The decision; null while there is none'),
    documentation_status: z
      .string()
      .nullable()
      .describe("The provider's own word, such as `pending` while it waits for documents"),
    documents_due_at: Timestamp.nullable(),
    opened_at: Timestamp.nullable().describe('As the provider dates it'),
    found_at: Timestamp,
    read_at: Timestamp.nullable().describe('When the case was last read'),
    decided_at: Timestamp.nullable().describe('When the decision was read'),
  })
  .meta({ id: 'Chargeback', example: exampleChargeback })

export const ChargebacksResponse = z
  .object({ chargebacks: z.array(ChargebackResponse), total: z.number() })
  .meta({ id: 'Chargebacks', example: { chargebacks: [exampleChargeback], total: 1 } })

export const ListChargebacksQuery = z.object({
  ...ClientQuery,
  state: State.optional().describe('Those of this state only'),
  caja_id: ErpId.optional().describe('Those of this box only').meta({ example: 'CAJA-1' }),
  ...PartQuery,
})

export const ChargebackParams = z.object({
  chargebackId: limitedText(1, 100)
    .describe("Our id of the charge-back, or the provider's number of its case")
    .meta({ example: exampleChargeback.id }),
})
