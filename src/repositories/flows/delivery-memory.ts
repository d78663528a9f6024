import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { DeliveryTarget } from './deliveries.ts'

/** Whether a record says that the destination has an item, or may have one. */
export async function hasDelivered(
  db: Db | Trx,
  { flow, destination }: DeliveryTarget,
): Promise<boolean> {
  const { rows } = await sql<{ found: boolean }>`
    select exists (
      select from deliveries where flow = ${flow} and destination = ${destination}
        and (delivered_hash is not null or may_have_arrived)
    ) or exists (
      select from remembered_values where flow = ${flow} and destination = ${destination}
    ) as found`.execute(db)
  return rows[0]?.found ?? false
}

/** Deletes the records of a destination, at most `limit` rows of each kind. Returns whether more may be left. */
export async function forgetDeliveries(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  limit: number,
): Promise<boolean> {
  let isLeft = false
  for (const table of ['deliveries', 'remembered_values'] as const) {
    const { numAffectedRows } = await sql`
      delete from ${sql.table(table)}
      where flow = ${flow} and destination = ${destination} and pk in (
        select pk from ${sql.table(table)}
        where flow = ${flow} and destination = ${destination}
        order by pk limit ${limit}
      )`.execute(trx)
    isLeft ||= Number(numAffectedRows ?? 0) === limit
  }
  return isLeft
}
