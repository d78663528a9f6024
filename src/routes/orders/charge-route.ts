import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { z } from 'zod'
import { centsFromErp } from '../../domain/money.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { createOrder } from '../../payments/orders/charge.ts'
import { preferredLanguage } from '../../texts/language.ts'
import { contextOf, tenantOfRequest } from '../authentication.ts'
import { chargeErrors } from './order-errors.ts'
import { viewMoney } from './order-response.ts'
import {
  CreateOrderBody,
  CreateOrderResponse,
  IdempotencyHeaders,
  RepeatedOrderResponse,
} from './order-schemas.ts'

/** A till charges. */
export const chargeRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.post(
    '',
    {
      config: {
        needs: 'move_money',
        within: 'box',
        ofOrder: true,
        money: { retrySafeWhenUnknown: deps.settings.duplicateOrderGuard },
        errors: chargeErrors,
      },
      schema: {
        operationId: 'createOrder',
        summary: 'Charge on the terminal of a box',
        description:
          'Repeating a request is safe. The same Idempotency-Key gives its first order with its state now (200), also once it is paid. Without a key, the same box, reference and amount give the first order while it is open (200), and 409 ORDER_ALREADY_PAID once it is paid.',
        headers: IdempotencyHeaders,
        body: CreateOrderBody,
        response: {
          200: {
            description: 'The order that an equal request made before',
            headers: {
              'idempotent-replayed': { schema: { type: 'string' }, description: '`true`' },
            },
            content: { 'application/json': { schema: RepeatedOrderResponse } },
          },
          201: {
            description: 'The order waits for the terminal',
            content: { 'application/json': { schema: CreateOrderResponse } },
          },
        },
      },
    },
    async (request, reply) => {
      const { order, replayed } = await createOrder(
        deps,
        tenantOfRequest(request),
        saleOf(request.body),
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
}

/** What is sold, in the words of this service. */
function saleOf(body: z.output<typeof CreateOrderBody>) {
  return {
    cajaId: body.caja_id,
    externalReference: body.external_reference,
    // The schema accepts only amounts that convert.
    amountCents: centsFromErp(body.amount) as number,
    description: body.description || null,
    ticketNumber: body.ticket_number || null,
    printTicket: body.print_ticket,
    paymentMethod: body.payment_method,
    expirationMinutes: body.expiration_minutes,
  }
}
