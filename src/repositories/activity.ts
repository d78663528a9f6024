import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../db/database.ts'
import type { ActivityLogTable } from '../db/tables.ts'
import {
  type ListPage,
  type PageWish,
  reachOf,
  type SequencePlace,
  toListPage,
} from './list-page.ts'

export type ActivityRow = Selectable<ActivityLogTable>

export const activityChannel = 'activity_recorded'

/** What listeners hear of a new entry. */
export type ToldActivity = {
  id: string
  client: string | null
  action: string
  resource_type: string
  resource_id: string | null
  status: 'success' | 'failed'
}

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
  const told: ToldActivity = {
    id: row.id,
    client: row.client_name,
    action: row.action,
    resource_type: row.resource_type,
    resource_id: row.resource_id?.slice(0, 200) ?? null,
    status: row.status,
  }
  await trx
    .insertInto('activity_log')
    .values(row)
    // In one statement with the entry: the tail of the chain is locked meanwhile.
    .returning(sql`pg_notify(${activityChannel}, ${JSON.stringify(told)})`.as('told'))
    .execute()
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
  wish: PageWish<SequencePlace>,
): Promise<ListPage<ActivityRow>> {
  let query = db.selectFrom('activity_log')
  if (filter.action !== undefined) query = query.where('action', '=', filter.action)
  if (filter.resourceType !== undefined) {
    query = query.where('resource_type', '=', filter.resourceType)
  }
  if (filter.status !== undefined) query = query.where('status', '=', filter.status)
  if (filter.client !== undefined) query = query.where('client_name', '=', filter.client)
  const { place } = wish
  const isBack = place?.side === 'newer'
  const part = place ? query.where('seq', isBack ? '>' : '<', place.seq) : query
  const rows = await part
    .selectAll()
    .orderBy('seq', isBack ? 'asc' : 'desc')
    .limit(reachOf(wish))
    .offset(wish.offset)
    .execute()
  return toListPage(db, 'activity_log', query, rows, wish)
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
