import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { asClientName, type ClientName } from '../../domain/client-name.ts'
import { snakeCased } from '../../domain/field-names.ts'
import { pointFromCents, sumCents } from '../../domain/money.ts'
import { doubtAfterMs } from '../../domain/order-state.ts'
import type { StoresSeen } from '../../domain/permissions.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { countChargebacks } from '../../repositories/chargebacks/chargeback-queries.ts'
import {
  type BoxRow,
  countOpenOrders,
  countOrdersByHour,
  listBoxStates,
  listInDoubt,
  listPaidAfterClose,
  medianChargeMs,
} from '../../repositories/statistics/order-statistics.ts'
import { countOpenOrphans } from '../../repositories/unclaimed-payments/unclaimed-queries.ts'
import { countWebhooks } from '../../repositories/webhooks/webhook-log.ts'
import { tenantOfRequest } from '../authentication.ts'
import { spanOf } from '../field-schemas.ts'
import { storesOfRequest } from '../store-access.ts'
import {
  AllStatisticsQuery,
  mostBoxes,
  StatisticsQuery,
  StatisticsResponse,
} from './statistics-schemas.ts'

const dayMs = 86_400_000
const mostLate = 20
const mostDoubts = 20

/** Numbers of a day for the dashboard, counted by the database: the cost does not depend on the number of sales. */
export const statisticsRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'see', within: 'list' },
      schema: {
        operationId: 'readStatistics',
        summary: 'Sales by hour, approval, speed and boxes of the client',
        querystring: StatisticsQuery,
        response: { 200: StatisticsResponse },
      },
    },
    async (request) =>
      readStatistics(deps, tenantOfRequest(request), request.query, storesOfRequest(request)),
  )
}

/** The same of all clients. */
export const allStatisticsRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'administer' },
      schema: {
        operationId: 'readAllStatistics',
        summary: 'Sales by hour, approval, speed and boxes of all clients',
        querystring: AllStatisticsQuery,
        response: { 200: StatisticsResponse },
      },
    },
    async (request) => {
      const { client } = request.query
      const of = client === undefined ? undefined : asClientName(client)
      return readStatistics(deps, of, request.query)
    },
  )
}

/** The numbers of a span, of one client or of all, and of some stores only. */
export async function readStatistics(
  deps: PaymentDeps,
  client: ClientName | undefined,
  query: { from: string; to?: string | undefined },
  stores?: StoresSeen,
) {
  const { db } = deps.database
  const now = deps.now()
  const { from, to } = spanOf(query, now)
  const span = { client, stores, from, to }
  const hours = await countOrdersByHour(db, span)
  const medianMs = await medianChargeMs(db, span)
  const { open, actionRequired } = await countOpenOrders(db, client, stores)
  const late = await listPaidAfterClose(db, span, mostLate)
  const before = new Date(now.getTime() - doubtAfterMs)
  const doubts = await listInDoubt(db, { client, stores, before, limit: mostDoubts })
  const since = new Date(now.getTime() - dayMs)
  const boxes = await listBoxStates(db, { span, since, limit: mostBoxes })
  const webhooks = await countWebhooks(db, { client, since: from })
  const orphans = await countOpenOrphans(db, client, stores)
  const chargebacks = await countChargebacks(db, { client, stores }, now)
  const sum = (of: (hour: (typeof hours)[number]) => number) =>
    hours.reduce((total, hour) => total + of(hour), 0)
  return {
    from,
    to,
    orders: sum(({ orders }) => orders),
    paid: sum(({ paid }) => paid),
    declined: sum(({ declined }) => declined),
    paid_amount: pointFromCents(sumCents(hours, ({ paidCents }) => paidCents)),
    refunded_amount: pointFromCents(sumCents(hours, ({ refundedCents }) => refundedCents)),
    open,
    action_required: actionRequired,
    paid_after_close: late.map((order) => ({ ...snakeCased(order), order_id: order.id })),
    in_doubt: doubts.map((order) => ({ ...snakeCased(order), order_id: order.id })),
    orphans,
    chargebacks: snakeCased(chargebacks),
    median_charge_seconds: medianMs === null ? null : medianMs / 1000,
    hours: hours.map(({ hour, orders, paid, paidCents }) => ({
      from: new Date(from.getTime() + hour * 3_600_000),
      orders,
      paid,
      paid_amount: pointFromCents(paidCents),
    })),
    boxes: boxes.map(viewBox),
    webhooks: snakeCased(webhooks),
  }
}

function viewBox(box: BoxRow) {
  const { openId, openReference, openStatus, openCents, openAt } = box
  const isOpen =
    openId !== null &&
    openReference !== null &&
    openStatus !== null &&
    openCents !== null &&
    openAt !== null
  return {
    ...box,
    sucursal_id: box.storeId,
    store_name: box.storeName,
    caja_id: box.boxId,
    name: box.boxName,
    paid_amount: pointFromCents(box.paidCents),
    open_order: isOpen
      ? {
          order_id: openId,
          external_reference: openReference,
          amount: pointFromCents(openCents),
          status: openStatus,
          created_at: openAt,
        }
      : null,
    last_status: box.lastStatus,
    last_status_detail: box.lastDetail,
    last_order_at: box.lastAt,
  }
}
