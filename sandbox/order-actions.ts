import { z } from 'zod'
import { parseAmount } from './amounts.ts'
import { amount, anything, ControlError, field, oneOf, readCall } from './control-body.ts'
import { nanoStamp } from './ids.ts'
import {
  canMove,
  commitOrder,
  endRefund,
  type Move,
  moveOrder,
  payAgain,
  refundOrder,
} from './order-moves.ts'
import { refundableCents } from './order-payments.ts'
import { failureDetails, paymentMethod, paymentTypes } from './payment-methods.ts'
import type { Change, Order } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { isRecord } from './validation-errors.ts'

const actions =
  'fetch, pay, pay_again, decline, cancel, hold, expire, panel_cancel, refuse_cancel, process, refund, end_refund'

const flag = z.boolean('must be true or false').optional()
const ends = z.enum(['processed', 'failed'], 'must be processed or failed').optional()
const idRule = 'must be a word such as visa'
const msRule = 'must be a number of milliseconds'
const countRule = 'must be a whole number from 1'
const method = {
  payment_method_type: oneOf(paymentTypes).optional(),
  payment_method_id: z
    .string(idRule)
    .regex(/^[a-z_]{1,40}$/, idRule)
    .optional(),
  installments: z.int(countRule).positive(countRule).optional(),
}
const cents = field(
  (value) => (typeof value === 'string' ? parseAmount(value) : undefined),
  'must be an amount such as "10.00"',
).optional()
const atTerminal = {
  ...method,
  status_detail: anything,
  tip_amount: cents,
  interest_amount: cents,
  paid_amount: cents,
  interest_refunded: flag,
  as: ends,
  /** Allows a move that the provider's own table forbids, such as the payment of an expired order. */
  force: flag,
}

const Act = z.discriminatedUnion(
  'do',
  [
    z.strictObject({
      do: z.enum(['fetch', 'pay', 'cancel', 'hold', 'expire', 'panel_cancel']),
      ...atTerminal,
    }),
    z.strictObject({ do: z.literal('refuse_cancel'), ...atTerminal }),
    z.strictObject({
      do: z.literal('decline'),
      ...atTerminal,
      status_detail: oneOf(failureDetails).default('rejected_by_issuer'),
    }),
    z.strictObject({
      do: z.literal('process'),
      ...atTerminal,
      as: z.enum(['processing', 'in_process'], 'must be processing or in_process').optional(),
      /** How the payment ends after so many milliseconds; without it another action ends it. */
      // biome-ignore lint/suspicious/noThenProperty: the field's name in the call
      then: ends,
      after_ms: z.number(msRule).nonnegative(msRule).default(0),
    }),
    /** The buyer pays an order that is already paid. */
    z.strictObject({ do: z.literal('pay_again'), ...method, in_order: flag }),
    /** Of a person in the provider's panel: `amount`, or all that is left. */
    z.strictObject({ do: z.literal('refund'), amount: amount.optional() }),
    /** Of the provider: ends the processing refund `refund_id`, or the last one. */
    z.strictObject({ do: z.literal('end_refund'), refund_id: anything, as: ends }),
  ],
  {
    error: ({ input }) =>
      isRecord(input) ? `must be one of ${actions}` : 'send a JSON object with "do"',
  },
)
type Act = z.output<typeof Act>
type Moving = Exclude<Act, { do: 'pay_again' | 'refund' | 'end_refund' | 'refuse_cancel' }>

const forcible: ReadonlySet<string> = new Set([
  'pay',
  'decline',
  'cancel',
  'panel_cancel',
  'expire',
])

/**
 * An action of the buyer, of the cashier at the terminal, or of a person in the provider's panel. On a `created` order
 * the terminal first fetches it, unless the action does not involve it. Throws a control error: 400 for a bad body, 404
 * for an unknown order, 409 when the order or the terminal does not allow it.
 */
