import { type RawBuilder, type Selectable, sql } from 'kysely'
import { type Database, type Db, json, type Trx } from '../db/database.ts'
import type { ItemAttemptsTable, ItemVersionsTable } from '../db/tables.ts'
import type { DeliveryTarget } from './deliveries.ts'
import { inKeyOrder } from './key-order.ts'

/** Of one item; the housekeeping forgets older ones, so that one that changes all day does not fill the disk. */
export const versionsKept = 20
export const attemptsKept = 100
/** Content beyond this many bytes of JSON is not kept: an image in an item would fill the disk too. */
export const contentBytesKept = 65_536
/** So small as it is stored that nobody need write it out to measure it, which costs as much as keeping it. */
const contentBytesSurelyKept = contentBytesKept / 8

/** As many rows as one statement looks at or deletes: 20 ms of the embedded database, in which it answers nobody else. */
const rowsAtOnce = 5_000

/**
 * The part of a statement that keeps what the items of `found` look like now. One that looks like its newest version, such as
 * after a reset, makes no other. Each key looks up its own newest row: a look from the key downwards would pass all that the
 * statement itself, or another beside it, has written before that key.
 */
export function keepVersions(flow: string, at: Date): RawBuilder<unknown> {
  return sql`
    ${keepFirstVersions(flow, at)}
    left join lateral (
      select kind, hash from item_versions
      where (flow, pk) = (${flow}, found.pk)
      order by id desc limit 1
    ) as newest on true
    where newest.hash is null or newest.hash <> found.hash or newest.kind <> found.kind
    order by found.pk`
}

/** As keepVersions, of items that have no history. */
export function keepFirstVersions(flow: string, at: Date): RawBuilder<unknown> {
  return sql`
    insert into item_versions (flow, pk, seen_at, kind, hash, payload)
    select ${flow}, found.pk, ${at}, found.kind, found.hash,
      case when pg_column_size(found.payload) <= ${sql.lit(contentBytesSurelyKept)}
        or octet_length(found.payload::text) <= ${contentBytesKept} then found.payload end
    from found`
}

export type NewItemAttempt = Pick<
  Selectable<ItemAttemptsTable>,
  'pk' | 'kind' | 'hash' | 'attempt' | 'outcome' | 'status' | 'reason'
>

/** The statement that writes them down; whoever writes something else too can save a trip to the server. */
export function insertItemAttempts(
  { flow, destination }: DeliveryTarget,
  attempts: readonly NewItemAttempt[],
  at: Date,
): RawBuilder<object> {
  return sql<object>`
    insert into item_attempts
      (flow, destination, at, pk, kind, hash, attempt, outcome, status, reason)
    select ${flow}, ${destination}, ${at}::timestamptz, one.*
    from jsonb_to_recordset(${json(attempts)}::jsonb) as one
      (pk text, kind text, hash text, attempt integer, outcome text, status integer, reason text)`
}

export type ItemVersionRow = Selectable<ItemVersionsTable>
export type ItemAttemptRow = Selectable<ItemAttemptsTable>

/** What is kept of one item, newest first. */
export async function listItemHistory(
  db: Db,
  flow: string,
  pk: string,
): Promise<{ versions: ItemVersionRow[]; attempts: ItemAttemptRow[] }> {
  const versions = await db
    .selectFrom('item_versions')
    .selectAll()
    .where('flow', '=', flow)
    .where('pk', '=', pk)
    .orderBy('id', 'desc')
    .limit(versionsKept)
    .execute()
  const attempts = await db
    .selectFrom('item_attempts')
    .selectAll()
    .where('flow', '=', flow)
    .where('pk', '=', pk)
    .orderBy('id', 'desc')
    .limit(attemptsKept)
    .execute()
  return { versions, attempts }
}

/** What these items looked like when they last changed; null when that is too large to be kept, absent when not on record. */
export async function findLastContents(
  db: Db,
  flow: string,
  pks: readonly string[],
): Promise<Map<string, ItemVersionRow['payload']>> {
  const rows = await db
    .selectFrom('item_versions')
    .distinctOn('pk')
    .select(['pk', 'payload'])
    .where('flow', '=', flow)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .where('kind', '=', 'upsert')
    .orderBy('pk')
    .orderBy('id', 'desc')
    .execute()
  return new Map(rows.map(({ pk, payload }) => [pk, payload]))
}

