import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { ActivityHeadTable, ActivitySealsTable } from '../../db/tables.ts'
import { type ActivityRow, isInChain } from './activity-queries.ts'

export type HeadRow = Omit<Selectable<ActivityHeadTable>, 'one'>
export type SealRow = Selectable<ActivitySealsTable>

/** Start and end of the chain; undefined when the row was removed. */
export async function readHead(db: Db | Trx): Promise<HeadRow | undefined> {
  return headOf(db).executeTakeFirst()
}

/** The same, locked against other processes that change the chain until the transaction ends. */
export async function lockHead(trx: Trx): Promise<HeadRow | undefined> {
  return headOf(trx).forUpdate().executeTakeFirst()
}

/** The same, or `undefined` at once while another process changes the chain. */
export async function tryLockHead(trx: Trx): Promise<HeadRow | undefined> {
  return headOf(trx).forUpdate().skipLocked().executeTakeFirst()
}

function headOf(db: Db | Trx) {
  return db
    .selectFrom('activity_head')
    .select(['start_seq', 'start_hash', 'lost_seq', 'seq', 'hash', 'mac'])
}

export async function writeHead(trx: Trx, head: HeadRow): Promise<void> {
  await trx.updateTable('activity_head').set(head).execute()
}

/** Whether nothing shows that this database was used before: it distinguishes a new log from an emptied one. */
export async function isNewLog(trx: Trx): Promise<boolean> {
  const { rows } = await sql<{ isNew: boolean }>`
    select not exists (select from activity_log) and not exists (select from activity_seals)
      and not exists (select from clients) and (select seq = 0 and start_seq = 0 from activity_head) as "isNew"`.execute(
    trx,
  )
  return rows[0]?.isNew === true
}

export async function hasUnsealed(db: Db): Promise<boolean> {
  const row = await db
    .selectFrom('activity_unsealed')
    .select('entry_id')
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Committed entries that wait for their seal, in the order of writing. */
export async function readUnsealed(
  trx: Trx,
  limit: number,
): Promise<(ActivityRow & { isSealed: boolean })[]> {
  return (
    trx
      .selectFrom('activity_unsealed')
      .innerJoin('activity_log', 'activity_log.id', 'activity_unsealed.entry_id')
      .selectAll('activity_log')
      // A list row that was inserted again must not give the entry a second place.
      .select(
        sql<boolean>`exists (select from activity_seals where activity_seals.entry_id = activity_log.id
        and ${isInChain})`.as('isSealed'),
      )
      .orderBy('activity_log.seq')
      .limit(limit)
      .execute()
  )
}

export async function insertSeals(trx: Trx, seals: readonly SealRow[]): Promise<void> {
  await trx
    .insertInto('activity_seals')
    .values([...seals])
    .execute()
}

export async function deleteUnsealed(trx: Trx, entryIds: readonly string[]): Promise<void> {
  await trx
    .deleteFrom('activity_unsealed')
    .where('entry_id', 'in', [...entryIds])
    .execute()
}

/** Deletes seals beyond the end of the chain, which the service has not written. Returns the ids of their entries. */
export async function deleteSealsBeyond(trx: Trx, seq: number): Promise<string[]> {
  const rows = await trx
    .deleteFrom('activity_seals')
    .where('seq', '>', seq)
    .returning('entry_id')
    .execute()
  return rows.map(({ entry_id }) => entry_id)
}

/** A seal and its entry; null when the entry is gone. */
export type SealedEntry = { seal: SealRow; entry: ActivityRow | null }

/** Seals after a place, the first ones without it, in the order of the chain. */
export async function readSealed(
  db: Db,
  after: number | undefined,
  limit: number,
): Promise<SealedEntry[]> {
  const from = after === undefined ? sql`` : sql`where seq > ${after}`
  const { rows } = await sql<
    { place: number; entry_id: string; seal: string } & NullableFields<ActivityRow>
  >`
    select s.seq as place, s.entry_id, s.hash as seal, activity_log.*
    from (select * from activity_seals ${from} order by seq limit ${limit}) s
    left join activity_log on activity_log.id = s.entry_id
    order by s.seq`.execute(db)
  return rows.map(({ place, entry_id, seal, ...entry }) => ({
    seal: { seq: place, entry_id, hash: seal },
    entry: entry.id === null ? null : (entry as ActivityRow),
  }))
}

type NullableFields<T> = { [K in keyof T]: T[K] | null }

/** Seals after the current end of the chain: rows that the service has not written. */
export async function readBeyondHead(db: Db, limit: number): Promise<SealRow[]> {
  return db
    .selectFrom('activity_seals')
    .innerJoin('activity_head', (join) =>
      join.onRef('activity_seals.seq', '>', 'activity_head.seq'),
    )
    .selectAll('activity_seals')
    .orderBy('activity_seals.seq')
    .limit(limit)
    .execute()
}

type UnsealedEntry = ActivityRow & { isWaiting: boolean }

/**
 * Reads `limit` entries in the order of writing, and returns those without a place in the chain. `isHeadAuthentic`:
 * a place before its start or beyond its end is none. `last` is where to continue; undefined at the end of the log.
 */
export async function readUnchained(
  db: Db,
  { after, limit, isHeadAuthentic }: { after?: number; limit: number; isHeadAuthentic: boolean },
): Promise<{ last: number | undefined; entries: UnsealedEntry[] }> {
  const start = after === undefined ? sql`true` : sql`seq > ${after}`
  const page = await sql<{ last: number | null }>`
    select max(seq) as last from (select seq from activity_log where ${start} order by seq limit ${limit}) page`.execute(
    db,
  )
  const last = page.rows[0]?.last ?? undefined
  if (last === undefined) return { last, entries: [] }
  // One statement sees an entry either in the list of those that wait or with its seal, whatever is committed
  // meanwhile.
  const { rows } = await sql<UnsealedEntry>`
    select activity_log.*, activity_unsealed.entry_id is not null as "isWaiting"
    from activity_log left join activity_unsealed on activity_unsealed.entry_id = activity_log.id
    where ${start} and activity_log.seq <= ${last} and not exists (
      select from activity_seals where activity_seals.entry_id = activity_log.id
        and ${isHeadAuthentic ? isInChain : sql`true`}
    )
    order by activity_log.seq limit ${limit}`.execute(db)
  return { last, entries: rows }
}

/** Ids of entries that wait for their seal and are gone. */
export async function readLostUnsealed(db: Db, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('activity_unsealed')
    .leftJoin('activity_log', 'activity_log.id', 'activity_unsealed.entry_id')
    .select('activity_unsealed.entry_id')
    .where('activity_log.id', 'is', null)
    .limit(limit)
    .execute()
  return rows.map(({ entry_id }) => entry_id)
}

/**
 * Deletes the entries with a place up to the start of the chain, and their seals. Returns how many entries there were.
 */
export async function deleteBeforeStart(trx: Trx): Promise<number> {
  const old = sql`seq between 1 and (select start_seq from activity_head)`
  const { numAffectedRows } = await sql`
    delete from activity_log where id in (select entry_id from activity_seals where ${old})`.execute(
    trx,
  )
  await sql`delete from activity_seals where ${old}`.execute(trx)
  return Number(numAffectedRows)
}
