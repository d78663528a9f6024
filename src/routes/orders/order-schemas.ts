import { z } from 'zod'
import { orderStatuses, paymentMethods } from '../../domain/order.ts'
import { decisions, received, standings } from '../../domain/order-state.ts'
import { fieldMessage } from '../../errors/field-reasons.ts'
import {
  ClientQuery,
  Day,
  ErpAmount,
  ErpId,
  limitedText,
  OrderId,
  PointAmount,
  queryInteger,
  queryLimit,
  queryOffset,
  SignedAmount,
  Timestamp,
} from '../field-schemas.ts'
import { pageFields, queryTimeCursor } from '../list-cursor.ts'

export const Status = z.enum(orderStatuses)

const Standing = z.enum(standings)
const standingMeans =
  'under_way: waits for the customer. paid, not_paid. refunded: in part or whole. in_doubt: the result of the charge or of a refund is unknown, and an operator must check it. Each order is in one of them; an operator’s decision counts (`settled`)'

export const OutcomeSchema = z
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

const exampleOrderId = '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7'
const exampleAdvice = {
  message:
    'El cobro espera en la terminal. Si no aparece, presioná el botón de actualizar en ella.',
  action: 'ask_customer_to_pay' as const,
  retry_safe: false,
}

export const CreateOrderBody = z
  .strictObject({
    caja_id: ErpId.describe('ERP box id').meta({ example: 'CAJA-1' }),
    external_reference: limitedText(1, 64)
      .describe('Ticket reference')
      .meta({ example: '0001-00004711' }),
    amount: ErpAmount,
    description: limitedText(0, 150).optional().meta({ example: 'Venta mostrador' }),
    ticket_number: limitedText(0, 64).optional().describe('Invoice number'),
    print_ticket: z.boolean().default(false).describe('Whether the terminal prints a receipt'),
    payment_method: z
      .enum(paymentMethods)
      .default('all')
      .describe('What the customer may pay with; all: whatever the terminal takes'),
    expiration_minutes: z
      .int()
      .min(1)
      .max(180)
      .default(16)
      .describe('How long the order waits for the customer'),
  })
  .meta({
    id: 'NewOrder',
    example: {
      caja_id: 'CAJA-1',
      // Not the sale of the README: that one is paid already.
      external_reference: '0001-00004720',
      amount: '1234,50',
      description: 'Venta mostrador',
      ticket_number: 'B-0001-00004720',
      print_ticket: false,
      payment_method: 'all',
      expiration_minutes: 16,
    },
  })

export const IdempotencyHeaders = z.looseObject({
  'idempotency-key': z
    .string()
    .regex(/^[\x21-\x7e]{1,128}$/, fieldMessage({ code: 'TEXT_NOT_PRINTABLE' }))
    .optional()
    .describe(
      'Same key and same content give the first answer again (kept 30 days); other content is 409',
    ),
})

/** Why a person cancels or refunds; beside the body, whose fields are fixed. */
const reason = z
  .string()
  .max(1_500)
  .transform((given, context) => {
    const words = decoded(given)
    if (words !== undefined && words.length <= 300 && !/\p{Cc}/u.test(words)) return words
    context.addIssue({
      code: 'custom',
      message: fieldMessage({ code: 'TEXT_NOT_ENCODED' }),
    })
    return z.NEVER
  })
  .optional()
  .describe('Why, percent-encoded as by encodeURIComponent; kept in the audit log')

function decoded(given: string): string | undefined {
  try {
    return decodeURIComponent(given).trim()
  } catch {
    return undefined
  }
}

export const ReasonHeaders = z.looseObject({ 'x-reason': reason })
export const RefundHeaders = IdempotencyHeaders.extend({ 'x-reason': reason })

const acceptedOrder = {
  message: z.string(),
  order_id: z.uuid(),
  external_reference: z.string(),
  status: Status,
  outcome: OutcomeSchema,
  retry_safe: z.boolean(),
  version: z.number(),
  expires_at: Timestamp,
  cashier: Cashier,
}
const exampleAccepted = {
  message: 'The order is on its way to the terminal',
  order_id: exampleOrderId,
  external_reference: '0001-00004711',
  status: 'created',
  outcome: 'unknown',
  retry_safe: false,
  version: 2,
  expires_at: '2026-11-21T14:46:00.000Z',
  cashier: exampleAdvice,
} as const

