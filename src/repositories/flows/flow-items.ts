import { type RawBuilder, sql } from 'kysely'
import { type Db, json, type Trx } from '../../db/database.ts'

/** See renewHashes. */
const seenAs = sql<string>`coalesce(seen_as, hash)`

/**
 * The hash of an item that was reset. To a read it is one that was never seen; its row stays, since the item is deleted at the
 * destinations when the source no longer has it.
 */
const resetHash = ''

/** The stored hashes of these items; an item that was never seen, or was reset, is absent. */
export async function findHashes(
  db: Db | Trx,
  flow: string,
  pks: readonly string[],
): Promise<Map<string, string>> {
  if (pks.length === 0) return new Map()
  const rows = await db
    .selectFrom('flow_items')
    .select(['pk', seenAs.as('hash')])
    .where('flow', '=', flow)
    .where('hash', '<>', resetHash)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .execute()
  return new Map(rows.map((row) => [row.pk, row.hash]))
}

/** What the source showed last of one item, and when that changed. */
export async function findItem(
  db: Db,
  flow: string,
  pk: string,
): Promise<{ hash: string; changedAt: Date } | undefined> {
  const row = await db
    .selectFrom('flow_items')
    .select(['hash', 'changed_at'])
    .where('flow', '=', flow)
    .where('pk', '=', pk)
    .where('hash', '<>', resetHash)
    .executeTakeFirst()
  return row && { hash: row.hash, changedAt: row.changed_at }
}

/** In which of these flows an item was seen, and when it changed there last; one look by its key in each. */
export async function findItemInFlows(
  db: Db,
  flows: readonly string[],
  pk: string,
): Promise<Map<string, Date>> {
  const { rows } = await sql<{ flow: string; changed_at: Date }>`
    select found.flow, found.changed_at from unnest(${flows}::text[]) as wanted (flow)
    cross join lateral (
      select flow, changed_at from flow_items where (flow, pk) = (wanted.flow, ${pk}) and hash <> ${resetHash} limit 1
    ) as found`.execute(db)
  return new Map(rows.map((row) => [row.flow, row.changed_at]))
}

export type StoredItem = { hash: string; readNumber: number }

/** What is stored of these items, locked until the transaction ends; an item that was never seen, or was reset, is absent. */
export async function lockItems(
  trx: Trx,
  flow: string,
  pks: readonly string[],
): Promise<Map<string, StoredItem>> {
  if (pks.length === 0) return new Map()
  const rows = await trx
    .selectFrom('flow_items')
    .select(['pk', seenAs.as('hash'), 'read_number'])
    .where('flow', '=', flow)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .orderBy('pk')
    .forUpdate()
    .execute()
  return new Map(
    rows
      .filter(({ hash }) => hash !== resetHash)
      .map((row) => [row.pk, { hash: row.hash, readNumber: row.read_number }]),
  )
}

/**
 * Stores the hashes that a read has shown, in the order of their keys so that two writers never wait for each other
 * crosswise. Answers the keys of those that were stored (`ours`), and of those that somebody else has stored alike since
 * they were compared (`same`), which are no change any more; of the rest a later read has shown something, and that stays. With
 * `isLater` these are later records of the same read.
 */
export async function upsertHashes(
  trx: Trx,
  flow: string,
  items: readonly { pk: string; hash: string }[],
  { read, at, isLater = false }: { read: number; at: Date; isLater?: boolean },
): Promise<{ ours: Set<string>; same: Set<string> }> {
  if (items.length === 0) return { ours: new Set(), same: new Set() }
  // As two lists: composing and reading a statement of thousands of parameters takes longer than inserting.
  const pks = items.map(({ pk }) => pk)
  const hashes = items.map(({ hash }) => hash)
  // A row that nobody could lock, since it was not there, may have been inserted by somebody who had not committed yet.
  const isSame = sql<boolean>`coalesce(flow_items.seen_as, flow_items.hash) = excluded.hash`
  const stored = await trx
    .insertInto('flow_items')
    .columns(['flow', 'pk', 'hash', 'changed_at', 'read_number'])
    .expression(
      sql<never>`select ${flow}::text, pk, hash, ${at}::timestamptz, ${read}::bigint
        from unnest(${pks}::text[], ${hashes}::text[]) as one (pk, hash)
        order by pk`,
    )
    .onConflict((conflict) =>
      conflict
        .columns(['flow', 'pk'])
        .doUpdateSet((eb) => ({
          hash: sql<string>`case when ${isSame} then flow_items.hash else excluded.hash end`,
          // Tells the two apart in the answer, and says the same as the hash.
          seen_as: sql<string | null>`case when ${isSame} then excluded.hash end`,
          changed_at: sql<Date>`case when ${isSame} then flow_items.changed_at else excluded.changed_at end`,
          read_number: eb.ref('excluded.read_number'),
          missed_scans: 0,
          missed_since: null,
        }))
        .whereRef('flow_items.read_number', isLater ? '<=' : '<', 'excluded.read_number'),
    )
    .returning(['pk', 'seen_as'])
    .execute()
  const keysOf = (isThere: boolean) =>
    new Set(stored.filter((row) => (row.seen_as !== null) === isThere).map(({ pk }) => pk))
  return { ours: keysOf(false), same: keysOf(true) }
}

