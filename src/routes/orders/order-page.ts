import type { IncomingHttpHeaders } from 'node:http'
import type { z } from 'zod'
import type { ClientName } from '../../domain/client-name.ts'
import { cashierLanguage } from '../../payments/cashier.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { listOperations } from '../../repositories/order-operations.ts'
import { listOrders } from '../../repositories/orders.ts'
import type { ListOrdersQuery } from './schemas.ts'
import { viewOrder } from './view.ts'

/** A page of orders on the wire; of every client when `client` is undefined. */
export async function findOrderPage(
  deps: PaymentDeps,
  client: ClientName | undefined,
  query: z.output<typeof ListOrdersQuery>,
  headers: IncomingHttpHeaders,
) {
  const { orders, total } = await listOrders(
    deps.database.db,
    {
      client,
      status: query.status,
      cajaId: query.caja_id,
      externalReference: query.external_reference,
      text: query.q,
      from: query.from === undefined ? undefined : storableDate(query.from),
      to: query.to === undefined ? undefined : storableDate(query.to),
    },
    { limit: query.limit, offset: query.offset },
  )
  const operations = await listOperations(
    deps.database.db,
    orders.map((order) => order.id),
  )
  const language = cashierLanguage(headers['accept-language'])
  return { orders: orders.map((order) => viewOrder(order, operations, language)), total }
}

/** No order lies outside these years, and beyond them the database has no such date. */
const earliest = Date.UTC(1970, 0, 1)
const latest = Date.UTC(9999, 11, 31)

function storableDate(text: string): Date {
  return new Date(Math.min(latest, Math.max(earliest, Date.parse(text))))
}
