import { sql } from 'kysely'
import type { RememberedNames } from '../../db/column-types.ts'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import { deletedHash } from './deliveries.ts'
import type { DeliveryTarget } from './delivery-target.ts'

/** The remembered values of one item, by destination. */
export async function listRemembered(
  db: Db,
  flow: string,
  destinations: readonly string[],
  pk: string,
): Promise<Map<string, RememberedNames>> {
  const rows = await db
    .selectFrom('deliveries')
    .select(['destination', 'remembered'])
    .where('flow', '=', flow)
    .where(sql<boolean>`destination = any(${destinations}::text[])`)
    .where('pk', '=', pk)
    .execute()
  return new Map(
    rows.flatMap(({ destination, remembered }) => (remembered ? [[destination, remembered]] : [])),
  )
}

/**
 * Stores what is remembered of items. An item whose row is gone gets one that says only this. Rows are written in key order,
 * as all statements lock them.
 */
export async function writeRemembered(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  values: readonly { pk: string; named: RememberedNames }[],
  at: Date,
): Promise<void> {
  if (values.length === 0) return
  await sql`
    insert into deliveries
      (flow, destination, pk, version, change_number, kind, hash, delivered_hash, state, attempts, queued_at,
        finished_at, may_have_arrived, remembered)
    select ${flow}, ${destination}, pk, 1, 0, 'delete', ${deletedHash}, ${deletedHash}, 'done', 0, ${at}::timestamptz,
      ${at}::timestamptz, false, named
    from jsonb_to_recordset(${json(values)}::jsonb) as one (pk text, named jsonb)
    order by pk
    on conflict (flow, destination, pk) do update set remembered = excluded.remembered`.execute(trx)
}

export async function forgetRemembered(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  pks: readonly string[],
): Promise<void> {
  if (pks.length === 0) return
  await trx
    .updateTable('deliveries')
    .set({ remembered: null })
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .execute()
}
