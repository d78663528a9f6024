import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import { deletedHash, deleteRows } from './deliveries.ts'
import type { DeliveryTarget } from './delivery-target.ts'

/**
 * A delete that a removed destination has not got: it is sent when the destination returns. Such a row is done, so that
 * nothing shows as waiting for a destination that may never return.
 */
export const isPending = sql<boolean>`(state = 'done' and kind = 'delete'
  and (may_have_arrived or delivered_hash <> ${sql.lit(deletedHash)}))`

/** The destinations that the flow had, without those of the definition. */
export async function listRemovedDestinations(
  db: Db | Trx,
  flow: string,
  defined: readonly string[],
): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select name from flow_state cross join lateral jsonb_object_keys(destination_identities) as name
    where flow = ${flow} and name <> all(${defined}::text[])
    order by name`.execute(db)
  return rows.map(({ name }) => name)
}

/**
 * The source lost these items while the destination is removed. What it may have is deleted there later, and a delivery
 * of an item that it does not have ends.
 */
export async function notePendingDeletes(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  pks: readonly string[],
  { change, at }: { change: number; at: Date },
): Promise<void> {
  const isOne = sql<boolean>`flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])`
  await sql`
    update deliveries set
      kind = 'delete', hash = ${deletedHash}, version = version + 1, change_number = ${change},
      state = 'done', payload = null, attempts = 0, finished_at = ${at},
      last_error = null, last_status = null, why = null, not_before = null, due_at = '-infinity', skipped = null
    where ${isOne} and (may_have_arrived or delivered_hash <> ${deletedHash})`.execute(trx)
  await deleteRows(sql<boolean>`${isOne} and state <> 'done'`).execute(trx)
}

/**
 * Queues the pending deletes of a destination among its next `limit` rows after a key, except those of items that the
 * source has again. `itemOf` gives the content of a delete. Returns the last key; undefined after the last row.
 */
export async function queuePendingDeletes(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  {
    after,
    limit,
    at,
    itemOf,
  }: { after: string; limit: number; at: Date; itemOf: (pk: string) => Record<string, string> },
): Promise<string | undefined> {
  const { rows } = await sql<{ pk: string; isPending: boolean }>`
    select pk, coalesce(${isPending}, false) as "isPending" from deliveries
    where (flow, destination, pk) > (${flow}, ${destination}, ${after})
      and (flow, destination) <= (${flow}, ${destination})
    order by flow, destination, pk
    limit ${limit}
    for update`.execute(trx)
  const pending = rows.filter((row) => row.isPending).map(({ pk }) => ({ pk, item: itemOf(pk) }))
  if (pending.length > 0) {
    await sql`
      update deliveries set
        state = 'waiting', version = version + 1, change_number = nextval('flow_reads'), payload = pending.item,
        queued_at = ${at}, finished_at = null
      from jsonb_to_recordset(${json(pending)}::jsonb) as pending (pk text, item jsonb)
      where flow = ${flow} and destination = ${destination} and deliveries.pk = pending.pk
        and not exists (select from flow_items where flow_items.flow = ${flow} and flow_items.pk = pending.pk)`.execute(
      trx,
    )
  }
  return rows.length === limit ? rows.at(-1)?.pk : undefined
}

/** Forgets the pending deletes of a flow: under another key they could concern items that exist. */
export async function forgetPendingDeletes(
  trx: Trx,
  flow: string,
  destinations: readonly string[],
): Promise<void> {
  await deleteRows(
    sql<boolean>`flow = ${flow} and destination = any(${destinations}::text[]) and ${isPending}`,
  ).execute(trx)
}
