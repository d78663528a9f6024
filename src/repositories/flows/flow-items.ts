import { type RawBuilder, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import { changeItemsStamp } from './flow-state.ts'

/** By the present rules; see renewHashes. */
const seenAs = sql<string>`coalesce(seen_as, hash)`

/**
 * The hash of an item that was reset. A read treats the item as new. The row stays, because the item must still be
 * deleted at the destinations when the source loses it.
 */
const resetHash = ''

/** The stored hashes of these items. An item that was never read is absent; one that was reset has an empty hash. */
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
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .execute()
  return new Map(rows.map((row) => [row.pk, row.hash]))
}

/** The latest content of one item at the source, and when it changed. */
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

/** The flows among these that have read the item, and when it last changed there. One lookup by key per flow. */
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

/** `hash` is by the present rules; `contentHash` is the one that deliveries of this content refer to. */
type StoredItem = { hash: string; contentHash: string; readNumber: number }

/**
 * The stored state of these items, locked until the transaction ends. An item that was never read, or was reset, is
 * absent.
 */
export async function lockItems(
  trx: Trx,
  flow: string,
  pks: readonly string[],
): Promise<Map<string, StoredItem>> {
  if (pks.length === 0) return new Map()
  const rows = await trx
    .selectFrom('flow_items')
    .select(['pk', seenAs.as('hash'), 'hash as contentHash', 'read_number'])
    .where('flow', '=', flow)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .orderBy('pk')
    .forUpdate()
    .execute()
  return new Map(
    rows
      .filter(({ hash }) => hash !== resetHash)
      .map(({ pk, hash, contentHash, read_number: readNumber }) => [
        pk,
        { hash, contentHash, readNumber },
      ]),
  )
}

/** The number of no read: they begin with 1. */
const noRead = 0

/** The read that stored the item last; undefined for an item that has no row. */
export async function findReadOf(db: Db, flow: string, pk: string): Promise<number | undefined> {
  const row = await db
    .selectFrom('flow_items')
    .select('read_number')
    .where('flow', '=', flow)
    .where('pk', '=', pk)
    .executeTakeFirst()
  return row?.read_number
}

/**
 * `byPoll`: the poll remembers what it stores. `since`: findReadOf before the source was asked. Another read that has stored
 * the item meanwhile may have found newer content, whichever of the two began later.
 */
type ItemsRead = {
  read: number
  at: Date
  isLater?: boolean
  byPoll?: boolean
  since?: { read: number | undefined }
}

/**
 * Stores the hashes of a read in key order, so that two writers do not deadlock. Returns the keys it stored (`ours`),
 * and those for which another writer stored the same hash meanwhile (`same`). Items that a later read has stored stay
 * unchanged, and with `since` those that any other read has. `isLater` marks later records of the same read.
 */
export async function upsertHashes(
  trx: Trx,
  flow: string,
  items: readonly { pk: string; hash: string }[],
  { read, at, isLater = false, byPoll = false, since }: ItemsRead,
): Promise<{ ours: Set<string>; same: Set<string> }> {
  if (items.length === 0) return { ours: new Set(), same: new Set() }
  // As two lists, because building and parsing thousands of parameters takes longer than the insert.
  const pks = items.map(({ pk }) => pk)
  const hashes = items.map(({ hash }) => hash)
  // A row that did not exist could not be locked: another transaction may have inserted it without committing yet.
  const isSame = sql<boolean>`coalesce(flow_items.seen_as, flow_items.hash) = excluded.hash`
  const isSince = since
    ? sql<boolean>`flow_items.read_number = ${since.read ?? noRead}`
    : sql<boolean>`true`
  // A row that is gone was deleted by another read.
  const isThere = sql`where exists (select from flow_items as known where (known.flow, known.pk) = (${flow}, one.pk))`
  const stored = await trx
    .insertInto('flow_items')
    .columns(['flow', 'pk', 'hash', 'changed_at', 'read_number'])
    .expression(
      sql<never>`select ${flow}::text, pk, hash, ${at}::timestamptz, ${read}::bigint
        from unnest(${pks}::text[], ${hashes}::text[]) as one (pk, hash)
        ${since?.read === undefined ? sql`` : isThere}
        order by pk`,
    )
    .onConflict((conflict) =>
      conflict
        .columns(['flow', 'pk'])
        .doUpdateSet((eb) => ({
          hash: sql<string>`case when ${isSame} then flow_items.hash else excluded.hash end`,
          // Marks the row as `same` in the result. The value equals the hash.
          seen_as: sql<string | null>`case when ${isSame} then excluded.hash end`,
          changed_at: sql<Date>`case when ${isSame} then flow_items.changed_at else excluded.changed_at end`,
          read_number: eb.ref('excluded.read_number'),
          missed_scans: 0,
          missed_since: null,
        }))
        .whereRef('flow_items.read_number', isLater ? '<=' : '<', 'excluded.read_number')
        .where(isSince),
    )
    .returning(['pk', 'seen_as'])
    .execute()
  if (!byPoll) await changeItemsStamp(trx, flow)
  const keysOf = (isThere: boolean) =>
    new Set(stored.filter((row) => (row.seen_as !== null) === isThere).map(({ pk }) => pk))
  return { ours: keysOf(false), same: keysOf(true) }
}

