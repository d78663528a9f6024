import type { Insertable, Selectable, Updateable } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { SettlementFetchesTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'

export type SettlementFetchRow = Selectable<SettlementFetchesTable>

/** Stores a planned fetch. An equal open one stays. Returns whether it is new. */
export async function planFetch(
  trx: Trx,
  fetch: Insertable<SettlementFetchesTable>,
): Promise<{ fetch: SettlementFetchRow; isNew: boolean }> {
  const added = await trx
    .insertInto('settlement_fetches')
    .values(fetch)
    .onConflict((conflict) =>
      conflict
        .columns(['client', 'report', 'from_day', 'to_day'])
        .where('ended_at', 'is', null)
        .doNothing(),
    )
    .returningAll()
    .executeTakeFirst()
  if (added) return { fetch: added, isNew: true }
  const open = await trx
    .selectFrom('settlement_fetches')
    .selectAll()
    .where('client', '=', fetch.client)
    .where('report', '=', fetch.report)
    .where('from_day', '=', fetch.from_day)
    .where('to_day', '=', fetch.to_day)
    .where('ended_at', 'is', null)
    .executeTakeFirstOrThrow()
  return { fetch: open, isNew: false }
}

export async function findFetch(
  db: Db,
  client: ClientName,
  id: string,
): Promise<SettlementFetchRow | undefined> {
  return db
    .selectFrom('settlement_fetches')
    .selectAll()
    .where('client', '=', client)
    .where('id', '=', id)
    .executeTakeFirst()
}

/** Fetches of every client whose next step is due, the longest due first. */
export async function listDueFetches(
  db: Db,
  now: Date,
  limit: number,
): Promise<SettlementFetchRow[]> {
  return db
    .selectFrom('settlement_fetches')
    .selectAll()
    .where('next_look_at', '<=', now)
    .orderBy('next_look_at')
    .limit(limit)
    .execute()
}

/** Stores the next step of a fetch. Undefined when it has changed since it was read. */
export async function moveFetch(
  db: Db | Trx,
  known: SettlementFetchRow,
  set: Updateable<SettlementFetchesTable>,
): Promise<SettlementFetchRow | undefined> {
  return db
    .updateTable('settlement_fetches')
    .set(set)
    .where('id', '=', known.id)
    .where('state', '=', known.state)
    .where('ended_at', 'is', null)
    .where('failures', '=', known.failures)
    .where('task_id', 'is not distinct from', known.task_id)
    .where('file_name', 'is not distinct from', known.file_name)
    .returningAll()
    .executeTakeFirst()
}