/**
 * Items look as their stored hash says, which an earlier version of the service wrote: what they are by the present one is
 * kept beside it. The stored one stays, since what destinations have is known by it.
 */
export async function renewHashes(
  db: Db | Trx,
  flow: string,
  items: readonly { pk: string; hash: string; was: string }[],
): Promise<void> {
  if (items.length === 0) return
  await sql`
    update flow_items set seen_as = one.hash
    from jsonb_to_recordset(${json(items)}::jsonb) as one (pk text, hash text, was text)
    where flow_items.flow = ${flow} and flow_items.pk = one.pk
      and coalesce(flow_items.seen_as, flow_items.hash) = one.was`.execute(db)
}

/** A read has shown the item as it is stored: one that began before it must not change that. */
export async function confirmItem(trx: Trx, flow: string, pk: string, read: number): Promise<void> {
  await trx
    .updateTable('flow_items')
    .set({ read_number: read, missed_scans: 0, missed_since: null })
    .where('flow', '=', flow)
    .where('pk', '=', pk)
    .where('read_number', '<', read)
    .execute()
}

/** Has the next read find these items new. Answers how many of them had been seen. */
export async function resetHashes(trx: Trx, flow: string, pks: readonly string[]): Promise<number> {
  if (pks.length === 0) return 0
  const result = await trx
    .updateTable('flow_items')
    .set({ hash: resetHash, seen_as: null })
    .where('flow', '=', flow)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .where('hash', '<>', resetHash)
    .executeTakeFirst()
  return Number(result.numUpdatedRows)
}

/** Forgets these items: nothing is deleted at the destinations when the source no longer has them. */
export async function deleteHashes(trx: Trx, flow: string, pks: readonly string[]): Promise<void> {
  if (pks.length === 0) return
  await trx
    .deleteFrom('flow_items')
    .where('flow', '=', flow)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .execute()
}

/** How many items are known, those included that were reset since. */
export async function countItems(db: Db | Trx, flow: string): Promise<number> {
  const row = await db
    .selectFrom('flow_items')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('flow', '=', flow)
    .executeTakeFirstOrThrow()
  return row.count
}

/** How many items each flow has that were not reset; one without any is absent. It reads all of them: a million take a second or two. */
export async function countItemsByFlow(db: Db): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('flow_items')
    .select((eb) => ['flow', eb.fn.countAll<number>().as('count')])
    .where('hash', '<>', resetHash)
    .groupBy('flow')
    .execute()
  return new Map(rows.map((row) => [row.flow, row.count]))
}

/** By which key the first row of a flow is found. */
const records = { flow_items: 'pk', deliveries: 'destination', item_versions: 'pk' } as const

/** Whether anything of a flow's items is kept: a hash, a delivery or what one looked like. Each is one look at an index. */
export async function isOnRecord(db: Db, flow: string): Promise<boolean> {
  const looks = Object.entries(records).map(
    ([table, key]) => sql`exists (
      select from (
        select flow from ${sql.table(table)}
        where (flow, ${sql.ref(key)}) >= (${flow}, '')
        order by flow, ${sql.ref(key)}
        limit 1
      ) as first
      where flow = ${flow})`,
  )
  const { rows } = await sql<{ found: boolean }>`
    select ${sql.join(looks, sql` or `)} as found`.execute(db)
  return rows[0]?.found === true
}

/**
 * Keys after `afterPk` in the database's order: the pages of a walk over all items. `flow =` is left for the end, since a
 * planner that knows nothing of the table yet would take the flow for a handful of rows and read all of them for each page.
 */
export async function listPksAfter(
  db: Db | Trx,
  flow: string,
  afterPk: string | undefined,
  limit: number,
): Promise<string[]> {
  const { rows } = await pksAfter(flow, afterPk, limit).execute(db)
  return rows.map((row) => row.pk)
}

/** What listPksAfter asks. */
export function pksAfter(
  flow: string,
  afterPk: string | undefined,
  limit: number,
): RawBuilder<{ pk: string }> {
  return sql<{ pk: string }>`
    with page as materialized (
      select flow, pk from flow_items
      where ${
        afterPk === undefined
          ? sql`(flow, pk) >= (${flow}, '')`
          : sql`(flow, pk) > (${flow}, ${afterPk})`
      }
      order by flow, pk
      limit ${limit}
    )
    select pk from page where flow = ${flow} order by pk`
}
