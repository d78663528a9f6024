import { parseAmount } from './amounts.ts'
import { failureDetails, paymentMethod, paymentTypes } from './buyer.ts'
import { badCall, ControlError } from './control-error.ts'
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
import { type Fields, isRecord } from './problems.ts'
import type { Change, Order } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { methodOf } from './terminal-events.ts'

const actions = [
  'fetch',
  'pay',
  'pay_again',
  'decline',
  'cancel',
  'hold',
  'expire',
  'panel_cancel',
  'refuse_cancel',
  'process',
  'refund',
  'end_refund',
] as const
type Action = (typeof actions)[number]
/** Done by a person in the provider's panel or by the provider itself; no terminal is involved. */
type MoneyAction = 'refund' | 'end_refund'

/** The buyer pays an order that is already paid. */
type PayAgain = 'pay_again'
/** The terminal rejects the request to cancel and continues. */
type RefuseCancel = 'refuse_cancel'

const methodKeys = 'do payment_method_type payment_method_id installments'
const paidKeys = 'tip_amount interest_amount interest_refunded paid_amount'
const keys = `${methodKeys} ${paidKeys} status_detail force as then after_ms`
const againKeys = `${methodKeys} in_order`
const moneyKeys: Record<MoneyAction, string> = {
  refund: 'do amount',
  end_refund: 'do refund_id as',
}
/** `force` allows a move that the provider's own table forbids, such as the payment of an expired order. */
const forcible: Action[] = ['pay', 'decline', 'cancel', 'panel_cancel', 'expire']

/**
 * An action of the buyer, of the cashier at the terminal, or of a person in the provider's panel. On a `created` order
 * the terminal first fetches it, unless the action does not involve it. Throws a control error: 400 for a bad body, 404
 * for an unknown order, 409 when the order or the terminal does not allow it.
 */
export function act(ctx: Context, orderId: string, body: unknown): Order {
  const fields = readAct(body)
  const action = fields.do
  let order = ctx.state.tables.orders.get(orderId)
  if (order === undefined) throw new ControlError(404, `there is no order ${orderId}`)
  if (isMoneyAction(action)) return moveMoney(ctx, order, action, fields.body)
  if (action === 'pay_again') {
    if (order.payment.paidCents === null) throw new ControlError(409, 'the order is not paid yet')
    const method = paymentMethod(methodOf(order, fields.body))
    const isHidden = fields.body.in_order === false
    return payAgain(ctx, order, { method, tipCents: 0, isHidden })
  }
  if (action === 'refuse_cancel') return refuseCancel(ctx, order)
  if (fields.force && forcible.includes(action))
    return moveOrder(ctx, order, moveOf(order, action, fields.body))
  if (order.status === 'created' && action !== 'expire' && action !== 'panel_cancel') {
    const terminal = ctx.state.tables.terminals.get(order.terminalId)
    if (terminal?.operatingMode !== 'PDV') {
      throw new ControlError(
        409,
        `terminal ${order.terminalId} is not in PDV: it fetches no orders`,
      )
    }
    order = moveOrder(ctx, order, { to: 'at_terminal' })
    if (action === 'fetch') return order
  }
  const move = moveOf(order, action, fields.body)
  if (!canMove(order, move.to)) {
    throw new ControlError(409, `an order in ${order.status} does not take ${action}`)
  }
  return moveOrder(ctx, order, move, action === 'process' ? endOf(ctx, order, fields.body) : {})
}

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

/** How a payment in process ends: as `then` after so many milliseconds, or without it by another action. */
function endOf(ctx: Context, order: Order, body: Fields): Change {
  if (body.then === undefined) return {}
  const at = ctx.nowMs() + Number(body.after_ms ?? 0)
  const id = `process-${order.id}`
  const { then, after_ms: _, as: __, do: ___, ...fields } = body
  const event = { ...fields, status: String(then) }
  return { events: { [id]: { id, orderId: order.id, fetchAt: at, applyAt: at, event } } }
}

function isMoneyAction(action: Action): action is MoneyAction {
  return action === 'refund' || action === 'end_refund'
}

