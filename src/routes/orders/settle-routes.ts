import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { invalid } from '../../errors/app-error.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { readBeside } from '../../payments/orders/order-view.ts'
import { askAboutOrder, settleCharge } from '../../payments/orders/settle-charge.ts'
import { settleRefund } from '../../payments/orders/settle-refund.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { preferredLanguage } from '../../texts/language.ts'
import { contextOf, tenantOfRequest } from '../authentication.ts'
import { limitedText } from '../field-schemas.ts'
import { viewOrder } from './order-response.ts'
import { OrderParams, OrderResponse } from './order-schemas.ts'

const SettleBody = z
  .strictObject({
    as: z
      .enum(['paid', 'not_paid', 'refunded', 'not_refunded'])
      .describe(
        'What was seen, on the terminal or in the account; the last two are about `refund_in_doubt`',
      ),
    reason: limitedText(1, 200).describe('Who looked, and where; for the audit log'),
    refund_id: limitedText(1, 64)
      .optional()
      .describe('With `refunded`: the number of the refund at the provider, one of the candidates'),
    replaces: z.iso
      .datetime({ offset: true })
      .optional()
      .describe(
        'The decision that this one replaces: its `at` in `settled`, or `decided_at` of `refund_in_doubt`. Without it nothing is replaced',
      ),
  })
  .meta({
    id: 'SettleOrder',
    example: { as: 'not_paid', reason: 'Ana: the terminal shows no sale, nor does the account' },
  })

/** For a person, when the service cannot find out whether a customer has paid. */
export const settleRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  const view = async (order: OrderRow, acceptLanguage: string | undefined, stale = false) => {
    const beside = await readBeside(deps.database.db, [order])
    return viewOrder(deps, order, beside, preferredLanguage(acceptLanguage), stale)
  }

  app.post(
    '/:orderId/ask',
    {
      config: { needs: 'move_money', within: 'order', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'askAboutOrder',
        summary: 'Ask the provider about an order now',
        description:
          'As the service does by itself, sooner. `stale` says that the provider could not be asked.',
        params: OrderParams,
        response: { 200: OrderResponse },
      },
    },
    async (request) => {
      const { orderId } = request.params
      const context = contextOf(deps, request)
      const read = await askAboutOrder(deps, tenantOfRequest(request), orderId, context)
      return view(read.order, request.headers['accept-language'], read.stale)
    },
  )

  app.post(
    '/:orderId/settle',
    {
      config: {
        needs: 'move_money',
        within: 'order',
        errors: ['NOT_FOUND', 'CONFLICT', 'REFUND_IN_PROGRESS'],
      },
      schema: {
        operationId: 'settleOrder',
        summary: 'Record the result of an order in doubt: paid or not, refunded or not',
        description:
          'This cannot be undone. An operator’s decision, kept with the order as `settled` and audited. `outcome` stays the proven result, and later evidence of the provider still counts. The service sends nothing more that could make the charge. The box and the terminal are free. After `not_paid`, an equal sale is allowed. With `refunded` or `not_refunded` it ends a refund whose outcome is not known, after the order was read again; the refunded amount stays the one that the provider lists. With `paid` it also decides a late payment, and one of less than was asked (`needs_decision`). 409 for an order that is in no doubt and waits for no such decision, for a `refund_id` that is no candidate, and for an order with another decision that `replaces` does not name. The same decision again is 200.',
        params: OrderParams,
        body: SettleBody,
        response: { 200: OrderResponse },
      },
    },
    async (request) => {
      const { orderId } = request.params
      const client = tenantOfRequest(request)
      const { as, reason, refund_id: refundId } = request.body
      const replaces =
        request.body.replaces === undefined ? undefined : new Date(request.body.replaces)
      const context = contextOf(deps, request)
      if (refundId !== undefined && as !== 'refunded') {
        throw invalid('refund_id', { code: 'REFUND_ID_UNASKED' })
      }
      const order =
        as === 'paid' || as === 'not_paid'
          ? await settleCharge(deps, client, orderId, { as, reason, replaces }, context)
          : await settleRefund(deps, client, orderId, { as, reason, refundId, replaces }, context)
      return view(order, request.headers['accept-language'])
    },
  )
}
