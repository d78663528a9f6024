import { sql } from 'kysely'
import type { StoredQuestion } from '../../db/column-types.ts'
import type { Db, Trx } from '../../db/database.ts'
import { noBody } from './deliveries.ts'

/** An item that full scans missed: `scans` in a row that count, first missed by the read number `since`. */
export type MissedItem = { pk: string; scans: number; since: number }

/**
 * Counts that full scan number `read` missed these items, up to `most`. The limit avoids a write per scan while
 * deletes wait for weeks. A scan that does not count only sets `since`. Locks the rows, and leaves out items that a
 * later read found.
 */
export async function countMissed(
  trx: Trx,
  flow: string,
  pks: readonly string[],
  { read, most, counts }: { read: number; most: number; counts: boolean },
): Promise<MissedItem[]> {
  const step = sql.lit(counts ? 1 : 0)
  const { rows } = await sql<MissedItem>`
    with missed as materialized (
      select pk, missed_scans, missed_since from flow_items
      where flow = ${flow} and pk = any(${pks}::text[]) and read_number <= ${read}
      order by pk
      for update
    ), counted as (
      update flow_items as item
      set missed_scans = missed.missed_scans + ${step},
        missed_since = coalesce(missed.missed_since, ${read})
      from missed
      where item.flow = ${flow} and item.pk = missed.pk
        and (missed.missed_since is null or (${sql.lit(counts)} and missed.missed_scans < ${most}))
    )
    select pk, least(missed_scans + ${step}, ${most}) as scans, coalesce(missed_since, ${read}) as since
    from missed`.execute(trx)
  return rows
}

/** Those of these items that no later read than this one found. */
export async function listReadBefore(
  db: Db,
  flow: string,
  pks: readonly string[],
  read: number,
): Promise<string[]> {
  const { rows } = await sql<{ pk: string }>`
    select pk from flow_items
    where flow = ${flow} and pk = any(${pks}::text[]) and read_number <= ${read}`.execute(db)
  return rows.map(({ pk }) => pk)
}

/** The items of a flow that its last full scan missed, after a key, in key order. */
export async function listMissed(
  db: Db,
  flow: string,
  after: string | undefined,
  limit: number,
): Promise<string[]> {
  const { rows } = await sql<{ pk: string }>`
    select pk from flow_items
    where flow = ${flow} and missed_since is not null ${after === undefined ? sql`` : sql`and pk > ${after}`}
    order by flow, pk
    limit ${limit}`.execute(db)
  return rows.map(({ pk }) => pk)
}

/**
 * The missing items that the answer to this question concerns, as far as they still are missing: the first in key order, locked.
 */
export async function listMissedSince(
  trx: Trx,
  flow: string,
  { number = 0, pks }: Pick<StoredQuestion, 'number' | 'pks'>,
  limit: number,
): Promise<string[]> {
  const concerned = pks
    ? sql`pk = any(${pks}::text[]) and missed_since is not null`
    : sql`missed_since <= ${number}`
  const { rows } = await sql<{ pk: string }>`
    select pk from flow_items
    where flow = ${flow} and ${concerned}
    order by pk limit ${limit}
    for update`.execute(trx)
  return rows.map(({ pk }) => pk)
}

/** How many were missing in this read or before, and still are. */
export async function countMissedSince(db: Db, flow: string, read: number): Promise<number> {
  const { rows } = await sql<{ missed: number }>`
    select count(*) as missed from flow_items
    where flow = ${flow} and missed_since <= ${read}`.execute(db)
  return rows[0]?.missed ?? 0
}

/** How often full scans missed these items. An item that none missed is absent. */
export async function findMissed(
  db: Db,
  flow: string,
  pks: readonly string[],
): Promise<MissedItem[]> {
  const { rows } = await sql<MissedItem>`
    select pk, missed_scans as scans, missed_since as since from flow_items
    where flow = ${flow} and pk = any(${pks}::text[]) and missed_since is not null`.execute(db)
  return rows
}

/** The source has these items again. */
export async function forgetMissed(db: Db, flow: string, pks: readonly string[]): Promise<void> {
  await sql`
    update flow_items set missed_scans = 0, missed_since = null
    where flow = ${flow} and pk = any(${pks}::text[])`.execute(db)
}

/** What is sent of these items next is sent even if a destination was sent the same before. */
export async function forgetDigests(
  trx: Trx,
  flow: string,
  destinations: readonly string[],
  pks: readonly string[],
): Promise<void> {
  for (const destination of destinations.toSorted()) {
    await sql`
      with locked as materialized (
        select ctid as place from deliveries
        where flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])
        order by pk
        for update
      )
      update deliveries set delivered_digest = ${sql.lit(noBody)}
      where ctid = any (array(select place from locked))`.execute(trx)
  }
}