export function act(ctx: Context, orderId: string, body: unknown): Order {
  const call = readCall(Act, body)
  let order = ctx.state.tables.orders.get(orderId)
  if (order === undefined) throw new ControlError(404, `there is no order ${orderId}`)
  switch (call.do) {
    case 'refund':
      return refund(ctx, order, call.amount)
    case 'end_refund': {
      const ended = order.refunds.findLast(
        ({ id, status }) => status === 'processing' && id === (call.refund_id ?? id),
      )
      if (!ended) throw new ControlError(409, 'no such refund is processing')
      return endRefund(ctx, order, ended.id, call.as ?? 'processed')
    }
    case 'pay_again': {
      if (order.payment.paidCents === null) throw new ControlError(409, 'the order is not paid yet')
      const isHidden = call.in_order === false
      return payAgain(ctx, order, { method: paymentMethod(call, order), tipCents: 0, isHidden })
    }
    case 'refuse_cancel':
      return refuseCancel(ctx, order)
  }
  const move = moveOf(order, call)
  if (call.force && forcible.has(call.do)) return moveOrder(ctx, order, move)
  if (order.status === 'created' && call.do !== 'expire' && call.do !== 'panel_cancel') {
    const terminal = ctx.state.tables.terminals.get(order.terminalId)
    if (terminal?.operatingMode !== 'PDV') {
      throw new ControlError(
        409,
        `terminal ${order.terminalId} is not in PDV: it fetches no orders`,
      )
    }
    order = moveOrder(ctx, order, { to: 'at_terminal' })
    if (call.do === 'fetch') return order
  }
  if (!canMove(order, move.to)) {
    throw new ControlError(409, `an order in ${order.status} does not take ${call.do}`)
  }
  return moveOrder(ctx, order, move, call.do === 'process' ? endOf(ctx, order, call) : {})
}

/** The terminal rejects the request to cancel and continues. */
function refuseCancel(ctx: Context, order: Order): Order {
  if (order.payment.statusDetail !== 'cancellation_requested') {
    throw new ControlError(409, 'no cancel of the order is requested')
  }
  const now = nanoStamp(ctx.nowMs())
  const payment = { ...order.payment, statusDetail: null }
  const kept = { ...order, payment, lastUpdatedDate: now, version: order.version + 1 }
  return commitOrder(ctx, kept, null, 'order.cancel_dropped', {
    events: { [`cancel-${order.id}`]: null },
  })
}

function endOf(ctx: Context, order: Order, call: Extract<Act, { do: 'process' }>): Change {
  const { then: status, after_ms: afterMs, do: _, as: __, ...fields } = call
  if (status === undefined) return {}
  const at = ctx.nowMs() + afterMs
  const id = `process-${order.id}`
  const event = { ...fields, status }
  return { events: { [id]: { id, orderId: order.id, fetchAt: at, applyAt: at, event } } }
}

function refund(ctx: Context, order: Order, wanted: number | undefined): Order {
  const left = refundableCents(order)
  const cents = wanted ?? left
  if (order.status !== 'processed' || cents > left) {
    throw new ControlError(409, `an order in ${order.status} does not give this back`)
  }
  return refundOrder(ctx, order, cents)
}

function moveOf(order: Order, call: Moving): Move {
  const method = paymentMethod(call, order)
  switch (call.do) {
    case 'fetch':
      return { to: 'at_terminal' }
    case 'pay':
      return {
        to: 'processed',
        method,
        tipCents: call.tip_amount ?? 0,
        interestCents: call.interest_amount ?? 0,
        givesInterestBack: call.interest_refunded === true,
        paidCents: call.paid_amount,
      }
    case 'decline':
      return { to: 'failed', method, detail: call.status_detail }
    case 'cancel': {
      const asked = order.payment.statusDetail === 'cancellation_requested'
      return { to: 'canceled', detail: asked ? 'canceled_by_api' : 'canceled_on_terminal' }
    }
    case 'panel_cancel':
      return { to: 'canceled', detail: 'canceled_by_api' }
    case 'process':
      return { to: call.as ?? 'processing', method }
    case 'hold':
      return { to: 'action_required' }
    case 'expire':
      return { to: 'expired' }
    default:
      return call satisfies never
  }
}
