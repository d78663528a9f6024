import { type RawBuilder, sql } from 'kysely'
import type { Database, Db } from '../../db/database.ts'
import type { DeliveryRow, DeliveryTarget } from './deliveries.ts'
import { inKeyOrder } from './key-order.ts'

export type TargetCounts = DeliveryTarget & {
  /** Due now; those that a worker has in hand are among them. */
  waiting: number
  /** Waiting for their time: between two attempts, or since the receiver asked for it. */
  delayed: number
  failed: number
  /** When the oldest row that still waits, delayed or not, became owed. */
  oldestWaitingAt: Date | null
}

type FailedPlace = DeliveryTarget & { pk: string }
/** Times as the database writes them: a `Date` would cut their microseconds off. */
type WaitingPlace = FailedPlace & { dueAt: string; queuedAt: string }

/** What is open of some rows of one target; `last` is the place of the last row that the statement looked at in this state. */
type Part<State, Place> = TargetCounts & { looked: number; state: State; last: Place }
type OpenPart = Part<'waiting', WaitingPlace> | Part<'failed', FailedPlace>

/** Behind what rows to go on; null: all of them were counted. */
type OpenPlaces = { waiting: WaitingPlace | null; failed: FailedPlace | null }

const first = { flow: '', destination: '', dueAt: '-infinity', queuedAt: '-infinity', pk: '' }
export const beforeAllOpen = { waiting: first, failed: first } satisfies OpenPlaces

/** As many rows in each state as one statement looks at: 40 ms of the embedded database, in which it answers nobody else. */
const rowsAtOnce = 10_000

/**
 * Asks for the next rows that wait, as they are due, and for the next that failed, counted: `limit` of each. They are read by
 * indexes that others need too, since one of all that is open took a tenth of the time in which new items are stored. One
 * statement, so that a row which goes from one state to the other meanwhile is counted once, unless there are more.
 */
export function openParts(
  now: Date,
  { after, limit }: { after: OpenPlaces; limit: number },
): RawBuilder<OpenPart> {
  const waiting = after.waiting ?? first
  const failed = after.failed ?? first
  return sql<OpenPart>`
    with waiting as materialized (
      select flow, destination, due_at, queued_at, pk, not_before from deliveries
      where state = 'waiting'
        and (flow, destination, due_at, queued_at, pk) > (${waiting.flow}, ${waiting.destination},
          ${waiting.dueAt}::timestamptz, ${waiting.queuedAt}::timestamptz, ${waiting.pk})
      order by flow, destination, due_at, queued_at, pk
      limit ${after.waiting ? limit : 0}
    ),
    failed as materialized (
      select flow, destination, pk from deliveries
      where state = 'failed'
        and (flow, destination, pk) > (${failed.flow}, ${failed.destination}, ${failed.pk})
      order by flow, destination, pk
      limit ${after.failed ? limit : 0}
    )
    select 'waiting' as state, flow, destination, count(*) as looked,
      count(*) filter (where not_before is null or not_before <= ${now}) as waiting,
      count(*) filter (where not_before > ${now}) as delayed,
      0::bigint as failed, min(queued_at) as "oldestWaitingAt",
      (select to_jsonb(place) from (
        select flow, destination, due_at::text as "dueAt", queued_at::text as "queuedAt", pk
        from waiting
        order by flow desc, destination desc, due_at desc, queued_at desc, pk desc limit 1
      ) as place) as last
    from waiting
    group by flow, destination
    union all
    select 'failed', flow, destination, count(*), 0, 0, count(*), null,
      (select to_jsonb(place) from (
        select flow, destination, pk from failed
        order by flow desc, destination desc, pk desc limit 1
      ) as place)
    from failed
    group by flow, destination`
}

/** Reads only what is not done, however many items there are; in the order of the names. A target that owes nothing is left out. */
export async function countOpenDeliveries(
  database: Database,
  now: Date,
  limit = rowsAtOnce,
): Promise<TargetCounts[]> {
  const targets = new Map<string, TargetCounts>()
  let after: OpenPlaces = beforeAllOpen
  while (after.waiting || after.failed) {
    const page = openParts(now, { after, limit })
    const rows: OpenPart[] = await inKeyOrder(
      database,
      async (trx) => (await page.execute(trx)).rows,
    )
    for (const { state: _, last: __, looked: ___, ...part } of rows) addPart(targets, part)
    const waiting = rows.filter((part) => part.state === 'waiting')
    const failed = rows.filter((part) => part.state === 'failed')
    after = { waiting: nextOf(waiting, limit), failed: nextOf(failed, limit) }
  }
  return [...targets].toSorted(([one], [next]) => (one < next ? -1 : 1)).map(([, counts]) => counts)
}

/** Where the next page begins, if there may be one. */
function nextOf<Place>(parts: readonly Part<unknown, Place>[], limit: number): Place | null {
  const looked = parts.reduce((sum, part) => sum + part.looked, 0)
  return looked === limit ? (parts[0]?.last ?? null) : null
}

