import type { IncomingHttpHeaders } from 'node:http'
import type { z } from 'zod'
import { preferredLanguage } from '../../domain/language.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { listOperations } from '../../repositories/order-operations.ts'
import { listOrders, type OrderFilter } from '../../repositories/orders.ts'
import { cursorsOf, timePlace, timeWish } from '../list-cursor.ts'
import type { ListOrdersQuery } from './schemas.ts'
import { viewOrder } from './view.ts'

/** A page of orders on the wire, of those that `among` lets in; of every client when it names none. */
export async function findOrderPage(
  deps: PaymentDeps,
  among: Pick<OrderFilter, 'client' | 'id'>,
  query: z.output<typeof ListOrdersQuery>,
  headers: IncomingHttpHeaders,
) {
  const page = await listOrders(
    deps.database.db,
    {
      ...among,
      status: query.status,
      cajaId: query.caja_id,
      externalReference: query.external_reference,
      text: query.q,
      from: query.from === undefined ? undefined : storableDate(query.from),
      to: query.to === undefined ? undefined : storableDate(query.to),
    },
    timeWish(query),
  )
  const operations = await listOperations(
    deps.database.db,
    page.rows.map((order) => order.id),
  )
  const language = preferredLanguage(headers['accept-language'])
  return {
    orders: page.rows.map((order) => viewOrder(order, operations, language)),
    total: page.total,
    ...cursorsOf(page, (order) => timePlace(order.created_at, order.id)),
  }
}

/** No order lies outside these years, and beyond them the database has no such date. */
const earliest = Date.UTC(1970, 0, 1)
const latest = Date.UTC(9999, 11, 31)

function storableDate(text: string): Date {
  return new Date(Math.min(latest, Math.max(earliest, Date.parse(text))))
}
