import { type Selectable, sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { OrderSearchesTable } from '../../db/tables.ts'

type OrderSearchRow = Selectable<OrderSearchesTable>

/**
 * Plans a search of every connected account, from its last known order until now. An unfinished search continues.
 * `marginMs` is how far before the last known order the search begins, `reachMs` how far back the provider's search
 * goes.
 */
export async function planOrderSearches(
  db: Db,
  now: Date,
  { marginMs, reachMs }: { marginMs: number; reachMs: number },
): Promise<void> {
  const oldest = new Date(now.getTime() - reachMs)
  await sql`
    insert into order_searches as planned (mp_user_id, searched_until, ends_at)
    select connection.mp_user_id,
      greatest(${oldest}::timestamptz, least(${now}::timestamptz, coalesce(
        greatest(max(last_order.created_at), max(earlier.searched_until)), ${oldest}::timestamptz))
        - ${marginMs}::double precision * interval '1 millisecond'),
      ${now}
    from oauth_connections connection
    left join order_searches earlier on earlier.mp_user_id = connection.mp_user_id
    left join lateral (
      select created_at from orders
      where orders.client = connection.client and orders.mp_user_id = connection.mp_user_id
      order by created_at desc limit 1
    ) last_order on true
    group by connection.mp_user_id
    on conflict (mp_user_id) do update set
      searched_until = case when planned.finished_at is null then planned.searched_until
        else excluded.searched_until end,
      ends_at = excluded.ends_at,
      finished_at = null`.execute(db)
}

/** Unfinished searches. */
export async function listOpenSearches(db: Db): Promise<OrderSearchRow[]> {
  return db
    .selectFrom('order_searches')
    .selectAll()
    .where('finished_at', 'is', null)
    .orderBy('mp_user_id')
    .execute()
}

export async function findOpenSearch(
  db: Db,
  mpUserId: number,
): Promise<OrderSearchRow | undefined> {
  return db
    .selectFrom('order_searches')
    .selectAll()
    .where('mp_user_id', '=', mpUserId)
    .where('finished_at', 'is', null)
    .executeTakeFirst()
}

/** Records the progress of a search, and its end. Never moves backwards. */
export async function advanceSearch(
  db: Db,
  mpUserId: number,
  searchedUntil: Date,
  now: Date,
): Promise<void> {
  await db
    .updateTable('order_searches')
    .set({
      searched_until: searchedUntil,
      finished_at: sql<Date | null>`case when ends_at <= ${searchedUntil} then ${now}::timestamptz end`,
    })
    .where('mp_user_id', '=', mpUserId)
    .where('searched_until', '<=', searchedUntil)
    .execute()
}
