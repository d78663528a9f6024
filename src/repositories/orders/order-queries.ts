import { type Insertable, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { fixedStatement } from '../../db/statements.ts'
import type { OrdersTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { statesThat, unknownResults } from '../../domain/order-state.ts'
import { isUuid } from '../../domain/uuid.ts'
import type { ActiveKey } from '../api-keys/api-key-queries.ts'
import type { UsedConnection } from '../connection/connection-queries.ts'
import { columnHasCome, furthestMs, type LeaseLimits, limitOfAccount } from '../due-work.ts'

export type OrderRow = Selectable<OrdersTable>

/** The column of an id that is ours or the provider's, which has another form. */
export function placeOfId(id: string) {
  return isUuid(id)
    ? { column: 'id' as const, value: id.toLowerCase() }
    : { column: 'mp_order_id' as const, value: id }
}

/** An order of a client, by our id or the provider's. */
export async function findOrder(
  db: Db | Trx,
  client: ClientName,
  id: string,
): Promise<OrderRow | undefined> {
  const { column, value } = placeOfId(id)
  const query = db.selectFrom('orders').selectAll().where('client', '=', client)
  return query.where(column, '=', value).executeTakeFirst()
}

/** An order with the columns of its client's connection, which are null without one. */
type WithConnection = OrderRow &
  Omit<UsedConnection, 'mp_user_id' | 'status' | 'version' | 'expires_at'> & {
    account: number
    connection_status: UsedConnection['status']
    connection_version: number
    token_expires_at: Date
  }

const connectionColumns = `c.mp_user_id as account, c.status as connection_status, c.version as connection_version,
    c.expires_at as token_expires_at, c.live_mode, c.access_token, c.refresh_token, c.connected_at, c.refreshed_at`

const byId = (column: 'id' | 'mp_order_id') =>
  fixedStatement<{ client: ClientName | null; value: string }, WithConnection>(`
    select orders.*, ${connectionColumns} from orders
    left join oauth_connections c on c.client = orders.client
    where orders.${column} = :value and (:client::text is null or orders.client = :client::text)`)
const withConnection = { id: byId('id'), mp_order_id: byId('mp_order_id') }

/** The same, with the connection of its client. Without a client: for callers that may see every client. */
export async function findOrderWithConnection(
  db: Db,
  client: ClientName | null,
  id: string,
): Promise<{ order: OrderRow; connection: UsedConnection | undefined } | undefined> {
  const { column, value } = placeOfId(id)
  const [row] = await withConnection[column](db, { client, value })
  return row && split(row)
}

type OfKey = WithConnection & { key_id: string; key_client: ClientName; key_hash: string }

const ofKeyById = (column: 'id' | 'mp_order_id') =>
  fixedStatement<{ key_hash: string; value: string }, OfKey>(`
    select orders.*, ${connectionColumns}, k.id as key_id, k.client as key_client, k.key_hash
    from api_keys k
    left join orders on orders.client = k.client and orders.${column} = :value
    left join oauth_connections c on c.client = k.client
    where k.key_hash = :key_hash and k.active`)
const ofKey = { id: ofKeyById('id'), mp_order_id: ofKeyById('mp_order_id') }

/**
 * One round trip reads the active key with this hash, the requested order if the key's client has it, and the
 * client's connection. Undefined without such a key.
 */
export async function findKeyAndOrder(
  db: Db,
  keyHash: string,
  orderId: string,
): Promise<
  | {
      key: ActiveKey
      found: { order: OrderRow; connection: UsedConnection | undefined } | undefined
    }
  | undefined
> {
  const { column, value } = placeOfId(orderId)
  const [row] = await ofKey[column](db, { key_hash: keyHash, value })
  if (!row) return undefined
  const { key_id: id, key_client: client, key_hash, ...rest } = row
  return { key: { id, client, key_hash }, found: rest.id === null ? undefined : split(rest) }
}

function split({
  account: mp_user_id,
  connection_status: status,
  connection_version: version,
  token_expires_at: expires_at,
  live_mode,
  access_token,
  refresh_token,
  connected_at,
  refreshed_at,
  ...order
}: WithConnection): { order: OrderRow; connection: UsedConnection | undefined } {
  if (access_token === null) return { order, connection: undefined }
  const times = { expires_at, connected_at, refreshed_at }
  const tokens = { access_token, refresh_token }
  return { order, connection: { mp_user_id, status, version, live_mode, ...times, ...tokens } }
}

/** The same for callers that may see every client: the administrator, the sweeper, the webhook inbox. */
export async function findOrderOfAnyClient(
  db: Db | Trx,
  id: string,
): Promise<OrderRow | undefined> {
  const { column, value } = placeOfId(id)
  return db.selectFrom('orders').selectAll().where(column, '=', value).executeTakeFirst()
}

/** The ERP's references of these orders, by their id. */
export async function listReferences(
  db: Db | Trx,
  ids: readonly string[],
): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('orders')
    .select(['id', 'external_reference'])
    .where('id', 'in', [...new Set(ids)])
    .execute()
  return new Map(rows.map(({ id, external_reference: reference }) => [id, reference]))
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

/** Counts a refund of the order that is answered as refused. Locks the order until the transaction ends. */
export async function noteDeniedRefund(trx: Trx, id: string): Promise<void> {
  await trx
    .updateTable('orders')
    .set((eb) => ({ denied_refunds: eb('denied_refunds', '+', 1) }))
    .where('id', '=', id)
    .execute()
}

/**
 * The order that an equal request (client, box, reference, amount) must not duplicate: a paid one, otherwise the
 * newest that may still be paid. It excludes orders that ended before `endedBefore`, had a cancel request, or were
 * settled as not paid.
 */
export async function findEqualOrder(
  db: Db | Trx,
  client: ClientName,
  equal: { cajaId: string; externalReference: string; amountCents: number },
  endedBefore: Date,
): Promise<OrderRow | undefined> {
  return db
    .selectFrom('order_figures')
    .selectAll()
    .where('client', '=', client)
    .where('caja_id', '=', equal.cajaId)
    .where(isReference(equal.externalReference))
    .where('amount_cents', '=', equal.amountCents)
    .where((eb) =>
      eb.or([
        eb('is_charged', '=', true),
        eb.and([
          eb('settled_as', 'is distinct from', 'not_paid'),
          eb.or([
            eb('creation', 'in', unknownResults),
            eb.and([
              eb('status', 'in', statesThat('open')),
              eb('expires_at', '>=', endedBefore),
              eb.or([eb('status', '=', 'created'), eb('cancel_requested_at', 'is', null)]),
            ]),
          ]),
        ]),
      ]),
    )
    .orderBy('is_charged', 'desc')
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/**
 * Compares references in one normal form of Unicode. An ERP may change the form with its version or machine, and must
 * not charge a paid sale again.
 */
export function isReference(text: string) {
  return sql<boolean>`normalize(external_reference) = normalize(${text}::text)`
}

/** The number of orders that repeat the same request. */
export async function countOrders(trx: Trx, requestKey: string): Promise<number> {
  const row = await trx
    .selectFrom('orders')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('request_key', '=', requestKey)
    // The index holds the beginning of the key.
    .where(sql<boolean>`left(request_key, 16) = left(${requestKey}::text, 16)`)
    .executeTakeFirstOrThrow()
  return row.count
}

/**
 * Orders of any client that may still occupy this terminal, newest first. The provider accepts no order on a busy
 * terminal, so an older one is less likely. An order in `action_required` has left the terminal.
 */
export async function findOpenOrdersOnTerminal(db: Db, terminalId: string): Promise<OrderRow[]> {
  return db
    .selectFrom('orders')
    .selectAll()
    .where('terminal_id', '=', terminalId)
    .where('status', 'in', statesThat('holdsTerminal'))
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
    .where('creation', 'in', unknownResults)
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
 * Takes due orders for this process by moving their next status check into the future. After a crash they become due
 * again. The longest due of each provider account come first.
 */
export async function leaseDueOrders(
  db: Db | Trx,
  now: Date,
  leaseUntil: Date,
  limits: LeaseLimits,
): Promise<OrderRow[]> {
  const isDue = columnHasCome('next_check_at', now, furthestMs.statusCheck)
  return db
    .updateTable('orders')
    .set({ next_check_at: leaseUntil })
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
            .where('due.place', '<=', limitOfAccount('due.mp_user_id', limits)),
        )
        .orderBy('next_check_at')
        .limit(limits.limit)
        .forUpdate()
        .skipLocked(),
    )
    .where(isDue)
    .returningAll()
    .execute()
}

/** Plans the next status check. The version stays, since the order has not changed. */
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

/**
 * Makes those of these orders due for a status check whose payments show more refunded than the order, and whose check is not
 * planned: a restored backup lacks refunds that were made after it.
 */
export async function checkRefundedOrders(
  trx: Trx,
  client: ClientName,
  ids: readonly string[],
  now: Date,
): Promise<void> {
  if (ids.length === 0) return
  await trx
    .updateTable('orders')
    .set({ next_check_at: now })
    .where('id', 'in', [...new Set(ids)])
    .where('client', '=', client)
    .where('creation', '=', 'confirmed')
    .where('next_check_at', 'is', null)
    .where('refunded_cents', '<', ({ selectFrom }) =>
      selectFrom('provider_payments')
        .select(({ fn }) =>
          fn.coalesce(fn.sum<number>('refunded_cents'), sql.lit(0)).as('refunded'),
        )
        .whereRef('provider_payments.client', '=', 'orders.client')
        .whereRef('provider_payments.order_id', '=', 'orders.id'),
    )
    .execute()
}

/** Orders changed after this position, in the order of their changes. */
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
