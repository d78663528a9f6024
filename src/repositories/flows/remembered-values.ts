import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { RememberedNames } from '../../db/tables.ts'
import type { DeliveryTarget } from './deliveries.ts'

/** The remembered values of these items, by key. An item without any is absent. */
export async function findRemembered(
  db: Db,
  { flow, destination }: DeliveryTarget,
  pks: readonly string[],
): Promise<Map<string, RememberedNames>> {
  const rows = await db
    .selectFrom('remembered_values')
    .select(['pk', 'named'])
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .execute()
  return new Map(rows.map(({ pk, named }) => [pk, named]))
}

/** The remembered values of one item, by destination. */
export async function listRemembered(
  db: Db,
  flow: string,
  destinations: readonly string[],
  pk: string,
): Promise<Map<string, RememberedNames>> {
  const rows = await db
    .selectFrom('remembered_values')
    .select(['destination', 'named'])
    .where('flow', '=', flow)
    .where(sql<boolean>`destination = any(${destinations}::text[])`)
    .where('pk', '=', pk)
    .execute()
  return new Map(rows.map(({ destination, named }) => [destination, named]))
}

/** Rows are written in key order, as all statements lock them. */
export async function writeRemembered(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  values: readonly { pk: string; named: RememberedNames }[],
  at: Date,
): Promise<void> {
  if (values.length === 0) return
  await sql`
    insert into remembered_values (flow, destination, pk, named, at)
    select ${flow}, ${destination}, pk, named, ${at}::timestamptz
    from jsonb_to_recordset(${json(values)}::jsonb) as one (pk text, named jsonb)
    order by pk
    on conflict (flow, destination, pk) do update set named = excluded.named, at = excluded.at`.execute(
    trx,
  )
}

export async function forgetRemembered(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  pks: readonly string[],
): Promise<void> {
  if (pks.length === 0) return
  await trx
    .deleteFrom('remembered_values')
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .execute()
}
