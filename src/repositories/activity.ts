import type { Selectable } from 'kysely'
import type { Db, Trx } from '../db/database.ts'
import type { ActivityLogTable } from '../db/tables.ts'

export type ActivityRow = Selectable<ActivityLogTable>

/** Locks the tail of the chain until the transaction ends. */
export async function lockActivityHead(trx: Trx): Promise<{ seq: number; hash: string }> {
  return trx
    .selectFrom('activity_head')
    .select(['seq', 'hash'])
    .forUpdate()
    .executeTakeFirstOrThrow()
}

export async function appendActivity(
  trx: Trx,
  row: Omit<ActivityRow, 'metadata'> & { metadata: string },
): Promise<void> {
  await trx.insertInto('activity_log').values(row).execute()
  await trx.updateTable('activity_head').set({ seq: row.seq, hash: row.hash }).execute()
}

export type ActivityFilter = {
  action?: string | undefined
  resourceType?: string | undefined
  status?: 'success' | 'failed' | undefined
  client?: string | undefined
}

/** A page of entries, newest first, with the number of all that fit the filter. */
export async function listActivity(
  db: Db,
  filter: ActivityFilter,
  page: { limit: number; offset: number },
): Promise<{ rows: ActivityRow[]; total: number }> {
  let query = db.selectFrom('activity_log')
  if (filter.action !== undefined) query = query.where('action', '=', filter.action)
  if (filter.resourceType !== undefined) {
    query = query.where('resource_type', '=', filter.resourceType)
  }
  if (filter.status !== undefined) query = query.where('status', '=', filter.status)
  if (filter.client !== undefined) query = query.where('client_name', '=', filter.client)
  const rows = await query
    .selectAll()
    .orderBy('seq', 'desc')
    .limit(page.limit)
    .offset(page.offset)
    .execute()
  const { total } = await query
    .select((eb) => eb.fn.countAll<number>().as('total'))
    .executeTakeFirstOrThrow()
  return { rows, total }
}

/** The next entries of the chain after `seq`, oldest first. */
export async function readActivityChain(
  db: Db,
  afterSeq: number,
  limit: number,
): Promise<ActivityRow[]> {
  return db
    .selectFrom('activity_log')
    .selectAll()
    .where('seq', '>', afterSeq)
    .orderBy('seq')
    .limit(limit)
    .execute()
}

export async function readActivityHead(db: Db): Promise<{ seq: number; hash: string }> {
  return db.selectFrom('activity_head').select(['seq', 'hash']).executeTakeFirstOrThrow()
}
