import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { longestOrderMs } from '../../domain/order.ts'
import { endedUnpaid, paymentWords, statesThat } from '../../domain/order-state.ts'
import type { OrderRow } from '../orders/order-queries.ts'
import type { ProviderPaymentRow } from '../provider-payments/provider-payments.ts'

export type ChargesQuery = {
  client: ClientName
  /** The box or store where the charge was made, even if the box has moved since. */
  place: { column: 'caja_id' | 'sucursal_id'; id: string }
  from: Date
  to: Date
}

/** How long a charge may be refunded. */
const refundPeriodMs = 370 * 24 * 3_600_000

type Charges = { payments: ProviderPaymentRow[]; orders: OrderRow[] }

/** Whole rows are read in parts: the embedded database answers in one turn of the event loop. */
const rowsOfPart = 500

async function readInParts<Row>(
  keys: readonly string[],
  read: (part: readonly string[]) => Promise<Row[]>,
): Promise<Row[]> {
  const rows: Row[] = []
  for (let from = 0; from < keys.length; from += rowsOfPart) {
    rows.push(...(await read(keys.slice(from, from + rowsOfPart))))
  }
  return rows
}

/**
 * Both sides of a place and time: payments sold or refunded in it, and orders that could be paid or were refunded in
 * it. The other side of each is included, from any time and place of the provider.
 */
export async function readCharges(db: Db, query: ChargesQuery): Promise<Charges> {
  const { client } = query
  const readOrders = (keys: readonly string[]) =>
    readInParts(keys, (part) =>
      db
        .selectFrom('orders')
        .selectAll()
        .where('client', '=', client)
        .where(sql<boolean>`id = any(${part}::uuid[])`)
        .execute(),
    )
  const paymentsBy = (column: 'payment_id' | 'order_id', keys: readonly string[]) =>
    readInParts(keys, (part) =>
      db
        .selectFrom('provider_payments')
        .selectAll()
        .where('client', '=', client)
        .where(column, 'in', part)
        .execute(),
    )
  const ids = await listOrderKeys(db, query)
  const orders = await readOrders(ids)
  const payments = await paymentsBy('payment_id', await listPaymentKeys(db, query, ids))
  const known = new Set(ids)
  const others = [...new Set(payments.flatMap(({ order_id }) => order_id ?? []))].filter(
    (id) => !known.has(id),
  )
  if (others.length === 0) return { payments, orders }
  const further = await readOrders(others)
  const seen = new Set(payments.map(({ payment_id }) => payment_id))
  const theirs = await paymentsBy('order_id', others)
  return {
    payments: [...payments, ...theirs.filter(({ payment_id }) => !seen.has(payment_id))],
    orders: [...orders, ...further],
  }
}

/** The orders of the place that could be paid in the time, or were refunded in it. */
async function listOrderKeys(
  db: Db,
  { client, place, from, to }: ChargesQuery,
): Promise<readonly string[]> {
  const orderKeys = await db
    .selectFrom('orders')
    .select('id')
    .where('client', '=', client)
    .where(place.column, '=', place.id)
    .where('creation', '<>', 'refused')
    .where((eb) =>
      eb.or([
        eb.and([
          eb('created_at', '>=', new Date(from.getTime() - longestOrderMs)),
          eb('created_at', '<', to),
        ]),
        eb(
          'id',
          'in',
          eb
            .selectFrom('order_operations')
            .select('order_id')
            .where('order_operations.client', '=', client)
            .where('kind', '=', 'refund')
            .where('state', '=', 'done')
            .where('finished_at', '>=', from)
            .where('finished_at', '<', to),
        ),
      ]),
    )
    .execute()
  return orderKeys.map(({ id }) => id)
}

/** The payments of the place that were sold or refunded in the time, and those of these orders. */
async function listPaymentKeys(
  db: Db,
  { client, place, from, to }: ChargesQuery,
  ids: readonly string[],
): Promise<readonly string[]> {
  const paymentKeys = await db
    .selectFrom('provider_payments')
    .select('payment_id')
    .where('client', '=', client)
    .where((eb) =>
      eb.or([
        eb.and([
          eb(place.column, '=', place.id),
          eb.or([
            eb.and([eb('sold_at', '>=', from), eb('sold_at', '<', to)]),
            eb.and([
              eb('refunded_cents', '>', 0),
              eb('updated_at', '>=', from),
              eb('sold_at', '<', from),
              eb('sold_at', '>=', new Date(from.getTime() - refundPeriodMs)),
            ]),
          ]),
        ]),
        sql<boolean>`order_id = any(${ids}::uuid[])`,
      ]),
    )
    .execute()
  return paymentKeys.map(({ payment_id }) => payment_id)
}

/** Where the provider has the boxes of a place now, and had them at this time. */
export async function listPlacesToRead(
  db: Db,
  { client, place, from, to }: ChargesQuery,
): Promise<{ mpPosId?: string; mpStoreId?: string }[]> {
  const isStore = place.column === 'sucursal_id'
  const [table, mpId] = isStore ? ['stores', 'mp_store_id'] : ['pos', 'mp_pos_id']
  const { rows } = await sql<{ id: string }>`
    select ${sql.ref(mpId)} as id from ${sql.table(table)}
    where client = ${client} and external_id = ${place.id} and ${sql.ref(mpId)} is not null
    union
    select ${sql.ref(mpId)} from provider_payments
    where client = ${client} and ${sql.ref(place.column)} = ${place.id} and ${sql.ref(mpId)} is not null
      and sold_at >= ${from} and sold_at < ${to}
    order by 1`.execute(db)
  return rows.map(({ id }) => (isStore ? { mpStoreId: id } : { mpPosId: id }))
}

/** Payments that brought no money. */
const unpaidPayments = [...paymentWords.keys()].filter(endedUnpaid)

/** When the first charge of a place in a time was made or began, as far as is stored. */
export async function findFirstCharge(
  db: Db | Trx,
  { client, place, from, to }: ChargesQuery,
): Promise<Date | undefined> {
  const order = await db
    .selectFrom('orders')
    .select('created_at as at')
    .where('client', '=', client)
    .where(place.column, '=', place.id)
    .where('created_at', '>=', from)
    .where('created_at', '<', to)
    .where('creation', '<>', 'refused')
    .where((eb) =>
      eb.or([
        eb('status', 'not in', statesThat('closedUnpaid')),
        eb('paid_after_close', '=', true),
      ]),
    )
    .orderBy('created_at')
    .limit(1)
    .executeTakeFirst()
  const payment = await db
    .selectFrom('provider_payments')
    .select('sold_at as at')
    .where('client', '=', client)
    .where(place.column, '=', place.id)
    .where('sold_at', '>=', from)
    .where('sold_at', '<', order?.at ?? to)
    .where('status', 'not in', unpaidPayments)
    .orderBy('sold_at')
    .limit(1)
    .executeTakeFirst()
  return (payment ?? order)?.at
}
