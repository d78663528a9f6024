import { z } from 'zod'
import { orderStatuses, paymentMethods } from '../../domain/order.ts'
import {
  ClientQuery,
  ErpAmount,
  ErpId,
  OrderId,
  PointAmount,
  queryInteger,
  Timestamp,
  text,
} from '../fields.ts'

export const Status = z.enum(orderStatuses)

const Outcome = z
  .enum(['charged', 'not_charged', 'unknown'])
  .describe('Whether the customer is charged, as far as is known')

const Cashier = z
  .object({
    message: z.string().describe('For the cashier; language by Accept-Language (es, en, pt)'),
    action: z.enum([
      'wait',
      'ask_customer_to_pay',
      'look_at_terminal',
      'give_receipt',
      'charge_again',
      'other_payment_method',
      'call_supervisor',
      'none',
    ]),
    retry_safe: z.boolean().describe('Whether the customer may be charged again'),
  })
  .meta({ id: 'CashierAdvice' })

export const CreateOrderBody = z
  .strictObject({
    caja_id: ErpId.describe('ERP box id').meta({ example: 'CAJA-07' }),
    external_reference: text(1, 64).describe('Ticket reference').meta({ example: '0001-00004711' }),
    amount: ErpAmount,
    description: text(0, 150).optional().meta({ example: 'Venta mostrador' }),
    ticket_number: text(0, 64).optional().describe('Invoice number'),
    print_ticket: z.boolean().default(false),
    payment_method: z.enum(paymentMethods).default('all'),
    expiration_minutes: z.int().min(1).max(180).default(16),
  })
  .meta({ id: 'NewOrder' })

export const IdempotencyHeaders = z.looseObject({
  'idempotency-key': z
    .string()
    .regex(/^[\x21-\x7e]{1,128}$/, 'must be 1 to 128 printable characters without spaces')
    .optional()
    .describe(
      'Same key and same content give the first answer again (kept 30 days); other content is 409',
    ),
})

export const CreateOrderResponse = z
  .object({
    message: z.string(),
    order_id: z.uuid(),
    external_reference: z.string(),
    status: Status,
    outcome: Outcome,
    retry_safe: z.boolean(),
    version: z.number(),
    expires_at: Timestamp,
    cashier: Cashier,
  })
  .meta({ id: 'OrderAccepted' })

const Payment = z
  .object({
    id: z.string(),
    amount: PointAmount,
    paid_amount: PointAmount.nullable(),
    status: z.string().meta({ example: 'approved' }),
    status_detail: z.string().nullable(),
    payment_method: z.object({
      type: z.string().nullable().meta({ example: 'credit_card' }),
      installments: z.number().nullable(),
      id: z.string().nullable().meta({ example: 'visa' }),
    }),
  })
  .meta({ id: 'Payment' })

const Refund = z
  .object({
    id: z.string(),
    transaction_id: z.string().nullable(),
    reference_id: z.string().nullable(),
    amount: PointAmount.nullable(),
    status: z.string(),
    type: z.enum(['total', 'partial']),
    created_at: Timestamp.nullable().describe('null for a refund that was not made here'),
  })
  .meta({ id: 'Refund' })

export const OrderResponse = z
  .object({
    order_id: z.uuid(),
    external_reference: z.string(),
    caja_id: z.string(),
    sucursal_id: z.string(),
    amount: PointAmount,
    description: z.string().nullable(),
    ticket_number: z.string().nullable(),
    status: Status,
    status_detail: z.string().nullable(),
    payments: z.array(Payment),
    refunds: z.array(Refund),
    created_at: Timestamp,
    last_updated_at: Timestamp,
    version: z.number().describe('Grows with every change'),
    outcome: Outcome,
    retry_safe: z.boolean(),
    cashier: Cashier,
    terminal_id: z.string(),
    payment_method: z.enum(paymentMethods),
    expires_at: Timestamp,
    mp_order_id: z.string().nullable(),
    paid_after_close: z
      .boolean()
      .describe('Money arrived after the order was canceled, failed or expired'),
    client: z.string(),
    stale: z.boolean().describe('The provider could not be asked: this is what was known before'),
  })
  .meta({ id: 'Order' })

export const ReadOrderQuery = z.object({
  ...ClientQuery,
  wait: queryInteger(1, 30)
    .optional()
    .describe('Hold the answer up to this many seconds until the version changes'),
  version: queryInteger(1, 1_000_000)
    .optional()
    .describe('With wait: the version the caller knows; a newer one is answered at once'),
})

export const OrderParams = z.object({ orderId: OrderId })

export const ListOrdersQuery = z.object({
  ...ClientQuery,
  status: Status.optional(),
  caja_id: ErpId.optional(),
  external_reference: text(1, 64).optional(),
  from: z.iso.datetime({ offset: true }).optional().describe('Created at or after'),
  to: z.iso.datetime({ offset: true }).optional().describe('Created before'),
  limit: queryInteger(1, 200).default(50),
  offset: queryInteger(0, 1_000_000).default(0),
})

export const OrdersResponse = z
  .object({ orders: z.array(OrderResponse), total: z.number() })
  .meta({ id: 'Orders' })

export const CancelOrderBody = z.strictObject({ order_id: OrderId }).meta({ id: 'CancelOrder' })

export const CancelOrderResponse = z
  .object({
    message: z.string(),
    order_id: z.uuid(),
    status: Status,
    status_detail: z.string().nullable(),
    outcome: Outcome,
    retry_safe: z.boolean(),
  })
  .meta({ id: 'OrderCanceled' })

export const RefundOrderBody = z
  .strictObject({
    order_id: OrderId,
    amount: ErpAmount.optional().describe('Absent: the refund is total'),
  })
  .meta({ id: 'RefundOrder' })

export const RefundOrderResponse = z
  .object({
    message: z.string(),
    order_id: z.uuid(),
    type: z.enum(['partial', 'total']),
    amount: PointAmount,
    status: Status,
    status_detail: z.string().nullable(),
    outcome: Outcome,
    retry_safe: z.boolean(),
  })
  .meta({ id: 'OrderRefunded' })