export const CreateOrderResponse = z
  .object(acceptedOrder)
  .meta({ id: 'OrderAccepted', example: exampleAccepted })

/** The same for a repeated request, here of a sale that is paid by now. */
export const RepeatedOrderResponse = z.object(acceptedOrder).meta({
  id: 'OrderRepeated',
  example: {
    ...exampleAccepted,
    message: 'This request made an order before; this is its state now',
    status: 'processed',
    outcome: 'charged',
    version: 4,
    cashier: { message: 'Cobro aprobado.', action: 'give_receipt', retry_safe: false },
  },
})

const NamedAmount = z.object({
  name: z.string().describe('In the provider’s own word'),
  detail: z.string().nullable(),
  entity: z.string().nullable().describe('The financial entity, such as the province of a tax'),
  amount: SignedAmount,
})

const NetResponse = z
  .object({
    state: z
      .enum(['estimated', 'settled', 'differs'])
      .describe(
        'estimated: by the payment’s own charges. settled: a report of the provider agrees. differs: a report says otherwise',
      ),
    gross: SignedAmount,
    fee: SignedAmount,
    financing: SignedAmount.describe('What instalments cost the seller'),
    taxes: z.array(NamedAmount).describe('Withheld from the seller'),
    not_classed: z
      .array(NamedAmount)
      .describe('Charges whose names no rule knows; a part of `unexplained`'),
    unexplained: SignedAmount.describe(
      'What is missing: gross − fee − financing − taxes − unexplained = net, to the cent',
    ),
    net: SignedAmount,
    release_on: Day.nullable().describe('When the money can be used'),
    expected: z
      .object({ gross: SignedAmount, net: SignedAmount.nullable() })
      .nullable()
      .describe('What was to be expected, where a report differs'),
    charged_back: z
      .object({ taken: SignedAmount, returned: SignedAmount })
      .nullable()
      .describe(
        'Net amounts that charge-backs took, and that came back when they were won, as reports say it; no part of `net`',
      ),
  })
  .meta({ id: 'Net' })