/** A target has a part of each state, and more where a page ended within it. */
function addPart(targets: Map<string, TargetCounts>, part: TargetCounts): void {
  const target = JSON.stringify([part.flow, part.destination])
  const known = targets.get(target)
  const oldest = [known?.oldestWaitingAt, part.oldestWaitingAt].filter((at) => at != null)
  targets.set(target, {
    ...part,
    waiting: part.waiting + (known?.waiting ?? 0),
    delayed: part.delayed + (known?.delayed ?? 0),
    failed: part.failed + (known?.failed ?? 0),
    oldestWaitingAt: oldest.toSorted((one, next) => one.getTime() - next.getTime())[0] ?? null,
  })
}

/** Counts what waits for these destinations, delayed or not, but no further than to `most`: cheap at any depth. */
export async function countWaiting(
  db: Db,
  flow: string,
  destinations: readonly string[],
  most: number,
): Promise<number> {
  const { rows } = await sql<{ waiting: number }>`
    select count(*) as waiting from (
      select from deliveries
      where flow = ${flow} and destination = any(${destinations}::text[]) and state = 'waiting'
      limit ${most}
    ) as counted`.execute(db)
  return rows[0]?.waiting ?? 0
}

const openColumns = [
  'pk',
  'kind',
  'state',
  'attempts',
  'last_error',
  'why',
  'last_status',
  'queued_at',
  'not_before',
  'finished_at',
] as const

export type OpenDelivery = Pick<DeliveryRow, (typeof openColumns)[number]>

/** What waits (what is due at once first, the oldest before others) or failed (newest first). */
export async function listOpenDeliveries(
  db: Db,
  { flow, destination }: DeliveryTarget,
  page: { state: 'waiting' | 'failed'; limit: number },
): Promise<OpenDelivery[]> {
  const query = db
    .selectFrom('deliveries')
    .select(openColumns)
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where('state', '=', page.state)
    .limit(page.limit)
  return page.state === 'waiting'
    ? query.orderBy('due_at').orderBy('queued_at').orderBy('pk').execute()
    : query.orderBy('finished_at', 'desc').orderBy('pk').execute()
}

export type ItemDelivery = OpenDelivery &
  Pick<DeliveryRow, 'destination' | 'delivered_hash' | 'delivered_at' | 'skipped'>

/**
 * What is owed of one item to these destinations, or was delivered and is not forgotten yet, one row for each. By their names,
 * because the key begins with them: without, it would read the deliveries of every item.
 */
export async function listItemDeliveries(
  db: Db,
  flow: string,
  destinations: readonly string[],
  pk: string,
): Promise<ItemDelivery[]> {
  return db
    .selectFrom('deliveries')
    .select([...openColumns, 'destination', 'delivered_hash', 'delivered_at', 'skipped'])
    .where('flow', '=', flow)
    .where(sql<boolean>`destination = any(${destinations}::text[])`)
    .where('pk', '=', pk)
    .orderBy('destination')
    .execute()
}

/** What is owed of one item, or was delivered, at any of these destinations; each row by its key. */
export async function listItemEverywhere(
  db: Db,
  targets: readonly DeliveryTarget[],
  pk: string,
): Promise<(DeliveryTarget & Pick<DeliveryRow, 'state' | 'skipped' | 'not_before'>)[]> {
  const { rows } = await sql<
    DeliveryTarget & Pick<DeliveryRow, 'state' | 'skipped' | 'not_before'>
  >`
    select found.flow, found.destination, found.state, found.skipped, found.not_before
    from unnest(${targets.map(({ flow }) => flow)}::text[],
      ${targets.map(({ destination }) => destination)}::text[]) as wanted (flow, destination)
    cross join lateral (
      select flow, destination, state, skipped, not_before from deliveries
      where (flow, destination, pk) = (wanted.flow, wanted.destination, ${pk})
      limit 1
    ) as found`.execute(db)
  return rows
}

/** The destinations of a flow, by name, that are owed something or have failures; it looks at one row of each. */
export async function listOpenDestinations(db: Db, flow: string): Promise<string[]> {
  const firstOf = (state: string, isBehind: RawBuilder<unknown>) => sql`
    (select destination from deliveries
      where flow = ${flow} and state = ${sql.lit(state)} and ${isBehind}
      order by flow, destination limit 1)`
  const next = (isBehind: RawBuilder<unknown>) =>
    sql`least(${firstOf('waiting', isBehind)}, ${firstOf('failed', isBehind)})`
  const { rows } = await sql<{ destination: string }>`
    with recursive found (destination) as (
      select ${next(sql`true`)}
      union all
      select ${next(sql`destination > found.destination`)}
      from found where found.destination is not null
    )
    select destination from found where destination is not null`.execute(db)
  return rows.map(({ destination }) => destination)
}

/** How many items have arrived at a destination and owe it nothing since. */
export async function countDone(db: Db): Promise<number> {
  const { rows } = await sql<{ done: number }>`
    select count(*) as done from deliveries where state = 'done'`.execute(db)
  return rows[0]?.done ?? 0
}
