import type { FastifyRequest } from 'fastify'
import { centsFromErp, pointFromCents } from '../../domain/money.ts'
import { isRefundUnderWay } from '../../errors/money-outcome.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { OpenRequests } from '../../http/open-request-limit.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { cancelOrder } from '../../payments/orders/cancel.ts'
import { createOrder } from '../../payments/orders/charge.ts'
import { readOrder } from '../../payments/orders/read.ts'
import { type Refunded, refundOrder } from '../../payments/orders/refund.ts'
import { preferredLanguage } from '../../texts/language.ts'
import {
  contextOf,
  type Guards,
  placeOwner,
  providerErrors,
  tenantOfRequest,
} from '../authentication.ts'
import { storesOfRequest } from '../session/store-access.ts'
import { findOrderPage } from './list-orders.ts'
import { readBeside, viewMoney, viewOrder, viewOutcome } from './order-response.ts'
import {
  CancelOrderBody,
  CancelOrderResponse,
  CancelRequestedResponse,
  CreateOrderBody,
  CreateOrderResponse,
  IdempotencyHeaders,
  ListOrdersQuery,
  OrderParams,
  OrderResponse,
  OrdersResponse,
  ReadOrderQuery,
  ReasonHeaders,
  RefundHeaders,
  RefundOrderBody,
  RefundOrderResponse,
} from './order-schemas.ts'

/** Retry-After for a till whose long-poll was not accepted because of the limit. */
const askAgainSeconds = 2

