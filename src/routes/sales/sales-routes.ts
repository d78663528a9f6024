import type { FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { pointFromCents, signedPointFromCents } from '../../domain/money.ts'
import { timeZoneOfSite } from '../../domain/time-zone.ts'
import { AppError } from '../../errors/app-error.ts'
import { shopTimeZone } from '../../payments/closings/closings.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import {
  differenceOf,
  readSales,
  readSalesByGroup,
  readSalesByStore,
  type SalesFigures,
  type SalesOfStore,
} from '../../payments/sales/sales.ts'
import { spanOf } from '../field-schemas.ts'
import { storesOfRequest } from '../store-access.ts'
import { StoreParams } from '../stores/store-schemas.ts'
import {
  SalesOverTimeQuery,
  SalesOverTimeResponse,
  SalesQuery,
  SalesResponse,
  StoreSalesResponse,
} from './sales-schemas.ts'

const description = `What each store sold in a time by the orders here and by the payments that Mercado Pago lists, what its closings
say, and how many boxes have a problem. Read from what is stored; Mercado Pago is not asked. \`GET /sales/{storeExternalId}\` has the
boxes of one store.`

/** Sales by store and by box, from both records. */
export const salesRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'see', within: 'list', allClients: true },
      schema: {
        operationId: 'readSales',
        summary: 'Sales by store, beside what Mercado Pago says',
        description,
        querystring: SalesQuery,
        response: { 200: SalesResponse },
      },
    },
    async (request) => {
      const span = wantedOf(request, request.query, deps.now())
      const { total, stores, readUntil } = await readSales(deps, span)
      return {
        from: span.from,
        to: span.to,
        read_until: readUntil,
        total: viewFigures(total),
        stores: stores.map(viewStore),
      }
    },
  )

  app.get(
    '/:storeExternalId',
    {
      ...app.forList,
      config: { needs: 'see', within: 'store', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'readStoreSales',
        summary: 'Sales of one store by box, beside what Mercado Pago says',
        params: StoreParams,
        querystring: SalesQuery,
        response: { 200: StoreSalesResponse },
      },
    },
    async (request) => {
      const span = wantedOf(request, request.query, deps.now())
      const { stores } = await readSales(deps, span)
      const store = stores.find(({ storeId }) => storeId === request.params.storeExternalId)
      if (!store) throw new AppError('NOT_FOUND', { message: 'There is no such store' })
      return {
        boxes: store.boxes.map((box) => ({
          ...box,
          caja_id: box.boxId,
          ...viewFigures(box),
          has_problem: box.hasProblem,
        })),
      }
    },
  )
}

/** The same over days and weeks, or by store or method of payment. */
export const salesOverTimeRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'see', within: 'list', allClients: true },
      schema: {
        operationId: 'readSalesOverTime',
        summary: 'Sales by day, week, store or method of payment, beside what Mercado Pago says',
        description:
          'The same figures as `GET /sales`, with all orders and those declined as `GET /statistics` counts them. The approval rate is `paid / (paid + declined)`: of the orders for which a payment was tried and that have ended, the part whose money came in. Canceled and expired orders without a payment are not among them.',
        querystring: SalesOverTimeQuery,
        response: { 200: SalesOverTimeResponse },
      },
    },
    async (request) => {
      const client = request.tenant ?? undefined
      const { group, time_zone: asked } = request.query
      const span = wantedOf(request, request.query, deps.now())
      const timeZone = asked ?? (await shopTimeZone(deps, client ?? null)) ?? timeZoneOfSite(null)
      const { total, groups } = await (group === 'store'
        ? readSalesByStore(deps, span)
        : readSalesByGroup(deps, span, group, timeZone))
      const view = (one: typeof total) => ({
        orders: one.orders,
        declined: one.declined,
        ...viewFigures(one),
      })
      return {
        from: span.from,
        to: span.to,
        time_zone: timeZone,
        total: view(total),
        groups: groups.map((one) => ({
          ...{ key: one.key, client: one.client ?? null, name: one.name ?? null },
          ...view(one),
        })),
      }
    },
  )
}

function wantedOf(request: FastifyRequest, query: Parameters<typeof spanOf>[0], now: Date) {
  return {
    client: request.tenant ?? undefined,
    stores: storesOfRequest(request),
    ...spanOf(query, now),
  }
}

function viewStore(store: SalesOfStore) {
  const { boxes } = store
  const expected = boxes.filter(({ paid, closing }) => paid > 0 || closing !== 'none')
  return {
    client: store.client,
    sucursal_id: store.storeId,
    name: store.name,
    ...viewFigures(store),
    boxes: {
      total: boxes.filter(({ name }) => name !== null).length,
      problems: boxes.filter(({ hasProblem }) => hasProblem).length,
    },
    closings: {
      expected: expected.length,
      closed: expected.filter(({ closing }) => closing !== 'none' && closing !== 'open').length,
      differs: expected.filter(({ closing }) => closing === 'differs').length,
    },
  }
}

function viewFigures(figures: SalesFigures) {
  return {
    paid: figures.paid,
    paid_amount: pointFromCents(figures.paidCents),
    refunded_amount: pointFromCents(figures.refundedCents),
    provider: {
      payments: figures.payments,
      amount: pointFromCents(figures.paymentCents),
      refunded_amount: pointFromCents(figures.paymentRefundedCents),
      without_amount: figures.withoutAmount,
    },
    not_listed_yet: { paid: figures.unread, amount: pointFromCents(figures.unreadCents) },
    difference: signedPointFromCents(differenceOf(figures)),
    fees: { orders: figures.netOrders, amount: signedPointFromCents(figures.feeCents) },
  }
}