const Payment = z
  .object({
    id: z.string(),
    amount: PointAmount.describe('What was asked'),
    paid_amount: PointAmount.nullable().describe('What the buyer paid'),
    tip_amount: PointAmount.describe('A part of `paid_amount`, for the shop'),
    received_amount: PointAmount.nullable().describe(
      'What the shop receives: with the tip, without the interest that the buyer pays to the card issuer',
    ),
    is_surplus: z
      .boolean()
      .describe('Approved beside the payment of the order: it counts nowhere in the order'),
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
    amount: PointAmount.nullable().describe('Amount that the shop refunds'),
    buyer_amount: PointAmount.nullable().describe(
      'What the buyer gets, where the provider names more than the shop gives',
    ),
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
    amount: PointAmount.describe('What was asked'),
    paid_amount: PointAmount.describe('What the buyer paid, interest of the card issuer included'),
    received_amount: PointAmount.describe(
      'Amount that the shop received, before fees. Closings compare it; refunds cannot exceed it',
    ),
    refunded_amount: PointAmount.describe('Amount that the shop refunded'),
    description: z.string().nullable(),
    ticket_number: z.string().nullable(),
    status: Status,
    status_detail: z.string().nullable(),
    payments: z.array(Payment),
    refunds: z.array(Refund),
    created_at: Timestamp,
    last_updated_at: Timestamp,
    version: z.number().describe('Grows with every change'),
    outcome: OutcomeSchema,
    retry_safe: z.boolean(),
    cashier: Cashier,
    terminal_id: z.string(),
    payment_method: z.enum(paymentMethods),
    expires_at: Timestamp,
    mp_order_id: z.string().nullable(),
    paid_after_close: z
      .boolean()
      .describe(
        'Money arrived after the order was canceled, failed or expired, or after a person said that it was not paid',
      ),
    needs_decision: z
      .enum(decisions)
      .nullable()
      .describe(
        'What a person must decide about its money. paid_late: it counted as not paid, and was paid; settle it as paid or refund it. paid_twice: there is a further payment, see /orphans. paid_less: the shop received less than was asked; settle it as paid or refund it. settled_unpaid: a person said that it was paid, and it ended without a payment; settle it as not paid. null: nothing',
      ),
    charged_instead: z
      .object({
        order_id: z.uuid(),
        external_reference: z.string(),
        amount: PointAmount,
        status: Status,
        created_at: Timestamp,
      })
      .nullable()
      .describe(
        'With `paid_late`: the charge of the same box that was made instead, by reference or amount, where one is found',
      ),
    net: NetResponse.nullable().describe(
      'Net amount of the charge for the seller, without later refunds; null until the provider lists its fees',
    ),
    standing: Standing.describe(standingMeans),
    given_up_at: Timestamp.nullable().describe(
      'Since when the charge is abandoned; if it appears at the provider, the service cancels it',
    ),
    settled: z
      .object({ as: z.enum(['paid', 'not_paid']), at: Timestamp, reason: z.string() })
      .nullable()
      .describe('The operator’s decision about it while it was in doubt'),
    refund_in_doubt: z
      .object({
        why: z.string(),
        type: z.enum(['partial', 'total']),
        amount: PointAmount,
        created_at: Timestamp,
        decided_at: Timestamp.nullable().describe(
          'When a person decided, where the provider contradicts the decision; send it in `replaces`',
        ),
        candidates: z
          .array(z.object({ id: z.string(), amount: PointAmount.nullable(), status: z.string() }))
          .describe('Refunds of the provider that may be this one'),
      })
      .nullable()
      .describe(
        'A refund of which a person must say whether it was made: `POST /orders/{orderId}/settle`',
      ),
    settled_refunds: z
      .array(
        z.object({
          as: z.enum(['refunded', 'not_refunded']),
          amount: PointAmount,
          refund_id: z.string().nullable(),
          at: Timestamp,
          reason: z.string(),
        }),
      )
      .describe('What persons said of refunds whose outcome was not known'),
    client: z.string(),
    stale: z.boolean().describe('The provider could not be asked: this is what was known before'),
  })
  .meta({
    id: 'Order',
    example: {
      order_id: exampleOrderId,
      external_reference: '0001-00004711',
      caja_id: 'CAJA-1',
      sucursal_id: 'SUC-1',
      amount: '1234.50',
      paid_amount: '1234.50',
      received_amount: '1234.50',
      refunded_amount: '234.50',
      description: 'Venta mostrador',
      ticket_number: 'B-0001-00004711',
      status: 'partially_refunded',
      status_detail: 'partially_refunded',
      payments: [
        {
          id: 'PAY01K8ZQ4M7N2P5R6S7T8V9W0X1Y',
          amount: '1234.50',
          paid_amount: '1234.50',
          tip_amount: '0.00',
          received_amount: '1234.50',
          is_surplus: false,
          status: 'approved',
          status_detail: 'accredited',
          payment_method: { type: 'credit_card', installments: 1, id: 'visa' },
        },
      ],
      refunds: [
        {
          id: 'REF01K8ZQ4M7N2P5R6S7T8V9W0X1Y',
          transaction_id: 'PAY01K8ZQ4M7N2P5R6S7T8V9W0X1Y',
          reference_id: '4017323059',
          amount: '234.50',
          buyer_amount: null,
          status: 'processed',
          type: 'partial',
          created_at: '2026-11-21T14:35:00.000Z',
        },
      ],
      created_at: '2026-11-21T14:30:00.000Z',
      last_updated_at: '2026-11-21T14:35:00.000Z',
      version: 5,
      outcome: 'charged',
      retry_safe: false,
      cashier: {
        message: 'Cobro aprobado, con una devolución parcial.',
        action: 'none',
        retry_safe: false,
      },
      terminal_id: 'NEWLAND_N950__N950NCB801293324',
      payment_method: 'all',
      expires_at: '2026-11-21T14:46:00.000Z',
      mp_order_id: 'ORD01K8ZQ4M7N2P5R6S7T8V9W0X1Y',
      paid_after_close: false,
      needs_decision: null,
      charged_instead: null,
      net: {
        state: 'estimated',
        gross: '1234.50',
        fee: '54.19',
        financing: '0.00',
        taxes: [
          {
            name: 'tax_withholding_sirtac-caba',
            detail: 'tax_withholding_sirtac',
            entity: 'caba',
            amount: '12.35',
          },
        ],
        not_classed: [],
        unexplained: '0.00',
        net: '1167.96',
        release_on: '2026-12-01',
        expected: null,
        charged_back: null,
      },
      standing: 'refunded',
      given_up_at: null,
      settled: null,
      refund_in_doubt: null,
      settled_refunds: [],
      client: 'acme',
      stale: false,
    },
  })

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
  status: Status.optional().describe('Orders in this state only'),
  standing: z
    .enum([...standings, received])
    .optional()
    .describe(
      `Orders that stand so only. ${standingMeans}. received: the customer paid, with or without a later refund, as \`paid\` of \`GET /statistics\` counts`,
    ),
  caja_id: ErpId.optional().describe('ERP box id').meta({ example: 'CAJA-1' }),
  external_reference: limitedText(1, 64)
    .optional()
    .describe('Orders with this ticket reference only'),
  q: limitedText(1, 64)
    .optional()
    .describe(
      'Part of the reference, the ticket number, the description or an id, in any case; or an amount as people write it: 1234,50, 1,234.50 or 1234',
    ),
  from: z.iso.datetime({ offset: true }).optional().describe('Created at or after'),
  to: z.iso.datetime({ offset: true }).optional().describe('Created before'),
  totals: z
    .enum(['true', 'false'])
    .optional()
    .describe('Whether to add `totals`: what all orders of the other filters come to'),
  limit: queryLimit(200, 50),
  offset: queryOffset(1_000_000),
  cursor: queryTimeCursor(),
})

