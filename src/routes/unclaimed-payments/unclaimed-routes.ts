import type { z } from 'zod'
import { camelCased } from '../../domain/field-names.ts'
import { pointFromCents } from '../../domain/money.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/operations/request-context.ts'
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
import { viewOutcome } from '../orders/order-response.ts'
import { storesOfRequest } from '../session/store-access.ts'
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
export function addOrphanRoutes(app: HttpServer, deps: PaymentDeps): void {
  app.get(
    '/orphans',
    {
      config: { access: 'client', compressed: true },
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

  app.post(
    '/orphans/:orphanId/adopt',
    {
      config: {
        access: 'client',
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
    '/orphans/:orphanId/refund',
    {
      config: {
        access: 'client',
        money: { retrySafeWhenUnknown: true, namesOrder: true },
        errors: [
          ...providerErrors,
          'NOT_FOUND',
          'ORPHAN_SETTLED',
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

  app.post(
    '/orphans/:orphanId/dismiss',
    {
      config: { access: 'client', errors: ['NOT_FOUND', 'ORPHAN_SETTLED'] },
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
