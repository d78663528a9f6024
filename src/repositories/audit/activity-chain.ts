import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type {
  ActivityArchivesTable,
  ActivityHeadTable,
  ActivitySealsTable,
} from '../../db/tables.ts'
import type { ActivityRow } from './activity-queries.ts'

export type HeadRow = Omit<Selectable<ActivityHeadTable>, 'one'>
export type SealRow = Selectable<ActivitySealsTable>
export type ArchiveRow = Selectable<ActivityArchivesTable>

/** The end of the chain; undefined when its row was removed. */
export async function readHead(db: Db | Trx): Promise<HeadRow | undefined> {
  return headOf(db).executeTakeFirst()
}

/** The same, locked against other sealers until the transaction ends. */
export async function lockHead(trx: Trx): Promise<HeadRow | undefined> {
  return headOf(trx).forUpdate().executeTakeFirst()
}

/** The same, or `undefined` at once while another process seals. */
export async function tryLockHead(trx: Trx): Promise<HeadRow | undefined> {
  return headOf(trx).forUpdate().skipLocked().executeTakeFirst()
}

function headOf(db: Db | Trx) {
  return db.selectFrom('activity_head').select(['seq', 'hash', 'key_id', 'mac'])
}

export async function writeHead(trx: Trx, head: HeadRow): Promise<void> {
  await trx.updateTable('activity_head').set(head).execute()
}

/** What distinguishes a new database from one whose log was emptied. */
export type Traces = {
  /** The last seal; `isCarried`: of an entry from before the seals had a table of their own. */
  lastSeal: { seq: number; hash: string; isCarried: boolean } | undefined
  hasEntries: boolean
  hasClients: boolean
}

export async function readTraces(trx: Trx): Promise<Traces> {
  const seals = await sql<NonNullable<Traces['lastSeal']>>`
    select s.seq, s.hash, exists (
      select from activity_log where activity_log.id = s.entry_id and activity_log.previous_hash is not null
    ) as "isCarried"
    from activity_seals s order by s.seq desc limit 1`.execute(trx)
  const { rows } = await sql<Omit<Traces, 'lastSeal'>>`
    select exists (select from activity_log) as "hasEntries", exists (select from clients) as "hasClients"`.execute(
    trx,
  )
  return { hasEntries: true, hasClients: true, ...rows[0], lastSeal: seals.rows[0] }
}

export async function hasUnsealed(db: Db): Promise<boolean> {
  const row = await db
    .selectFrom('activity_unsealed')
    .select('entry_id')
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Committed entries under these keys that wait for their seal, in the order of writing. */
export async function readUnsealed(
  trx: Trx,
  keyIds: readonly string[],
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
        and activity_seals.seq between 1 and (select seq from activity_head))`.as('isSealed'),
      )
      .where('activity_log.key_id', 'in', [...keyIds])
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

/** A seal and its entry; null when the entry is gone. */
export type SealedEntry = { seal: SealRow; entry: ActivityRow | null }

/** Seals after a place, in the order of the chain. There are more rows than seals when a seal names several entries. */
export async function readSealed(
  db: Db,
  after: { seq: number; hash: string } | undefined,
  limit: number,
): Promise<SealedEntry[]> {
  const from = after && sql`where (seq, hash) > (${after.seq}, ${after.hash})`
  const { rows } = await sql<
    { place: number; entry_id: string; link: string; seal: string } & NullableFields<ActivityRow>
  >`
    select s.seq as place, s.entry_id, s.previous_hash as link, s.hash as seal, activity_log.*
    from (select * from activity_seals ${from ?? sql``} order by seq, hash limit ${limit}) s
    left join activity_log on activity_log.id = s.entry_id
    order by s.seq, s.hash`.execute(db)
  return rows.map(({ place, entry_id, link, seal, ...entry }) => ({
    seal: { seq: place, entry_id, previous_hash: link, hash: seal },
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
 * seals beyond the head count as none. `last` is where to continue; undefined at the end of the log.
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
  const inChain = isHeadAuthentic ? sql`between 1 and (select seq from activity_head)` : sql`>= 1`
  // One statement sees an entry either in the list of those that wait or with its seal, whatever is committed
  // meanwhile.
  const { rows } = await sql<UnsealedEntry>`
    select activity_log.*, activity_unsealed.entry_id is not null as "isWaiting"
    from activity_log left join activity_unsealed on activity_unsealed.entry_id = activity_log.id
    where ${start} and activity_log.seq <= ${last} and not exists (
      select from activity_seals where activity_seals.entry_id = activity_log.id and activity_seals.seq ${inChain}
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

/** The archive that holds the next entries after a place, if any does. */
export async function findArchiveAfter(db: Db, seq: number): Promise<ArchiveRow | undefined> {
  return db
    .selectFrom('activity_archives')
    .selectAll()
    .where('last_seq', '>', seq)
    .orderBy('last_seq')
    .limit(1)
    .executeTakeFirst()
}

/** The archive with the newest entries. */
export async function readLastArchive(db: Db): Promise<ArchiveRow | undefined> {
  return db
    .selectFrom('activity_archives')
    .selectAll()
    .orderBy('last_seq', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/**
 * Notes an archive and deletes what it holds.
 * @throws Error when the log does not hold exactly these entries, each with one seal.
 */
export async function moveToArchive(trx: Trx, archive: ArchiveRow): Promise<void> {
  const { first_seq: first, last_seq: last } = archive
  await trx.insertInto('activity_archives').values(archive).execute()
  const entries = await sql`delete from activity_log where id in (
    select entry_id from activity_seals where seq between ${first} and ${last})`.execute(trx)
  const seals =
    await sql`delete from activity_seals where seq between ${first} and ${last}`.execute(trx)
  const expected = BigInt(last - first + 1)
  if (entries.numAffectedRows === expected && seals.numAffectedRows === expected) return
  throw new Error(`the audit log does not hold one entry for each place from ${first} to ${last}`)
}
