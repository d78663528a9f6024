import type { IncomingHttpHeaders } from 'node:http'
import type { z } from 'zod'
import { centsMeant, pointFromCents, sumCents } from '../../domain/money.ts'
import { received, type Standing, standings } from '../../domain/order-state.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { readBeside } from '../../payments/orders/order-view.ts'
import {
  listOrders,
  type OrderFilter,
  type StandingTotal,
  totalOrders,
} from '../../repositories/orders/order-list.ts'
import { preferredLanguage } from '../../texts/language.ts'
import { cursorsOf, timePageOf, timePlace } from '../list-cursor.ts'
import { viewOrder } from './order-response.ts'
import type { ListOrdersQuery } from './order-schemas.ts'

/** A page of orders in the form of the API, with the filters of `among`; of every client when it names none. */
export async function findOrderPage(
  deps: PaymentDeps,
  among: Pick<OrderFilter, 'client' | 'id' | 'stores'>,
  query: z.output<typeof ListOrdersQuery>,
  headers: IncomingHttpHeaders,
) {
  const filter: OrderFilter = {
    ...among,
    status: query.status,
    standing: query.standing,
    cajaId: query.caja_id,
    externalReference: query.external_reference,
    text: query.q,
    amounts: query.q === undefined ? undefined : centsMeant(query.q),
    from: query.from === undefined ? undefined : storableDate(query.from),
    to: query.to === undefined ? undefined : storableDate(query.to),
    at: deps.now(),
  }
  const { db } = deps.database
  const page = await listOrders(db, filter, timePageOf(query))
  const totals = query.totals === 'true' ? viewTotals(await totalOrders(db, filter)) : undefined
  const beside = await readBeside(db, page.rows)
  const language = preferredLanguage(headers['accept-language'])
  return {
    orders: page.rows.map((order) => viewOrder(deps, order, beside, language)),
    total: page.total,
    ...(totals && { totals }),
    ...cursorsOf(page, (order) => timePlace(order.created_at, order.id)),
  }
}

/** The totals of each standing, and of all orders together. */
function viewTotals(found: readonly StandingTotal[]) {
  const of = (wanted: (one: StandingTotal) => boolean) => {
    const counted = found.filter(wanted)
    const amount = (key: 'amountCents' | 'paidCents' | 'refundedCents') =>
      pointFromCents(sumCents(counted, (one) => one[key]))
    return {
      orders: counted.reduce((all, { orders }) => all + orders, 0),
      amount: amount('amountCents'),
      paid_amount: amount('paidCents'),
      refunded_amount: amount('refundedCents'),
    }
  }
  const each = standings.map((name) => [name, of(({ standing }) => standing === name)])
  return {
    all: of(() => true),
    [received]: viewReceived(found),
    ...Object.fromEntries(each),
  } as Record<Standing | 'all' | typeof received, ReturnType<typeof of>>
}

/** The orders whose money came in, however they stand. */
function viewReceived(found: readonly StandingTotal[]) {
  return {
    orders: found.reduce((all, { receivedOrders }) => all + receivedOrders, 0),
    amount: pointFromCents(sumCents(found, ({ receivedCents }) => receivedCents)),
    paid_amount: pointFromCents(sumCents(found, ({ paidCents }) => paidCents)),
    refunded_amount: pointFromCents(sumCents(found, ({ refundedCents }) => refundedCents)),
  }
}

/** No order is outside these years, and the database has no dates beyond them. */
const earliest = Date.UTC(1970, 0, 1)
const latest = Date.UTC(9999, 11, 31)

function storableDate(text: string): Date {
  return new Date(Math.min(latest, Math.max(earliest, Date.parse(text))))
}
