import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { z } from 'zod'
import { camelCased } from '../../domain/field-names.ts'
import { pointFromCents } from '../../domain/money.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { viewOutcome } from '../../payments/orders/order-view.ts'
import { actorOf } from '../../payments/request-context.ts'
import {
  adoptOrphan,
  dismissOrphan,
  refundOrphan,
} from '../../payments/unclaimed-payments/unclaimed-payments.ts'
import {
  listOrphanPayments,
  listOrphans,
  type OrphanPayment,
  type OrphanRow,
} from '../../repositories/unclaimed-payments/unclaimed-queries.ts'
import { contextOf, providerErrors, tenantOfRequest } from '../authentication.ts'
import { refundOrphanErrors } from '../orders/order-errors.ts'
import { storesOfRequest } from '../store-access.ts'
import {
  AdoptBody,
  ListOrphansQuery,
  OrphanBody,
  OrphanParams,
  OrphanRefundResponse,
  OrphanResponse,
  OrphansResponse,
} from './unclaimed-schemas.ts'

/** Charges of a shop's boxes without an order, and what a person decides on them. */
export const orphanRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  await app.register(listRoute, { deps })
  await app.register(keepingRoutes, { deps })
  await app.register(refundRoute, { deps })
}

/** Those that wait, and those that were decided. */
const listRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'see', within: 'list' },
      schema: {
        operationId: 'listOrphans',
        summary: 'Payments at the provider that match no order, newest first',
        querystring: ListOrphansQuery,
        response: { 200: OrphansResponse },
      },
    },
    async (request) => {
      const { rows, total } = await listOrphans(deps.database.db, tenantOfRequest(request), {
        ...camelCased(request.query),
        stores: storesOfRequest(request),
      })
      return { orphans: await viewOrphans(deps, rows), total }
    },
  )
}

/** The payment stays: as an order, or as it is. */
const keepingRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.post(
    '/:orphanId/adopt',
    {
      config: {
        needs: 'move_money',
        within: 'orphan',
        errors: [...providerErrors, 'NOT_FOUND', 'ORPHAN_SETTLED', 'ACCOUNT_MISMATCH'],
      },
      schema: {
        operationId: 'adoptOrphan',
        summary: 'Record an unclaimed payment as an order of its box',
        description: 'This cannot be undone.',
        params: OrphanParams,
        body: AdoptBody,
        response: { 200: OrphanResponse },
      },
    },
    async (request) => {
      const { reason, external_reference: reference } = request.body
      const { orphanId } = request.params
      const client = tenantOfRequest(request)
      const actor = actorOf(deps, request)
      return viewOne(
        deps,
        (await adoptOrphan(deps, client, orphanId, { reason, reference }, actor)).orphan,
      )
    },
  )

  app.post(
    '/:orphanId/dismiss',
    {
      config: { needs: 'move_money', within: 'orphan', errors: ['NOT_FOUND', 'ORPHAN_SETTLED'] },
      schema: {
        operationId: 'dismissOrphan',
        summary: 'Keep an unclaimed payment and no longer flag it',
        description: 'This cannot be undone.',
        params: OrphanParams,
        body: OrphanBody,
        response: { 200: OrphanResponse },
      },
    },
    async (request) => {
      const { orphanId } = request.params
      const client = tenantOfRequest(request)
      const actor = actorOf(deps, request)
      const { reason } = request.body
      return viewOne(deps, await dismissOrphan(deps, client, orphanId, reason, actor))
    },
  )
}

/** The payment goes back. */
const refundRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.post(
    '/:orphanId/refund',
    {
      config: {
        needs: 'move_money',
        within: 'orphan',
        money: { retrySafeWhenUnknown: true, namesOrder: true },
        errors: refundOrphanErrors,
      },
      schema: {
        operationId: 'refundOrphan',
        summary: 'Refund an unclaimed payment',
        description:
          'This cannot be undone. The service records it as an order first, and refunds it like any other. The same request again is the same refund. While the provider works on the refund, `state` is `adopted` and `outcome` is `unknown`; the state becomes `refunded` when the refund is through.',
        params: OrphanParams,
        body: OrphanBody,
        response: { 200: OrphanRefundResponse },
      },
    },
    async (request) => {
      const { orphanId } = request.params
      const client = tenantOfRequest(request)
      const { reason } = request.body
      const context = contextOf(deps, request)
      const { orphan, order } = await refundOrphan(deps, client, orphanId, reason, context)
      return { ...(await viewOne(deps, orphan)), ...viewOutcome(order) }
    },
  )
}

type OrphanView = z.input<typeof OrphanResponse>

/** Unclaimed payments of one client, each with the provider's data of its payment. */
async function viewOrphans(deps: PaymentDeps, rows: readonly OrphanRow[]): Promise<OrphanView[]> {
  const [first] = rows
  if (!first) return []
  const ids = rows.map(({ payment_id }) => payment_id)
  const payments = await listOrphanPayments(deps.database.db, first.client, ids)
  return rows.map((orphan) => viewOrphan(orphan, payments.get(orphan.payment_id)))
}

async function viewOne(deps: PaymentDeps, orphan: OrphanRow): Promise<OrphanView> {
  const [view] = await viewOrphans(deps, [orphan])
  return view as OrphanView
}

function viewOrphan(orphan: OrphanRow, payment: OrphanPayment | undefined): OrphanView {
  return {
    ...orphan,
    amount: pointFromCents(orphan.amount_cents),
    at: orphan.sold_at,
    external_reference: payment?.external_reference ?? null,
    mp_order_id: payment?.mp_order_id ?? null,
    similar_order_ids: payment?.similar_order_ids ?? [],
  }
}