/** What an item looked like at a change of these; undefined when that is not on record, or too large to be kept. */
export async function findContent(
  trx: Trx,
  flow: string,
  { pk, kind, hash }: Pick<ItemVersionRow, 'pk' | 'kind' | 'hash'>,
): Promise<Record<string, unknown> | undefined> {
  const row = await trx
    .selectFrom('item_versions')
    .select('payload')
    .where('flow', '=', flow)
    .where('pk', '=', pk)
    .where('kind', '=', kind)
    .where('hash', '=', hash)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.payload ?? undefined
}

const kinds = [
  { table: 'item_versions', time: 'seen_at', kept: versionsKept },
  { table: 'item_attempts', time: 'at', kept: attemptsKept },
] as const

/** Answers how many rows were older than the given time and are gone; `limit` in each statement. Only a bound below too lets the index be used. */
export async function deleteItemHistoryBefore(
  db: Db,
  flow: string,
  before: Date,
  limit = rowsAtOnce,
): Promise<number> {
  let gone = 0
  for (const { table, time } of kinds) {
    for (let found = limit; found === limit; gone += found) {
      const { numAffectedRows } = await sql`
        delete from ${sql.table(table)} where ctid = any(array(
          select ctid from ${sql.table(table)}
          where flow = ${flow} and ${sql.ref(time)} < ${before} and ${sql.ref(time)} > '-infinity'
          order by ${sql.ref(time)}
          limit ${limit}))`.execute(db)
      found = Number(numAffectedRows ?? 0)
    }
  }
  return gone
}

type HistoryTable = (typeof kinds)[number]['table']

/** A look at some rows: how many they were, the item that they end with, and the items with more than are kept. */
export type HistoryRows = { looked: number; last: string | null; over: string[] }

/**
 * Asks for the next rows from an item on, by the key of the table. The last item may have more of them. To be run in key
 * order.
 */
export function historyRows(
  table: HistoryTable,
  flow: string,
  page: { from: string; kept: number; limit: number },
): RawBuilder<HistoryRows> {
  return sql<HistoryRows>`
    with page as materialized (
      select pk from ${sql.table(table)}
      where flow = ${flow} and pk >= ${page.from}
      order by pk, id
      limit ${page.limit}
    ), counted as (
      select pk, count(*) as found from page group by pk
    )
    select coalesce(sum(found), 0)::bigint as looked, max(pk) as last,
      coalesce(array_agg(pk) filter (where found > ${page.kept}), '{}') as over
    from counted`
}

/**
 * Forgets what is beyond the newest of each item; answers how many rows. It walks over the rows in the order of their
 * items, `limit` in each statement (more than are kept of one item), so that none takes long however many items there are.
 */
export async function trimItemHistory(
  database: Database,
  flow: string,
  limit = rowsAtOnce,
): Promise<number> {
  let gone = 0
  for (const { table, kept } of kinds) {
    let from: string | undefined = ''
    while (from !== undefined) {
      const look = historyRows(table, flow, { from, kept, limit })
      const page = (await inKeyOrder(database, (trx) => look.execute(trx))).rows[0]
      if (page && page.over.length > 0) {
        gone += await trimItems(database.db, table, flow, page.over, kept)
      }
      // The page may end within an item: it is looked at again, and by now has no more than fit into a page.
      from = page?.looked === limit ? (page.last ?? undefined) : undefined
    }
  }
  return gone
}

async function trimItems(
  db: Db,
  table: HistoryTable,
  flow: string,
  pks: readonly string[],
  kept: number,
): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from ${sql.table(table)} where ctid = any(array(
      select ctid from (
        select ctid, row_number() over (partition by pk order by id desc) as rank
        from ${sql.table(table)}
        where flow = ${flow} and pk = any(${pks}::text[])
      ) as ranked
      where rank > ${kept}))`.execute(db)
  return Number(numAffectedRows ?? 0)
}
