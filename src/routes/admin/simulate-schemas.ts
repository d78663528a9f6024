import { z } from 'zod'
import { fieldMessage } from '../../errors/field-reasons.ts'
import { ClientNameSchema, OrderId } from '../field-schemas.ts'
import { Status } from '../orders/order-schemas.ts'

export const SimulateParams = z.object({ idempotencyKey: OrderId })
export const SimulateQuery = z.object({
  client: ClientNameSchema.optional().describe('The client of the order; must match when given'),
})

const failureDetails = [
  'bad_filled_card_data',
  'required_call_for_authorize',
  'card_disabled',
  'high_risk',
  'insufficient_amount',
  'invalid_installments',
  'max_attempts_exceeded',
  'rejected_other_reason',
  'processing_error',
] as const

/** The combinations that the provider accepts (its simulation reference); another one is refused here, with the field. */
export const SimulateBody = z
  .strictObject({
    status: z.enum(['processed', 'canceled', 'expired', 'failed', 'refunded', 'action_required']),
    payment_method_type: z
      .enum(['debit_card', 'credit_card', 'qr'])
      .optional()
      .describe('With processed or failed'),
    installments: z.int().min(1).max(36).optional().describe('Only with credit_card'),
    payment_method_id: z
      .enum(['visa', 'master', 'amex', 'debvisa', 'debmaster'])
      .optional()
      .describe('Card brand, with processed or failed'),
    status_detail: z
      .enum(['accredited', ...failureDetails])
      .optional()
      .describe('accredited with processed; a reason with failed'),
  })
  .superRefine((body, context) => {
    const refuse = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message })
    const paysOrFails = body.status === 'processed' || body.status === 'failed'
    if (!paysOrFails && body.payment_method_type !== undefined) {
      refuse('payment_method_type', fieldMessage({ code: 'METHOD_UNASKED' }))
    }
    if (!paysOrFails && body.payment_method_id !== undefined) {
      refuse('payment_method_id', fieldMessage({ code: 'METHOD_UNASKED' }))
    }
    if (body.installments !== undefined && body.payment_method_type !== 'credit_card') {
      refuse('installments', 'goes with payment_method_type credit_card only')
    }
    if (body.status_detail !== undefined) {
      const fits =
        body.status === 'processed'
          ? body.status_detail === 'accredited'
          : body.status === 'failed' && body.status_detail !== 'accredited'
      if (!fits) refuse('status_detail', `does not go with status ${body.status}`)
    }
  })
  .meta({
    id: 'SimulatedEvent',
    example: {
      status: 'processed',
      payment_method_type: 'credit_card',
      installments: 1,
      payment_method_id: 'visa',
      status_detail: 'accredited',
    },
  })

export const SimulateResponse = z
  .object({
    message: z.string(),
    order_id: z.uuid(),
    status: Status.describe('The state before the event'),
    expected_within_seconds: z.number(),
  })
  .meta({
    id: 'EventSimulated',
    example: {
      message: 'The provider plays the event',
      order_id: '0b6f3a52-9a8e-4c67-8b0e-3f1f3a7d2c11',
      status: 'created',
      expected_within_seconds: 10,
    },
  })
