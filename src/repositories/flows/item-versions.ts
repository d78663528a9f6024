import { type RawBuilder, type Selectable, sql } from 'kysely'
import { type Database, type Db, json, type Trx } from '../../db/database.ts'
import type { ItemAttemptsTable, ItemVersionsTable } from '../../db/tables.ts'
import { type Reason, sentenceOf } from '../../domain/flow-reasons.ts'
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
  'pk' | 'kind' | 'hash' | 'attempt' | 'outcome' | 'status'
> & { why: Reason | null }

/** The statement that writes them down; whoever writes something else too can save a trip to the server. */
export function insertItemAttempts(
  { flow, destination }: DeliveryTarget,
  attempts: readonly NewItemAttempt[],
  at: Date,
): RawBuilder<object> {
  const told = attempts.map((one) => ({ ...one, reason: one.why && sentenceOf(one.why, 'en') }))
  return sql<object>`
    insert into item_attempts
      (flow, destination, at, pk, kind, hash, attempt, outcome, status, reason, why)
    select ${flow}, ${destination}, ${at}::timestamptz, one.*
    from jsonb_to_recordset(${json(told)}::jsonb) as one
      (pk text, kind text, hash text, attempt integer, outcome text, status integer, reason text, why jsonb)`
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

export const historyKinds = [
  { table: 'item_versions', time: 'seen_at', kept: versionsKept },
  { table: 'item_attempts', time: 'at', kept: attemptsKept },
] as const

export type HistoryKind = (typeof historyKinds)[number]

/** What of an item's history is kept: so many of its newest rows, and none from before a time. */
export type Keeping = { before: Date; kept: number }

/** A look at some rows: how many they were, the item that they end with, and the items with rows that are not kept. */
export type HistoryRows = { looked: number; last: string | null; over: string[] }

/**
 * Asks for the next rows from an item on, by the key of the table. The last item may have more of them. To be run in key
 * order.
 */
export function historyRows(
  { table, time }: HistoryKind,
  flow: string,
  page: Keeping & { from: string; limit: number },
): RawBuilder<HistoryRows> {
  return sql<HistoryRows>`
    with page as materialized (
      select pk, ${sql.ref(time)} < ${page.before} as is_old from ${sql.table(table)}
      where flow = ${flow} and pk >= ${page.from}
      order by pk, id
      limit ${page.limit}
    ), counted as (
      select pk, count(*) as found, bool_or(is_old) as has_old from page group by pk
    )
    select coalesce(sum(found), 0)::bigint as looked, max(pk) as last,
      coalesce(array_agg(pk) filter (where found > ${page.kept} or has_old), '{}') as over
    from counted`
}

/**
 * Forgets what is older than the given time, or beyond the newest of each item; answers how many rows. It walks over the rows in
 * the order of their items, `limit` in each statement (more than are kept of one item), so that none takes long however many items
 * there are. An index by time would find what is old sooner, and cost each new item and each delivery more than all that saves.
 */
export async function trimItemHistory(
  database: Database,
  flow: string,
  before: Date,
  limit = rowsAtOnce,
): Promise<number> {
  let gone = 0
  for (const kind of historyKinds) {
    const { kept } = kind
    let from: string | undefined = ''
    while (from !== undefined) {
      const look = historyRows(kind, flow, { from, before, kept, limit })
      const page = (await inKeyOrder(database, (trx) => look.execute(trx))).rows[0]
      if (page && page.over.length > 0) {
        gone += await trimItems(database.db, kind, flow, page.over, before)
      }
      // The page may end within an item: it is looked at again, and by now has no more than fit into a page.
      from = page?.looked === limit ? (page.last ?? undefined) : undefined
    }
  }
  return gone
}

async function trimItems(
  db: Db,
  { table, time, kept }: HistoryKind,
  flow: string,
  pks: readonly string[],
  before: Date,
): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from ${sql.table(table)} where ctid = any(array(
      select ctid from (
        select ctid, ${sql.ref(time)} < ${before} as is_old,
          row_number() over (partition by pk order by id desc) as rank
        from ${sql.table(table)}
        where flow = ${flow} and pk = any(${pks}::text[])
      ) as ranked
      where rank > ${kept} or is_old))`.execute(db)
  return Number(numAffectedRows ?? 0)
}
