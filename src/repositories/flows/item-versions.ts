import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Database, Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import { atOnce, type Step } from '../../db/steps.ts'
import type { ItemAttemptsTable, ItemVersionsTable } from '../../db/tables.ts'
import { type Reason, sentenceOf } from '../../texts/reason.ts'
import type { DeliveryTarget, OutcomeTarget } from './delivery-target.ts'
import { inKeyOrder } from './key-order.ts'

/**
 * Versions per item. Housekeeping deletes older ones, so that an item that changes all day does not fill the disk.
 */
export const versionsKept = 20
export const attemptsKept = 100
/** Larger content (bytes of JSON) is not kept: images in items would fill the disk. */
const contentBytesKept = 65_536
/** Content of this stored size is below the limit for sure. Measuring it exactly would cost as much as storing it. */
const contentBytesSurelyKept = contentBytesKept / 8

/** Rows per statement. It takes 20 ms on the embedded database, which answers no other request meanwhile. */
const rowsAtOnce = 5_000

/**
 * The part of a statement that stores the content of the items of `found`. Content equal to the newest version adds
 * none, as after a reset. Each key looks up its own newest row: a scan downwards from the key would also read rows
 * that this or a parallel statement wrote.
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

/** Like keepVersions, for items without history. */
export function keepFirstVersions(flow: string, at: Date): RawBuilder<unknown> {
  return sql`
    insert into item_versions (flow, pk, seen_at, kind, hash, payload)
    select ${flow}, found.pk, ${at}, found.kind, found.hash,
      case when pg_column_size(found.payload) <= ${sql.lit(contentBytesSurelyKept)}
        or octet_length(found.payload::text) <= ${contentBytesKept} then found.payload end
    from found`
}

/**
 * What the row of a delivered item keeps as its `payload`: the content that neither the source nor the history has. A late
 * request of an earlier version may overwrite it at the destination; then it is sent again.
 */
export function contentOfDone({
  isReadOnce,
  keepsHistory,
}: Pick<OutcomeTarget, 'isReadOnce' | 'keepsHistory'>): RawBuilder<unknown> {
  if (!isReadOnce) return sql`null::jsonb`
  if (!keepsHistory) return sql`payload`
  // Its stored size may be the compressed one.
  return sql`case when octet_length(payload::text) > ${sql.lit(contentBytesKept)} then payload end`
}

export type NewItemAttempt = Pick<
  Selectable<ItemAttemptsTable>,
  'pk' | 'kind' | 'hash' | 'attempt' | 'outcome' | 'status'
> & { why: Reason | null }

/**
 * The statement that records attempts. A caller that writes something else too can combine both in one round trip.
 */
export function insertItemAttempts(
  { flow, destination }: DeliveryTarget,
  attempts: readonly NewItemAttempt[],
  at: Date,
): RawBuilder<object> {
  const entries = attempts.map((one) => ({ ...one, reason: one.why && sentenceOf(one.why, 'en') }))
  return sql<object>`
    insert into item_attempts
      (flow, destination, at, pk, kind, hash, attempt, outcome, status, reason, why)
    select ${flow}, ${destination}, ${at}::timestamptz, one.*
    from jsonb_to_recordset(${json(entries)}::jsonb) as one
      (pk text, kind text, hash text, attempt integer, outcome text, status integer, reason text, why jsonb)`
}

export type ItemVersionRow = Selectable<ItemVersionsTable>
export type ItemAttemptRow = Selectable<ItemAttemptsTable>

/** The kept history of one item, newest first. */
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

/** The content of an item at this change; undefined if it is not on record or was too large to keep. */
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

type HistoryKind = (typeof historyKinds)[number]

/** How much history is kept: the newest `kept` rows of an item, and none older than `before`. */
type Keeping = { before: Date; kept: number }

/** A page of rows: their number, the last item, and the items with rows beyond the limits. */
type HistoryRows = { scanned: number; last: string | null; over: string[] }

/**
 * Reads the next rows from an item on, by the key of the table. The last item may have more rows. Run it through
 * inKeyOrder.
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
    select coalesce(sum(found), 0)::bigint as scanned, max(pk) as last,
      coalesce(array_agg(pk) filter (where found > ${page.kept} or has_old), '{}') as over
    from counted`
}

/**
 * Deletes history that is older than `before` or beyond the newest rows of each item. Returns how many rows. It walks
 * in item order, `limit` rows per statement (more than one item keeps), so no statement takes long. An index by time
 * would slow down each new item and delivery more than it saves.
 */
export async function trimItemHistory(
  database: Database,
  flow: string,
  before: Date,
  { limit = rowsAtOnce, step = atOnce }: { limit?: number; step?: Step } = {},
): Promise<number> {
  let deleted = 0
  for (const kind of historyKinds) {
    const { kept } = kind
    let from: string | undefined = ''
    while (from !== undefined) {
      const look = historyRows(kind, flow, { from, before, kept, limit })
      const { rows } = await step(() => inKeyOrder(database, (trx) => look.execute(trx)))
      const page = rows[0]
      if (page && page.over.length > 0) {
        deleted += await step(() => trimItems(database.db, kind, flow, page.over, before))
      }
      // The page may end within an item. That item is read again; by now its rows fit into one page.
      from = page?.scanned === limit ? (page.last ?? undefined) : undefined
    }
  }
  return deleted
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

/** The latest content of these items, by key. Items without kept content are absent. */
export async function findContents(
  db: Db,
  flow: string,
  pks: readonly string[],
): Promise<Map<string, Record<string, unknown>>> {
  const rows = await db
    .selectFrom('item_versions')
    .select(['pk', 'payload'])
    .distinctOn('pk')
    .where('flow', '=', flow)
    .where('pk', 'in', [...pks, ''])
    .where('payload', 'is not', null)
    .orderBy('pk')
    .orderBy('id', 'desc')
    .execute()
  return new Map(rows.flatMap(({ pk, payload }) => (payload ? [[pk, payload]] : [])))
}