/** `waits` limits the open long-polls. */
export function addOrderRoutes(
  app: HttpServer,
  deps: PaymentDeps,
  guards: Guards,
  waits: OpenRequests,
): void {
  app.post(
    '/orders',
    {
      config: {
        access: 'client',
        ofOrder: true,
        money: { retrySafeWhenUnknown: deps.settings.duplicateOrderGuard },
        errors: [
          ...providerErrors,
          'NOT_FOUND',
          'TERMINAL_NOT_FOUND',
          'TERMINAL_NOT_PDV',
          'TERMINAL_BUSY',
          'IDEMPOTENCY_CONFLICT',
          'ORDER_ALREADY_PAID',
        ],
      },
      schema: {
        operationId: 'createOrder',
        summary: 'Charge on the terminal of a box',
        description:
          'Repeating a request is safe: the same Idempotency-Key, or without one the same box, reference and amount, gives the first order (200) while it is open, and ORDER_ALREADY_PAID once it is paid.',
        headers: IdempotencyHeaders,
        body: CreateOrderBody,
        response: {
          200: {
            description: 'The order that an equal request made before',
            headers: {
              'idempotent-replayed': { schema: { type: 'string' }, description: '`true`' },
            },
            content: { 'application/json': { schema: CreateOrderResponse } },
          },
          201: {
            description: 'The order waits for the terminal',
            content: { 'application/json': { schema: CreateOrderResponse } },
          },
        },
      },
    },
    async (request, reply) => {
      const { body } = request
      const { order, replayed } = await createOrder(
        deps,
        tenantOfRequest(request),
        {
          cajaId: body.caja_id,
          externalReference: body.external_reference,
          // The schema accepts only amounts that convert.
          amountCents: centsFromErp(body.amount) as number,
          description: body.description || null,
          ticketNumber: body.ticket_number || null,
          printTicket: body.print_ticket,
          paymentMethod: body.payment_method,
          expirationMinutes: body.expiration_minutes,
        },
        request.headers['idempotency-key'],
        contextOf(deps, request),
      )
      request.aboutOrder = order
      if (replayed) reply.header('idempotent-replayed', 'true')
      return reply.code(replayed ? 200 : 201).send({
        message: replayed
          ? 'This request made an order before; this is its state now'
          : 'The order is on its way to the terminal',
        order_id: order.id,
        external_reference: order.external_reference,
        status: order.status,
        ...viewMoney(deps, order, preferredLanguage(request.headers['accept-language'])),
        version: order.version,
        expires_at: order.expires_at.toISOString(),
      })
    },
  )

  app.get(
    '/orders',
    {
      config: { access: 'client', compressed: true },
      schema: {
        operationId: 'listOrders',
        summary: 'Orders of the client, newest first',
        description: 'The local records; reading one order asks the provider too.',
        querystring: ListOrdersQuery,
        response: { 200: OrdersResponse },
      },
    },
    async (request) =>
      findOrderPage(
        deps,
        { client: tenantOfRequest(request), stores: storesOfRequest(request) },
        request.query,
        request.headers,
      ),
  )

  app.get(
    '/orders/:orderId',
    {
      config: { access: 'client', ofOrder: true, findsOrder: true },
      schema: {
        operationId: 'readOrder',
        summary: 'The order as the provider sees it now',
        description:
          'With `wait` the answer is held until the order changes; without `version`, an order that has ended is answered at once. Of one client 500 requests wait at a time, of all 5,000; the next is answered at once, with `Retry-After`.',
        params: OrderParams,
        querystring: ReadOrderQuery,
        response: { 200: OrderResponse },
      },
    },
    async (request, reply) => {
      const { wait, version } = request.query
      const place = wait === undefined ? undefined : waits.take(placeOwner(request))
      const leave = typeof place === 'function' ? place : undefined
      // Beyond the limit the state is returned at once: during a payment a till needs it more than a refusal.
      if (wait !== undefined && !leave) reply.header('retry-after', String(askAgainSeconds))
      const waiting = leave && endOfWait(app, request)
      try {
        const { order, stale } = await readOrder(
          deps,
          tenantOfRequest(request),
          request.params.orderId,
          {
            found: request.foundOrder ?? undefined,
            wait:
              wait === undefined || !waiting
                ? undefined
                : {
                    waitSeconds: wait,
                    knownVersion: version,
                    signal: waiting.signal,
                    checkAccess: () => guards.check(request),
                  },
          },
        )
        if (stale) reply.header('x-order-stale', 'true')
        const beside = await readBeside(deps.database.db, [order])
        const language = preferredLanguage(request.headers['accept-language'])
        return viewOrder(deps, order, beside, language, stale)
      } finally {
        waiting?.forget()
        leave?.()
      }
    },
  )

  app.post(
    '/orders/cancel',
    {
      config: {
        access: 'client',
        ofOrder: true,
        money: { retrySafeWhenUnknown: true, namesOrder: true },
        errors: [
          ...providerErrors,
          'NOT_FOUND',
          'ORDER_AT_TERMINAL',
          'ORDER_NOT_CANCELABLE',
          'ACCOUNT_MISMATCH',
        ],
      },
      schema: {
        operationId: 'cancelOrder',
        summary: 'Cancel an order that waits for the customer',
        description:
          'This cannot be undone. For an order on the terminal the provider is asked to cancel it there: 202 when it has taken the request, ORDER_AT_TERMINAL when only the terminal can cancel. After 202 the terminal may still take the money: read the order until `outcome` is known. Canceling a canceled order answers like the first time.',
        headers: ReasonHeaders,
        body: CancelOrderBody,
        response: {
          200: CancelOrderResponse,
          202: {
            description: 'The cancel is requested; the terminal may still take the money',
            content: { 'application/json': { schema: CancelRequestedResponse } },
          },
        },
      },
    },
    async (request, reply) => {
      const order = await cancelOrder(
        deps,
        tenantOfRequest(request),
        request.body.order_id,
        contextOf(deps, request, request.headers['x-reason']),
      )
      const answer = {
        order_id: order.id,
        status: order.status,
        status_detail: order.status_detail,
      }
      if (order.status === 'canceled') {
        return { message: 'The order is canceled', ...answer, ...viewOutcome(order) }
      }
      const language = preferredLanguage(request.headers['accept-language'])
      return reply.code(202).send({
        message: 'The cancel is requested; the terminal may still take the money',
        ...answer,
        ...viewMoney(deps, order, language),
      })
    },
  )

  app.post(
    '/orders/refund',
    {
      config: {
        access: 'client',
        ofOrder: true,
        money: { retrySafeWhenUnknown: true, namesOrder: true },
        errors: [
          ...providerErrors,
          'NOT_FOUND',
          'ORDER_NOT_REFUNDABLE',
          'ORDER_ALREADY_REFUNDED',
          'REFUND_IN_PROGRESS',
          'PARTIAL_REFUND_NOT_SUPPORTED',
          'REFUND_AMOUNT_EXCEEDS',
          'IDEMPOTENCY_CONFLICT',
          'ACCOUNT_MISMATCH',
        ],
      },
      schema: {
        operationId: 'refundOrder',
        summary: 'Refund an order, all of it or a part',
        description:
          'This cannot be undone. Send an Idempotency-Key to repeat a refund safely. Without one, a refund whose outcome got lost is taken up again by an equal request.',
        headers: RefundHeaders,
        body: RefundOrderBody,
        response: { 200: RefundOrderResponse },
      },
    },
    async (request, reply) => {
      const { order_id, amount } = request.body
      const refunded = await refundOrder(
        deps,
        tenantOfRequest(request),
        {
          orderId: order_id,
          amountCents: amount === undefined ? undefined : centsFromErp(amount),
        },
        request.headers['idempotency-key'],
        contextOf(deps, request, request.headers['x-reason']),
      )
      if (refunded.replayed) reply.header('idempotent-replayed', 'true')
      return {
        message: refundMessage(refunded),
        order_id: refunded.order.id,
        type: refunded.type,
        amount: pointFromCents(refunded.amountCents),
        status: refunded.order.status,
        status_detail: refunded.order.status_detail,
        ...viewOutcome(refunded.order),
      }
    },
  )
}

/** Aborts when the client disconnects or the service stops. Only for long-polls, since it has a cost. */
function endOfWait(app: HttpServer, { raw }: FastifyRequest) {
  const ended = new AbortController()
  const abort = () => ended.abort()
  raw.once('close', abort)
  return { signal: ended.signal, forget: app.shutdown.onClosing(abort) }
}

function refundMessage({ order, type }: Refunded): string {
  if (isRefundUnderWay(order)) return 'The provider has taken the refund and works on it'
  return type === 'total' ? 'The order is refunded' : 'The amount is refunded'
}
