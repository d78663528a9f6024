import { type RawBuilder, sql } from 'kysely'
import type { Db, Trx } from '../db/database.ts'

/** The stored hashes of these items; an item that was never seen is absent. */
export async function findHashes(
  db: Db | Trx,
  flow: string,
  pks: readonly string[],
): Promise<Map<string, string>> {
  if (pks.length === 0) return new Map()
  const rows = await db
    .selectFrom('flow_items')
    .select(['pk', 'hash'])
    .where('flow', '=', flow)
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
    .executeTakeFirst()
  return row && { hash: row.hash, changedAt: row.changed_at }
}

/**
 * Of these items, the keys that somebody else has written since `since`, locked until the transaction ends: what we read
 * before that may be older than what he stored.
 */
export async function lockItemsChangedSince(
  trx: Trx,
  flow: string,
  pks: readonly string[],
  since: Date,
): Promise<Set<string>> {
  if (pks.length === 0) return new Set()
  const rows = await trx
    .selectFrom('flow_items')
    .select(['pk', 'changed_at'])
    .where('flow', '=', flow)
    .where('pk', 'in', [...pks])
    .orderBy('pk')
    .forUpdate()
    .execute()
  return new Set(rows.filter((row) => row.changed_at > since).map((row) => row.pk))
}

/** Stores the hashes, in the order of their keys so that two writers never wait for each other crosswise. */
export async function upsertHashes(
  trx: Trx,
  flow: string,
  items: readonly { pk: string; hash: string }[],
  now: Date,
): Promise<void> {
  if (items.length === 0) return
  const rows = items
    .map(({ pk, hash }) => ({ flow, pk, hash, changed_at: now }))
    .sort((a, b) => (a.pk < b.pk ? -1 : 1))
  await trx
    .insertInto('flow_items')
    .values(rows)
    .onConflict((conflict) =>
      conflict.columns(['flow', 'pk']).doUpdateSet((eb) => ({
        hash: eb.ref('excluded.hash'),
        changed_at: eb.ref('excluded.changed_at'),
      })),
    )
    .execute()
}

export async function deleteHash(trx: Trx, flow: string, pk: string): Promise<boolean> {
  const result = await trx
    .deleteFrom('flow_items')
    .where('flow', '=', flow)
    .where('pk', '=', pk)
    .executeTakeFirst()
  return result.numDeletedRows === 1n
}

export async function deleteHashes(trx: Trx, flow: string, pks: readonly string[]): Promise<void> {
  if (pks.length === 0) return
  await trx
    .deleteFrom('flow_items')
    .where('flow', '=', flow)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .execute()
}

export async function countItems(db: Db | Trx, flow: string): Promise<number> {
  const row = await db
    .selectFrom('flow_items')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('flow', '=', flow)
    .executeTakeFirstOrThrow()
  return row.count
}

/** How many items each flow has; one without any is absent. It reads all of them: a million take a second or two. */
export async function countItemsByFlow(db: Db): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('flow_items')
    .select((eb) => ['flow', eb.fn.countAll<number>().as('count')])
    .groupBy('flow')
    .execute()
  return new Map(rows.map((row) => [row.flow, row.count]))
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
