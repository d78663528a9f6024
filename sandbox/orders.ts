import type { FastifyInstance, FastifyRequest } from 'fastify'
import { authenticate } from './auth.ts'
import { apiError } from './errors.ts'
import { useOrderKey } from './idempotency.ts'
import { nanoStamp, newOrderId, orderIdPattern, ulid } from './ids.ts'
import { type OrderRequest, readOrderBody } from './order-body.ts'
import { commitOrder, moveOrder } from './order-moves.ts'
import { searchOrders } from './order-search.ts'
import { showCancelRequested, showOrder } from './order-view.ts'
import type { Change, Order, Seller } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { isOpen } from './sandbox-state.ts'
import { siteOf } from './sites.ts'

/** Create, read, search and cancel of the Orders API (provider facts 2.1 to 2.3). */
export function orderRoutes(app: FastifyInstance, ctx: Context): void {
  app.post('/v1/orders', (request, reply) => {
    const seller = authenticate(ctx, request)
    const { status, order } = createOrder(ctx, seller, request)
    return reply.code(status).send(showOrder(ctx, order))
  })

  app.get('/v1/orders', (request) => {
    return searchOrders(ctx, authenticate(ctx, request), request.query)
  })

  app.get<{ Params: { id: string } }>('/v1/orders/:id', (request) => {
    const seller = authenticate(ctx, request)
    const order = findOrder(ctx, seller, request.params.id)
    // Only orders younger than three months can be read.
    const oldest = new Date(ctx.nowMs())
    oldest.setUTCMonth(oldest.getUTCMonth() - 3)
    if (order.createdAt < oldest.getTime()) throw orderNotFound()
    return showOrder(ctx, order)
  })

  app.post<{ Params: { id: string } }>('/v1/orders/:id/cancel', (request, reply) => {
    const seller = authenticate(ctx, request)
    const { status, order } = cancelOrder(ctx, seller, request, request.params.id)
    // After a repeated request the terminal may have answered: answer the current state.
    const short = status === 202 && order.status === 'at_terminal'
    return reply.code(status).send(short ? showCancelRequested(order) : showOrder(ctx, order))
  })
}

export function orderNotFound() {
  return apiError(404, 'order_not_found', 'Order not found.')
}

/** The seller's order. Throws 400 `invalid_path_param`, and 404 `order_not_found` also for another seller's order. */
export function findOrder(ctx: Context, seller: Seller, id: string): Order {
  if (!orderIdPattern.test(id)) {
    throw apiError(400, 'invalid_path_param', 'path param order id is invalid')
  }
  const order = ctx.state.tables.orders.get(id)
  if (order === undefined || order.userId !== seller.id) throw orderNotFound()
  return order
}

function createOrder(ctx: Context, seller: Seller, request: FastifyRequest) {
  const use = useOrderKey(ctx, request, seller.id)
  const wanted = readOrderBody(request.body, siteOf(ctx, seller.id).hasCents)
  if (use.first !== undefined) {
    const first = ctx.state.tables.orders.get(use.first.resourceId)
    if (first !== undefined) return { status: use.first.status, order: first }
  }
  const terminal = ctx.state.tables.terminals.get(wanted.terminalId)
  if (terminal === undefined || terminal.userId !== seller.id) {
    throw apiError(
      403,
      'forbidden_checking_terminal_owner',
      'The terminal does not belong to the user.',
    )
  }
  if (ctx.prints.has(terminal.id)) {
    // The documented code: an accepted print that is not done blocks the next order (provider news 2).
    throw apiError(
      409,
      'already_queued_order_for_terminal',
      'There is already a queued order for the terminal.',
    )
  }
  if (openOrderOn(ctx, terminal.id) !== undefined) {
    // The documentation says ..._for_terminal; this was observed (provider facts 0.2).
    throw apiError(
      409,
      'already_queued_order_on_terminal',
      'There is already a queued order on the terminal.',
    )
  }
  const order = placeOrder(ctx, seller, wanted, use.key, (id) => use.remember(201, id))
  return { status: 201, order }
}

/** Queues an order on its terminal. The caller has checked that the terminal is free. */
export function placeOrder(
  ctx: Context,
  seller: Seller,
  { amountCents, expirySeconds, ...wanted }: OrderRequest,
  key: string,
  extra: (orderId: string) => Change = () => ({}),
): Order {
  const now = ctx.nowMs()
  const createdDate = nanoStamp(now)
  const order: Order = {
    ...wanted,
    id: newOrderId(now, seller.liveMode),
    userId: seller.id,
    expiresAt: now + expirySeconds * 1000,
    status: 'created',
    statusDetail: 'created',
    createdAt: now,
    createdDate,
    lastUpdatedDate: createdDate,
    payment: {
      id: `PAY${ulid(now)}`,
      amountCents,
      status: 'created',
      statusDetail: null,
      paidCents: null,
      tipCents: 0,
      refundedCents: 0,
      referenceId: null,
      method: null,
      paidAt: null,
    },
    refunds: [],
    shown: null,
    version: 1,
    idempotencyKey: key,
  }
  return commitOrder(ctx, order, null, 'order.created', extra(order.id))
}

/** The open order of a terminal: there is at most one. */
export function openOrderOn(ctx: Context, terminalId: string): Order | undefined {
  for (const id of ctx.state.openOrders) {
    const order = ctx.state.tables.orders.get(id)
    if (order !== undefined && isOpen(order) && order.terminalId === terminalId) return order
  }
  return undefined
}

function cancelOrder(ctx: Context, seller: Seller, request: FastifyRequest, id: string) {
  const use = useOrderKey(ctx, request, seller.id)
  const order = findOrder(ctx, seller, id)
  if (use.first !== undefined) return { status: use.first.status, order }
  if (order.status === 'created') {
    const move = { to: 'canceled', detail: 'canceled_by_api' } as const
    return { status: 200, order: moveOrder(ctx, order, move, use.remember(200, id)) }
  }
  if (order.status === 'canceled') {
    throw apiError(409, 'order_already_canceled', 'The order was already canceled.')
  }
  const terminal = ctx.state.tables.terminals.get(order.terminalId)
  const allowed = String(request.headers['x-allow-cancelable-status'] ?? '')
    .split(',')
    .some((status) => status.trim() === 'at_terminal')
  if (order.status !== 'at_terminal' || !allowed || terminal?.cancelByApi !== true) {
    throw apiError(409, 'cannot_cancel_order', 'The order status does not allow cancellation.')
  }
  const now = ctx.nowMs()
  const asked: Order = {
    ...order,
    lastUpdatedDate: nanoStamp(now),
    payment: { ...order.payment, statusDetail: 'cancellation_requested' },
    version: order.version + 1,
  }
  // With event_ms 0 the terminal does not answer by itself: an action decides about the request.
  const answerAt = now + ctx.pace.eventMs
  const events = ctx.pace.eventMs > 0 && {
    events: {
      [`cancel-${id}`]: {
        id: `cancel-${id}`,
        orderId: id,
        fetchAt: answerAt,
        applyAt: answerAt,
        event: { status: 'canceled', by: 'api' as const },
      },
    },
  }
  commitOrder(ctx, asked, null, 'order.cancel_requested', {
    ...use.remember(202, id),
    ...events,
  })
  return { status: 202, order: asked }
}
