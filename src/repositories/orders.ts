import {
  type ExpressionBuilder,
  type Insertable,
  type Selectable,
  sql,
  type Updateable,
} from 'kysely'
import type { Db, Trx } from '../db/database.ts'
import type { OrdersTable, Tables } from '../db/tables.ts'
import type { ClientName } from '../domain/client-name.ts'
import type { OrderStatus } from '../domain/order.ts'
import { type ClaimRoom, roomOfAccount } from './claim-room.ts'
import { columnHasCome, furthestMs } from './due.ts'
import {
  beyondTime,
  type ListPage,
  type PageWish,
  reachOf,
  type TimePlace,
  toListPage,
} from './list-page.ts'

export type OrderRow = Selectable<OrdersTable>

/** An id of ours; the provider's look otherwise. */
export const uuidShape = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Where an id stands that is ours or the provider's. */
function placeOfId(id: string) {
  return uuidShape.test(id)
    ? { column: 'id' as const, value: id.toLowerCase() }
    : { column: 'mp_order_id' as const, value: id }
}

/** An order by our id or the provider's, among the orders of one client. */
export async function findOrder(
  db: Db | Trx,
  client: ClientName,
  id: string,
): Promise<OrderRow | undefined> {
  const { column, value } = placeOfId(id)
  const query = db.selectFrom('orders').selectAll().where('client', '=', client)
  return query.where(column, '=', value).executeTakeFirst()
}

/** The same for whoever may see every client: the administrator, the sweeper, the webhook inbox. */
export async function findOrderOfAnyClient(
  db: Db | Trx,
  id: string,
): Promise<OrderRow | undefined> {
  const { column, value } = placeOfId(id)
  return db.selectFrom('orders').selectAll().where(column, '=', value).executeTakeFirst()
}

export async function lockOrder(trx: Trx, id: string): Promise<OrderRow> {
  return trx
    .selectFrom('orders')
    .selectAll()
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirstOrThrow()
}

export async function insertOrder(trx: Trx, order: Insertable<OrdersTable>): Promise<OrderRow> {
  return trx.insertInto('orders').values(order).returningAll().executeTakeFirstOrThrow()
}

