import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { authenticate } from './auth.ts'
import { ApiError, apiError } from './errors.ts'
import { canMove, endRefund, type Move, moveOrder, refundOrder } from './order-moves.ts'
import { refundableCents } from './order-payments.ts'
import { findOrder, orderNotFound } from './orders.ts'
import { failureDetails, paymentMethod } from './payment-methods.ts'
import type { Order, PendingEvent } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { isOpen } from './sandbox-state.ts'
import { isRecord } from './validation-errors.ts'

const statuses = ['processed', 'canceled', 'expired', 'failed', 'refunded', 'action_required']
const keys = ['status', 'payment_method_type', 'installments', 'payment_method_id', 'status_detail']
const types = ['credit_card', 'debit_card', 'qr']
const ids = ['amex', 'master', 'visa', 'debmaster', 'debvisa', 'account_money']

/** An action_required takes the provider up to four times as long as the others (provider facts 2.5). */
const slowFactor = 4

/** POST /v1/orders/{id}/events: simulates what happens at the terminal; 204, the change follows (provider facts 2.5). */
export function eventRoute(app: FastifyInstance, ctx: Context): void {
  app.post<{ Params: { id: string } }>('/v1/orders/:id/events', (request, reply) => {
    const seller = authenticate(ctx, request)
    let order: Order
    try {
      order = findOrder(ctx, seller, request.params.id)
    } catch (error) {
      // This endpoint answers bad_request for every invalid call.
      if (error instanceof ApiError && error.status === 400) throw badRequest(error.message)
      throw error
    }
    if (!order.id.startsWith('ORDTST')) throw orderNotFound()
    simulate(ctx, order, readEvent(request.body))
    return reply.code(204).send()
  })
}

function badRequest(message: string): ApiError {
  return apiError(400, 'bad_request', message)
}

function readEvent(body: unknown): PendingEvent['event'] {
  if (!isRecord(body)) throw badRequest('the body must be an object')
  const extra = Object.keys(body).find((key) => !keys.includes(key))
  if (extra !== undefined) throw badRequest(`${extra} is not allowed`)
  const { status } = body
  if (typeof status !== 'string' || !statuses.includes(status)) {
    throw badRequest(`status must be one of ${statuses.join(', ')}`)
  }
  const paid = status === 'processed' || status === 'failed'
  const oneOf = (key: string, allowed: readonly string[]) => {
    const value = body[key]
    if (value === undefined) return
    if (!paid) throw badRequest(`${key} is not allowed with status ${status}`)
    if (typeof value !== 'string' || !allowed.includes(value)) {
      throw badRequest(`${key} must be one of ${allowed.join(', ')}`)
    }
  }
  oneOf('payment_method_type', types)
  oneOf('payment_method_id', ids)
  oneOf('status_detail', status === 'processed' ? ['accredited'] : failureDetails)
  const { installments } = body
  if (installments !== undefined) {
    if (!Number.isInteger(installments) || Number(installments) < 1 || Number(installments) > 99) {
      throw badRequest('installments must be an integer from 1 to 99')
    }
    if (!paid || body.payment_method_type !== 'credit_card') {
      throw badRequest('installments is allowed with credit_card only')
    }
  }
  return { ...body, status }
}

function simulate(ctx: Context, order: Order, event: PendingEvent['event']): void {
  const possible = event.status === 'refunded' ? order.status === 'processed' : isOpen(order)
  if (!possible) {
    throw badRequest(`an order in ${order.status} cannot become ${event.status}`)
  }
  const now = ctx.nowMs()
  const wait = ctx.pace.eventMs * (event.status === 'action_required' ? slowFactor : 1)
  const pending: PendingEvent = {
    id: randomUUID(),
    orderId: order.id,
    fetchAt: now + ctx.pace.eventMs / 2,
    applyAt: now + wait,
    event,
  }
  if (ctx.pace.eventMs === 0) {
    applyEvent(ctx, pending)
    return
  }
  ctx.state.commit('event.accepted', order.id, { events: { [pending.id]: pending } })
  ctx.wake()
}

/** Runs a simulated event. One that is no longer possible is dropped. */
export function applyEvent(ctx: Context, pending: PendingEvent): void {
  const done = ctx.state.tables.events.has(pending.id) ? { events: { [pending.id]: null } } : {}
  let order = ctx.state.tables.orders.get(pending.orderId)
  const { event } = pending
  if (order === undefined) return
  if (event.status === 'refund_ended') {
    endRefund(ctx, order, pending.id, event.as ?? 'processed')
    return
  }
  if (event.status === 'refunded') {
    if (order.status === 'processed') refundOrder(ctx, order, refundableCents(order), () => done)
    else ctx.state.commit('event.dropped', order.id, done)
    return
  }
  if (order.status === 'created') order = moveOrder(ctx, order, { to: 'at_terminal' })
  // The checks of the body and of actions allow only these states.
  if (!canMove(order, event.status as Move['to'])) {
    ctx.state.commit('event.dropped', order.id, done)
    return
  }
  const method = paymentMethod(event, order)
  switch (event.status) {
    case 'processed':
      moveOrder(ctx, order, { to: 'processed', method, tipCents: 0 }, done)
      break
    case 'failed': {
      const detail = typeof event.status_detail === 'string' ? event.status_detail : 'failed'
      moveOrder(ctx, order, { to: 'failed', method, detail }, done)
      break
    }
    case 'canceled': {
      const detail = event.by === 'api' ? 'canceled_by_api' : 'canceled_on_terminal'
      moveOrder(ctx, order, { to: 'canceled', detail }, done)
      break
    }
    case 'expired':
      moveOrder(ctx, order, { to: 'expired' }, done)
      break
    default:
      moveOrder(ctx, order, { to: 'action_required' }, done)
  }
}
