import { type Insertable, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { ProviderPaymentsTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import {
  type ProviderPayment,
  rowWithoutId,
  unreadableStatus,
} from '../../domain/provider-payment.ts'
import type { OrderRow } from '../orders/order-queries.ts'

/** For how long after their sale payments that cannot be read are counted. */
export const unreadableForMs = 30 * 24 * 3600_000
export const isUnreadable = sql<boolean>`(status = ${sql.lit(unreadableStatus)})`

export type ProviderPaymentRow = Selectable<ProviderPaymentsTable>
export type NewProviderPayment = Insertable<ProviderPaymentsTable>

/** Columns that are written once, when the payment is first read. */
const writtenOnce = ['client', 'payment_id', 'first_read_at'] as const
/** Columns that keep their first value: a box may move to another store. */
const keptOnceKnown = ['caja_id', 'sucursal_id', 'order_id'] as const

/**
 * Stores the payments of a client as the provider shows them, one row each. Older data than the row (the provider's
 * index may lag) and equal data change nothing. Returns the orders whose payments were written.
 */
export async function savePayments(
  db: Db | Trx,
  payments: readonly NewProviderPayment[],
): Promise<string[]> {
  const [first] = payments
  if (first === undefined) return []
  const columns = (Object.keys(first) as (keyof NewProviderPayment)[]).filter(
    (column) => !writtenOnce.some((fixed) => fixed === column),
  )
  const next = Object.fromEntries(
    columns.map((column) => [
      column,
      keptOnceKnown.some((kept) => kept === column)
        ? sql`coalesce(provider_payments.${sql.ref(column)}, excluded.${sql.ref(column)})`
        : sql`excluded.${sql.ref(column)}`,
    ]),
  )
  // A further payment is not linked to the order.
  next.order_id = sql`case when provider_payments.surplus_of is null
    then coalesce(provider_payments.order_id, excluded.order_id) else provider_payments.order_id end`
  const written = await db
    .insertInto('provider_payments')
    .values([...payments])
    .onConflict((conflict) =>
      conflict
        .columns(['client', 'payment_id'])
        .doUpdateSet(next)
        .where(
          sql<boolean>`(provider_payments.updated_at is null or excluded.updated_at is null
              or excluded.updated_at >= provider_payments.updated_at)
            and (provider_payments.fingerprint <> excluded.fingerprint
              or provider_payments.order_id is null and provider_payments.surplus_of is null
                and excluded.order_id is not null)`,
        ),
    )
    .returning('order_id')
    .execute()
  return written.flatMap(({ order_id }) => order_id ?? [])
}

/**
 * Deletes rows without an id of these payments, which the provider now shows with an id: same time to the millisecond,
 * box, reference and order.
 */
export async function deleteRowsWithoutId(
  trx: Trx,
  client: ClientName,
  shown: readonly Pick<
    ProviderPayment,
    'createdAt' | 'approvedAt' | 'mpPosId' | 'externalReference' | 'mpOrderId'
  >[],
): Promise<void> {
  if (shown.length === 0) return
  await sql`
    delete from provider_payments as row using jsonb_to_recordset(${json(shown)}::jsonb) as one
      ("createdAt" timestamptz, "approvedAt" timestamptz, "mpPosId" text, "externalReference" text, "mpOrderId" text)
    where row.client = ${client} and row.status = ${sql.lit(unreadableStatus)}
      and starts_with(row.payment_id, ${rowWithoutId}) and row.sold_at in (one."createdAt", one."approvedAt")
      and row.mp_pos_id is not distinct from one."mpPosId"
      and row.external_reference is not distinct from one."externalReference"
      and row.mp_order_id is not distinct from one."mpOrderId"`.execute(trx)
}

/** The number of unreadable payments of each client sold since then. */
export async function countUnreadable(
  db: Db,
  since: Date,
  client?: ClientName,
): Promise<{ client: ClientName; count: number; since: Date }[]> {
  let query = db.selectFrom('provider_payments').where(isUnreadable).where('sold_at', '>=', since)
  if (client !== undefined) query = query.where('client', '=', client)
  return query
    .select((eb) => [
      'client',
      eb.fn.countAll<number>().as('count'),
      eb.fn.min('first_read_at').as('since'),
    ])
    .groupBy('client')
    .execute()
}

const payableColumns = [
  'id',
  'mp_order_id',
  'mp_external_reference',
  'caja_id',
  'sucursal_id',
  'amount_cents',
  'paid_cents',
  'created_at',
  'sent_at',
  'expires_at',
] as const

/** An order of ours that a payment may belong to. */
export type PayableOrder = Pick<OrderRow, (typeof payableColumns)[number]> & {
  /** The ids of its payments. */
  payment_ids: string[]
}

const payable = sql<string[]>`coalesce((select array_agg(payment->>'referenceId')
  from jsonb_array_elements(orders.payments) payment where payment->>'referenceId' is not null), '{}')`

/** Orders that were sent with these references, or that name these payments. */
export async function findPayableOrders(
  db: Db | Trx,
  client: ClientName,
  wanted: {
    mpUserId: number
    references: readonly string[]
    paymentIds: readonly string[]
    /** The boxes where they were paid, which are mostly those of their orders. */
    boxes: readonly string[]
    from: Date
    to: Date
  },
): Promise<PayableOrder[]> {
  const { mpUserId, references, paymentIds, boxes, from, to } = wanted
  const byReference =
    references.length === 0
      ? []
      : await db
          .selectFrom('orders')
          .select([...payableColumns, payable.as('payment_ids')])
          .where('client', '=', client)
          .where('mp_user_id', '=', mpUserId)
          .where('mp_external_reference', 'in', [...references])
          .execute()
  const unknown = (among: readonly PayableOrder[]) => {
    const found = new Set(among.flatMap(({ payment_ids }) => payment_ids))
    return paymentIds.filter((id) => !found.has(id))
  }
  const byPayment = async (ids: readonly string[], boxes?: readonly string[]) => {
    if (ids.length === 0 || boxes?.length === 0) return []
    let query = db
      .selectFrom('orders')
      .select([...payableColumns, payable.as('payment_ids')])
      .where('client', '=', client)
      .where('mp_user_id', '=', mpUserId)
      .where('created_at', '>=', from)
      .where('created_at', '<=', to)
    // Reading the payments of all orders would be the most expensive part.
    if (boxes) query = query.where('caja_id', 'in', [...boxes])
    return query.where(sql<boolean>`${payable} && ${ids}::text[]`).execute()
  }
  const here = await byPayment(unknown(byReference), boxes)
  const known = [...byReference, ...here]
  return [...known, ...(await byPayment(unknown(known)))]
}

export type BoxOfTerminal = { serial: string; caja_id: string; sucursal_id: string }

/** The boxes of the last charges on the terminals with these serial numbers, at one provider account. */
export async function findBoxesBySerial(
  db: Db | Trx,
  client: ClientName,
  mpUserId: number,
  serials: readonly string[],
): Promise<BoxOfTerminal[]> {
  const serial = sql<string>`split_part(terminal_id, '__', 2)`
  return db
    .selectFrom('orders')
    .distinctOn(serial)
    .select([serial.as('serial'), 'caja_id', 'sucursal_id'])
    .where('client', '=', client)
    .where('mp_user_id', '=', mpUserId)
    .where(serial, 'in', [...serials])
    .orderBy(serial)
    .orderBy('created_at', 'desc')
    .execute()
}

/** The provider's ids of the client's boxes and stores, with the ERP's ids. */
export async function listPlaces(
  db: Db | Trx,
  client: ClientName,
): Promise<{
  boxes: { mp_pos_id: string; caja_id: string; sucursal_id: string }[]
  stores: { mp_store_id: string; sucursal_id: string }[]
}> {
  const boxes = await db
    .selectFrom('pos')
    .innerJoin('stores', 'stores.id', 'pos.store_id')
    .select(['pos.mp_pos_id', 'pos.external_id as caja_id', 'stores.external_id as sucursal_id'])
    .where('pos.client', '=', client)
    .where('pos.mp_pos_id', 'is not', null)
    .$narrowType<{ mp_pos_id: string }>()
    .execute()
  const stores = await db
    .selectFrom('stores')
    .select(['mp_store_id', 'external_id as sucursal_id'])
    .where('client', '=', client)
    .where('mp_store_id', 'is not', null)
    .$narrowType<{ mp_store_id: string }>()
    .execute()
  return { boxes, stores }
}

export async function findPayment(
  db: Db | Trx,
  client: ClientName,
  paymentId: string,
): Promise<ProviderPaymentRow | undefined> {
  return db
    .selectFrom('provider_payments')
    .selectAll()
    .where('client', '=', client)
    .where('payment_id', '=', paymentId)
    .executeTakeFirst()
}

/** What these payments of a client belong to, by payment id: an order, or an order that they are further payments of. */
export async function findLinksOfPayments(
  db: Db | Trx,
  client: ClientName,
  paymentIds: readonly string[],
): Promise<Map<string, Pick<ProviderPaymentRow, 'order_id' | 'surplus_of'>>> {
  if (paymentIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('provider_payments')
    .select(['payment_id', 'order_id', 'surplus_of'])
    .where('client', '=', client)
    .where('payment_id', 'in', [...paymentIds])
    .execute()
  return new Map(rows.map(({ payment_id, ...links }) => [payment_id, links]))
}