const Total = z
  .object({
    orders: z.number(),
    amount: PointAmount.describe('What they were to be charged'),
    paid_amount: PointAmount.describe('What came in'),
    refunded_amount: PointAmount.describe('Refunded amount'),
  })
  .meta({ id: 'OrderTotal' })

export const OrdersResponse = z
  .object({
    orders: z.array(OrderResponse),
    ...pageFields,
    totals: z
      .object({
        all: Total,
        under_way: Total,
        paid: Total,
        not_paid: Total,
        refunded: Total,
        in_doubt: Total,
        received: Total,
      } satisfies Record<'all' | typeof received | (typeof standings)[number], typeof Total>)
      .optional()
      .describe(
        'With `totals=true`: all orders of the filters but `standing`, by where they stand. Of more than 10,000 as it was a few seconds ago',
      ),
  })
  .meta({ id: 'Orders' })

export const CancelOrderBody = z
  .strictObject({ order_id: OrderId })
  .meta({ id: 'CancelOrder', example: { order_id: exampleOrderId } })

export const CancelOrderResponse = z
  .object({
    message: z.string(),
    order_id: z.uuid(),
    status: Status,
    status_detail: z.string().nullable(),
    outcome: OutcomeSchema,
    retry_safe: z.boolean(),
  })
  .meta({
    id: 'OrderCanceled',
    example: {
      message: 'The order is canceled',
      order_id: exampleOrderId,
      status: 'canceled',
      status_detail: 'canceled',
      outcome: 'not_charged',
      retry_safe: true,
    },
  })

export const CancelRequestedResponse = CancelOrderResponse.extend({ cashier: Cashier }).meta({
  id: 'OrderCancelRequested',
  example: {
    message: 'The cancel is requested; the terminal may still take the money',
    order_id: exampleOrderId,
    status: 'at_terminal',
    status_detail: 'cancellation_requested',
    outcome: 'unknown',
    retry_safe: false,
    cashier: {
      message:
        'Se pidió anular el cobro, pero la terminal todavía puede cobrarlo. No vuelvas a cobrar: esperá el resultado.',
      action: 'wait',
      retry_safe: false,
    },
  },
})

export const RefundOrderBody = z
  .strictObject({
    order_id: OrderId,
    amount: ErpAmount.optional().describe('Absent: the refund is total'),
  })
  .meta({ id: 'RefundOrder', example: { order_id: exampleOrderId, amount: '234,50' } })

export const RefundOrderResponse = z
  .object({
    message: z.string(),
    order_id: z.uuid(),
    type: z.enum(['partial', 'total']),
    amount: PointAmount,
    status: Status,
    status_detail: z.string().nullable(),
    outcome: OutcomeSchema,
    retry_safe: z.boolean(),
  })
  .meta({
    id: 'OrderRefunded',
    example: {
      message: 'The amount is refunded',
      order_id: exampleOrderId,
      type: 'partial',
      amount: '234.50',
      status: 'partially_refunded',
      status_detail: 'partially_refunded',
      outcome: 'charged',
      retry_safe: false,
    },
  })