export async function updateOrder(
  trx: Trx,
  id: string,
  fields: Updateable<OrdersTable>,
): Promise<OrderRow> {
  return trx
    .updateTable('orders')
    .set(fields)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

/**
 * The order that an equal request (client, box, reference and amount) must not double: one that is charged, or else the
 * newest that still may be. One that the provider confirmed as open long ago (its time ended before `endedBefore`), or that
 * was given up at the terminal, waits for nobody.
 */
export async function findEqualOrder(
  db: Db | Trx,
  client: ClientName,
  equal: { cajaId: string; externalReference: string; amountCents: number },
  endedBefore: Date,
): Promise<OrderRow | undefined> {
  return db
    .selectFrom('orders')
    .selectAll()
    .where('client', '=', client)
    .where('caja_id', '=', equal.cajaId)
    .where(isReference(equal.externalReference))
    .where('amount_cents', '=', equal.amountCents)
    .where((eb) =>
      eb.or([
        isChargedNow(eb),
        eb('creation', 'in', ['intent', 'unknown']),
        eb.and([
          eb('status', 'in', ['created', 'at_terminal', 'action_required']),
          eb('expires_at', '>=', endedBefore),
          eb.or([eb('status', '=', 'created'), eb('cancel_requested_at', 'is', null)]),
        ]),
      ]),
    )
    .orderBy((eb) => eb.case().when(isChargedNow(eb)).then(0).else(1).end())
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/**
 * One text has several spellings in Unicode, which look the same and which an ERP may change with its version or its
 * machine: compared by one of them, so that a paid sale is not charged again.
 */
function isReference(text: string) {
  return sql<boolean>`normalize(external_reference) = normalize(${text}::text)`
}

/** Paid, or paid after it was closed and not given back since. */
function isChargedNow(eb: ExpressionBuilder<Tables, 'orders'>) {
  return eb.or([
    eb('status', 'in', ['processed', 'partially_refunded']),
    eb.and([eb('paid_after_close', '=', true), eb('refunded_cents', '<', eb.ref('paid_cents'))]),
  ])
}

/** How many orders repeat the same request. */
export async function countOrders(trx: Trx, requestKey: string): Promise<number> {
  const row = await trx
    .selectFrom('orders')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('request_key', '=', requestKey)
    .executeTakeFirstOrThrow()
  return row.count
}

/** How many references derived from this text one client has used; 0 when none. */
export async function highestReferenceAttempt(
  trx: Trx,
  client: ClientName,
  externalReference: string,
): Promise<number> {
  const row = await trx
    .selectFrom('orders')
    .select((eb) => eb.fn.max('reference_attempt').as('highest'))
    .where('client', '=', client)
    .where(isReference(externalReference))
    .executeTakeFirst()
  return row?.highest ?? 0
}

export async function isReferenceTaken(
  trx: Trx,
  mpUserId: number,
  mpExternalReference: string,
): Promise<boolean> {
  const row = await trx
    .selectFrom('orders')
    .select('id')
    .where('mp_user_id', '=', mpUserId)
    .where('mp_external_reference', '=', mpExternalReference)
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Orders that may still hold this terminal, whichever client made them. Newest first: the provider takes no order on a
 * taken terminal, so an older one holds it less likely. One in `action_required` has left the terminal, and may stay so for
 * ever.
 */
export async function findOpenOrdersOnTerminal(db: Db, terminalId: string): Promise<OrderRow[]> {
  return db
    .selectFrom('orders')
    .selectAll()
    .where('terminal_id', '=', terminalId)
    .where('status', 'in', ['created', 'at_terminal'])
    .orderBy('created_at', 'desc')
    .limit(10)
    .execute()
}

/** Accounts with an order whose creation is not confirmed. */
export async function findAccountsWithUnconfirmedOrders(db: Db, limit: number): Promise<number[]> {
  const rows = await db
    .selectFrom('orders')
    .select('mp_user_id')
    .distinct()
    .where('creation', 'in', ['intent', 'unknown'])
    .limit(limit)
    .execute()
  return rows.map((row) => row.mp_user_id)
}

/** The newest order of these clients on a terminal of an account. */
export async function findLastOrderOnTerminal(
  db: Db,
  clients: readonly ClientName[],
  mpUserId: number,
  terminalId: string,
): Promise<OrderRow | undefined> {
  if (clients.length === 0) return undefined
  return db
    .selectFrom('orders')
    .selectAll()
    .where('client', 'in', [...clients])
    .where('mp_user_id', '=', mpUserId)
    .where('terminal_id', '=', terminalId)
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/**
 * Takes due orders for this process by moving their next look into the future; when the process dies they fall due
 * again by themselves. The longest due of each provider account come first.
 */
export async function claimDueOrders(
  db: Db | Trx,
  now: Date,
  claimUntil: Date,
  room: ClaimRoom,
): Promise<OrderRow[]> {
  const isDue = columnHasCome('next_check_at', now, furthestMs.look)
  return db
    .updateTable('orders')
    .set({ next_check_at: claimUntil })
    .where('id', 'in', (eb) =>
      eb
        .selectFrom('orders')
        .select('id')
        .where('id', 'in', (ranked) =>
          ranked
            .selectFrom((due) =>
              due
                .selectFrom('orders')
                .select((row) => [
                  'id',
                  'mp_user_id',
                  row.fn
                    .agg<number>('row_number')
                    .over((over) => over.partitionBy('mp_user_id').orderBy('next_check_at'))
                    .as('place'),
                ])
                .where(isDue)
                .as('due'),
            )
            .select('due.id')
            .where('due.place', '<=', roomOfAccount('due.mp_user_id', room)),
        )
        .orderBy('next_check_at')
        .limit(room.limit)
        .forUpdate()
        .skipLocked(),
    )
    .where(isDue)
    .returningAll()
    .execute()
}

/** Plans the next look without touching the version: nothing about the order has changed. */
export async function planCheck(
  db: Db | Trx,
  id: string,
  plan: { checkedAt: Date | null; nextCheckAt: Date | null },
): Promise<void> {
  await db
    .updateTable('orders')
    .set((eb) => ({
      next_check_at: plan.nextCheckAt,
      ...(plan.checkedAt ? { checked_at: plan.checkedAt, checks: eb('checks', '+', 1) } : {}),
    }))
    .where('id', '=', id)
    .execute()
}

export type OrderFilter = {
  /** Ours or the provider's. */
  id?: string | undefined
  client?: ClientName | undefined
  status?: OrderStatus | undefined
  cajaId?: string | undefined
  externalReference?: string | undefined
  /** Part of a text a person may know the order by. */
  text?: string | undefined
  from?: Date | undefined
  to?: Date | undefined
}

/** A page of orders, newest first, with the number of all that fit the filter. */
export async function listOrders(
  db: Db,
  filter: OrderFilter,
  wish: PageWish<TimePlace>,
): Promise<ListPage<OrderRow>> {
  let query = db.selectFrom('orders')
  if (filter.id !== undefined) {
    const { column, value } = placeOfId(filter.id)
    query = query.where(column, '=', value)
  }
  if (filter.client !== undefined) query = query.where('client', '=', filter.client)
  if (filter.status !== undefined) query = query.where('status', '=', filter.status)
  if (filter.cajaId !== undefined) query = query.where('caja_id', '=', filter.cajaId)
  if (filter.externalReference !== undefined) {
    query = query.where(isReference(filter.externalReference))
  }
  if (filter.text !== undefined) {
    const pattern = `%${filter.text.replace(/[\\%_]/g, '\\$&')}%`
    query = query.where((eb) =>
      eb.or([
        eb('external_reference', 'ilike', pattern),
        eb('ticket_number', 'ilike', pattern),
        eb('description', 'ilike', pattern),
        eb('mp_order_id', 'ilike', pattern),
        eb(eb.cast<string>('id', 'text'), 'ilike', pattern),
      ]),
    )
  }
  if (filter.from !== undefined) query = query.where('created_at', '>=', filter.from)
  if (filter.to !== undefined) query = query.where('created_at', '<', filter.to)
  const { place } = wish
  const isBack = place?.side === 'newer'
  const part = place ? query.where(beyondTime(place, 'created_at')) : query
  const rows = await part
    .selectAll()
    .orderBy('created_at', isBack ? 'asc' : 'desc')
    .orderBy('id', isBack ? 'desc' : 'asc')
    .limit(reachOf(wish))
    .offset(wish.offset)
    .execute()
  return toListPage(db, 'orders', query, rows, wish)
}

/** Orders changed after this position, in the sequence of their changes. */
export async function listChangedOrders(
  db: Db,
  query: {
    client?: ClientName | undefined
    after: { at: Date; id: string } | null
    limit: number
  },
): Promise<OrderRow[]> {
  const { client, after } = query
  let orders = db.selectFrom('orders').selectAll()
  if (client !== undefined) orders = orders.where('client', '=', client)
  if (after) {
    orders = orders.where((eb) =>
      eb(eb.refTuple('last_updated_at', 'id'), '>', eb.tuple(after.at, after.id)),
    )
  }
  return orders.orderBy('last_updated_at').orderBy('id').limit(query.limit).execute()
}