/**
 * Stores the hash by a changed definition beside the one that was stored. The old hash stays, because `delivered_hash` of the
 * destinations refers to it. An item that a later read has stored stays as it is.
 */
export async function renewHashes(
  trx: Trx,
  flow: string,
  items: readonly { pk: string; hash: string; was: string }[],
  read: number,
): Promise<void> {
  if (items.length === 0) return
  await sql`
    update flow_items set seen_as = one.hash
    from jsonb_to_recordset(${json(items)}::jsonb) as one (pk text, hash text, was text)
    where flow_items.flow = ${flow} and flow_items.pk = one.pk
      and coalesce(flow_items.seen_as, flow_items.hash) = one.was and flow_items.read_number <= ${read}`.execute(
    trx,
  )
}

/** A read found the item as it is stored. An earlier read must not change it any more. */
export async function confirmItem(trx: Trx, flow: string, pk: string, read: number): Promise<void> {
  await trx
    .updateTable('flow_items')
    .set({ read_number: read, missed_scans: 0, missed_since: null })
    .where('flow', '=', flow)
    .where('pk', '=', pk)
    .where('read_number', '<', read)
    .execute()
}

/** The hash of an item whose next read finds a change. It equals that of no content. */
export const unreadHash = ':unread'

/** Makes the next read of these items find a change. */
export async function markUnread(trx: Trx, flow: string, pks: readonly string[]): Promise<void> {
  await lockItems(trx, flow, pks)
  await trx
    .updateTable('flow_items')
    .set({ seen_as: unreadHash })
    .where('flow', '=', flow)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .where('hash', '<>', resetHash)
    .execute()
  await changeItemsStamp(trx, flow)
}

/** Makes the next read treat these items as new. Returns how many of them were stored. */
export async function resetHashes(trx: Trx, flow: string, pks: readonly string[]): Promise<number> {
  if (pks.length === 0) return 0
  const result = await trx
    .updateTable('flow_items')
    .set({ hash: resetHash, seen_as: null })
    .where('flow', '=', flow)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .where('hash', '<>', resetHash)
    .executeTakeFirst()
  await changeItemsStamp(trx, flow)
  return Number(result.numUpdatedRows)
}

/** Forgets these items. They are not deleted at the destinations when the source loses them. `byPoll`: the poll knows of it. */
export async function deleteHashes(
  trx: Trx,
  flow: string,
  pks: readonly string[],
  { byPoll = false }: { byPoll?: boolean } = {},
): Promise<void> {
  if (pks.length === 0) return
  await trx
    .deleteFrom('flow_items')
    .where('flow', '=', flow)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .execute()
  if (!byPoll) await changeItemsStamp(trx, flow)
}

/** How many items are stored, including those that were reset. */
export async function countItems(db: Db | Trx, flow: string): Promise<number> {
  const row = await db
    .selectFrom('flow_items')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('flow', '=', flow)
    .executeTakeFirstOrThrow()
  return row.count
}

/**
 * How many items each flow has, without those that were reset. A flow without items is absent. It reads all rows: a
 * second or two for a million.
 */
export async function countItemsByFlow(db: Db): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('flow_items')
    .select((eb) => ['flow', eb.fn.countAll<number>().as('count')])
    .where('hash', '<>', resetHash)
    .groupBy('flow')
    .execute()
  return new Map(rows.map((row) => [row.flow, row.count]))
}

/** The column that finds the first row of a flow by index. */
const records = { flow_items: 'pk', deliveries: 'destination', item_versions: 'pk' } as const

/**
 * Whether any data of the flow's items is stored: a hash, a delivery or a version. Each check is one index lookup.
 */
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
 * Keys after `afterPk` in the database's order, for a walk over all items. `flow =` is checked last: without
 * statistics the planner would otherwise read the whole flow for each page.
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

/** The query of listPksAfter. */
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
