import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { ChargeClassesTable, ProviderPaymentsTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { ChargeClass, Net } from '../../domain/net-amount.ts'
import type { SettlementRow } from './settlement-queries.ts'

export type ChargeClassRow = Selectable<ChargeClassesTable>

/** The classes of the names of charges. */
export async function listChargeClasses(db: Db | Trx): Promise<ChargeClassRow[]> {
  return db.selectFrom('charge_classes').selectAll().orderBy('name').orderBy('entity').execute()
}

/** Stores the class of a name. Every net must be computed again. */
export async function putChargeClass(
  trx: Trx,
  rule: { name: string; entity: string; class: ChargeClass },
  now: Date,
): Promise<ChargeClassRow> {
  return trx
    .insertInto('charge_classes')
    .values({ ...rule, origin: 'operator', updated_at: now, applied: false })
    .onConflict((conflict) =>
      conflict.columns(['name', 'entity']).doUpdateSet({
        class: rule.class,
        origin: 'operator',
        updated_at: now,
        applied: false,
      }),
    )
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Records that every net was computed by the rules of `asOf`. */
export async function markClassesApplied(db: Db, asOf: Date): Promise<void> {
  await db
    .updateTable('charge_classes')
    .set({ applied: true })
    .where('applied', '=', false)
    // The database's times are finer than the milliseconds that we read.
    .where(sql<boolean>`date_trunc('milliseconds', updated_at) <= ${asOf}`)
    .execute()
}

/** The time of the newest rule by which not every net has been computed; null for none. */
export async function newestUnappliedClass(db: Db): Promise<Date | null> {
  const row = await db
    .selectFrom('charge_classes')
    .select((eb) => eb.fn.max('updated_at').as('at'))
    .where('applied', '=', false)
    .executeTakeFirst()
  return row?.at ?? null
}

type OrderToNet = { id: string; paid_cents: number; net: Net | null }

/** Locks these orders for a new net, always in the same order. */
export async function lockOrdersToNet(trx: Trx, ids: readonly string[]): Promise<OrderToNet[]> {
  return trx
    .selectFrom('orders')
    .select(['id', 'paid_cents', 'net'])
    .where('id', 'in', [...ids])
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()
}

export async function findSettlementsOfOrders(
  trx: Trx,
  ids: readonly string[],
): Promise<SettlementRow[]> {
  return trx
    .selectFrom('settlement_rows')
    .selectAll()
    .where('order_id', 'in', [...ids])
    .orderBy('at')
    .orderBy('id')
    .execute()
}

const paymentColumns = [
  'order_id',
  'status',
  'amount_cents',
  'refunded_cents',
  'net_cents',
  'charges',
  'fees',
  'release_at',
] as const
export type PaymentToNet = Pick<Selectable<ProviderPaymentsTable>, (typeof paymentColumns)[number]>

export async function findPaymentsOfOrders(
  trx: Trx,
  ids: readonly string[],
): Promise<PaymentToNet[]> {
  return trx
    .selectFrom('provider_payments')
    .select(paymentColumns)
    .where('order_id', 'in', [...ids])
    .orderBy('sold_at')
    .orderBy('payment_id')
    .execute()
}

export async function writeNets(
  trx: Trx,
  nets: readonly { id: string; net: Net | null }[],
): Promise<void> {
  if (nets.length === 0) return
  await sql`
    update orders set net = nullif(one.net, 'null'::jsonb)
    from jsonb_to_recordset(${json(nets)}::jsonb) as one (id uuid, net jsonb)
    where orders.id = one.id`.execute(trx)
}

/** Orders that have a net, newest first, after a position. */
export async function listOrdersWithNet(
  db: Db,
  before: { at: Date; id: string } | null,
  limit: number,
): Promise<{ id: string; created_at: Date }[]> {
  let query = db.selectFrom('orders').select(['id', 'created_at']).where('net', 'is not', null)
  if (before) {
    query = query.where((eb) =>
      eb(eb.refTuple('created_at', 'id'), '<', eb.tuple(before.at, before.id)),
    )
  }
  return query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).execute()
}

type NetSums = {
  state: Net['state'] | null
  orders: number
  grossCents: number | bigint
  feeCents: number | bigint
  financingCents: number | bigint
  unexplainedCents: number | bigint
  netCents: number | bigint
  takenCents: number | bigint
  returnedCents: number | bigint
}

type NetSpan = { client: ClientName; from: Date; to: Date }

/** Sums of the nets of a span by state. The row without a state counts paid orders whose net is unknown. */
export async function sumNets(db: Db, { client, from, to }: NetSpan): Promise<NetSums[]> {
  const { rows } = await sql<NetSums>`
    select net ->> 'state' as state, count(*)::integer as orders,
      sum(case when net is null then paid_cents else (net ->> 'grossCents')::bigint end)::bigint as "grossCents",
      coalesce(sum((net ->> 'feeCents')::bigint), 0)::bigint as "feeCents",
      coalesce(sum((net ->> 'financingCents')::bigint), 0)::bigint as "financingCents",
      coalesce(sum((net ->> 'unexplainedCents')::bigint), 0)::bigint as "unexplainedCents",
      coalesce(sum((net ->> 'netCents')::bigint), 0)::bigint as "netCents",
      coalesce(sum((net -> 'chargedBack' ->> 'takenCents')::bigint), 0)::bigint as "takenCents",
      coalesce(sum((net -> 'chargedBack' ->> 'returnedCents')::bigint), 0)::bigint as "returnedCents"
    from orders
    where client = ${client} and created_at >= ${from} and created_at < ${to} and (net is not null or paid_cents > 0)
    group by 1 order by 1`.execute(db)
  return rows
}

type NamedSum = {
  part: 'taxes' | 'notClassed'
  name: string
  entity: string | null
  cents: number | bigint
}

/** The taxes of a span and its unclassified charges by name, the largest first. */
export async function sumNamedParts(
  db: Db,
  { client, from, to }: NetSpan,
  limit: number,
): Promise<NamedSum[]> {
  const { rows } = await sql<NamedSum>`
    select part.name as part, one ->> 'name' as name, one ->> 'entity' as entity, sum((one ->> 'cents')::bigint)::bigint as cents
    from orders, (values ('taxes'), ('notClassed')) as part (name), jsonb_array_elements(net -> part.name) as one
    where client = ${client} and created_at >= ${from} and created_at < ${to} and net is not null
    group by 1, 2, 3 order by 4 desc, 2, 3 limit ${limit}`.execute(db)
  return rows
}

/** Unclassified names in the nets of every client since a day, the most frequent first. */
export async function listNotClassed(
  db: Db,
  since: Date,
  limit: number,
): Promise<(Omit<NamedSum, 'part'> & { orders: number })[]> {
  const { rows } = await sql<Omit<NamedSum, 'part'> & { orders: number }>`
    select one ->> 'name' as name, one ->> 'entity' as entity, count(*)::integer as orders,
      sum((one ->> 'cents')::bigint)::bigint as cents
    from orders, jsonb_array_elements(net -> 'notClassed') as one
    where created_at >= ${since} and net is not null and net -> 'notClassed' <> '[]'::jsonb
    group by 1, 2 order by 3 desc, 1, 2 limit ${limit}`.execute(db)
  return rows
}