function readAct(body: unknown): { do: Action; force: boolean; body: Fields } {
  if (!isRecord(body)) throw badCall('send a JSON object with "do"')
  const action = actions.find((known) => known === body.do)
  if (action === undefined) throw badCall(`do must be one of ${actions.join(', ')}`)
  const allowed = action === 'pay_again' ? againKeys : keys
  const known = (isMoneyAction(action) ? moneyKeys[action] : allowed).split(' ')
  const extra = Object.keys(body).find((key) => !known.includes(key))
  if (extra !== undefined) throw badCall(`${extra} is not known`)
  const { payment_method_type: type, installments, status_detail: detail } = body
  if (type !== undefined && !paymentTypes.includes(String(type))) {
    throw badCall(`payment_method_type must be one of ${paymentTypes.join(', ')}`)
  }
  const id = body.payment_method_id
  if (id !== undefined && (typeof id !== 'string' || !/^[a-z_]{1,40}$/.test(id))) {
    throw badCall('payment_method_id must be a word such as visa')
  }
  if (installments !== undefined && !(Number.isInteger(installments) && Number(installments) > 0)) {
    throw badCall('installments must be a whole number from 1')
  }
  if (detail !== undefined && action === 'decline' && !failureDetails.includes(String(detail))) {
    throw badCall(`status_detail must be one of ${failureDetails.join(', ')}`)
  }
  for (const key of ['tip_amount', 'interest_amount', 'paid_amount']) {
    const amount = body[key]
    if (amount === undefined) continue
    if (typeof amount !== 'string' || parseAmount(amount) === undefined) {
      throw badCall(`${key} must be an amount such as "10.00"`)
    }
  }
  for (const key of ['interest_refunded', 'in_order']) {
    if (body[key] !== undefined && typeof body[key] !== 'boolean') {
      throw badCall(`${key} must be true or false`)
    }
  }
  if (body.amount !== undefined && !(parseAmount(String(body.amount)) ?? 0)) {
    throw badCall('amount must be an amount such as "10.00"')
  }
  const ends = action === 'process' ? ['processing', 'in_process'] : ['processed', 'failed']
  if (body.as !== undefined && !ends.includes(String(body.as))) {
    throw badCall(`as must be ${ends.join(' or ')}`)
  }
  const { then, after_ms: afterMs } = body
  if ((then !== undefined || afterMs !== undefined) && action !== 'process') {
    throw badCall('then and after_ms go with process only')
  }
  if (then !== undefined && then !== 'processed' && then !== 'failed') {
    throw badCall('then must be processed or failed')
  }
  if (afterMs !== undefined && !(typeof afterMs === 'number' && afterMs >= 0)) {
    throw badCall('after_ms must be a number of milliseconds')
  }
  if (body.force !== undefined && typeof body.force !== 'boolean') {
    throw badCall('force must be true or false')
  }
  return { do: action, force: body.force === true, body }
}

/** Refunds of the panel (`amount`, or all that is left), and the end of a processing refund (`refund_id`, or the last one). */
function moveMoney(ctx: Context, order: Order, action: MoneyAction, body: Fields): Order {
  if (action === 'end_refund') {
    const refund = order.refunds.findLast(
      ({ id, status }) => status === 'processing' && id === (body.refund_id ?? id),
    )
    if (!refund) throw new ControlError(409, 'no such refund is processing')
    return endRefund(ctx, order, refund.id, body.as === 'failed' ? 'failed' : 'processed')
  }
  const left = refundableCents(order)
  const cents = body.amount === undefined ? left : (parseAmount(String(body.amount)) ?? 0)
  if (order.status !== 'processed' || cents > left) {
    throw new ControlError(409, `an order in ${order.status} does not give this back`)
  }
  return refundOrder(ctx, order, cents)
}

function moveOf(
  order: Order,
  action: Exclude<Action, MoneyAction | PayAgain | RefuseCancel>,
  body: Fields,
): Move {
  const method = paymentMethod(methodOf(order, body))
  switch (action) {
    case 'fetch':
      return { to: 'at_terminal' }
    case 'pay': {
      const centsOf = (key: string) => parseAmount(String(body[key] ?? ''))
      return {
        to: 'processed',
        method,
        tipCents: centsOf('tip_amount') ?? 0,
        interestCents: centsOf('interest_amount') ?? 0,
        givesInterestBack: body.interest_refunded === true,
        paidCents: centsOf('paid_amount'),
      }
    }
    case 'decline':
      return { to: 'failed', method, detail: String(body.status_detail ?? 'rejected_by_issuer') }
    case 'cancel': {
      const asked = order.payment.statusDetail === 'cancellation_requested'
      return { to: 'canceled', detail: asked ? 'canceled_by_api' : 'canceled_on_terminal' }
    }
    case 'panel_cancel':
      return { to: 'canceled', detail: 'canceled_by_api' }
    case 'process':
      return { to: body.as === 'in_process' ? 'in_process' : 'processing', method }
    case 'hold':
      return { to: 'action_required' }
    case 'expire':
      return { to: 'expired' }
    default:
      return action satisfies never
  }
}
