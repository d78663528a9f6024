import { type RawBuilder, sql } from 'kysely'
import type { Database, Db } from '../../db/database.ts'
import type { DeliveryRow } from './deliveries.ts'
import { isStillThere } from './delivery-rates.ts'
import type { DeliveryTarget } from './delivery-target.ts'
import { inKeyOrder } from './key-order.ts'

export type TargetCounts = DeliveryTarget & {
  /** Due now, including those that a worker is sending. */
  waiting: number
  /** Waiting for a later time: between two attempts, or because the receiver asked for it. */
  delayed: number
  failed: number
  /** When the oldest row that still waits, delayed or not, was queued. */
  oldestWaitingAt: Date | null
}

type FailedPlace = DeliveryTarget & { pk: string }
/** Times in the database's text form, because a `Date` would cut off their microseconds. */
type WaitingPlace = FailedPlace & { dueAt: string; queuedAt: string }

/** Open rows of one target. `last` is the place of the last row that the statement read in this state. */
type Part<State, Place> = TargetCounts & { scanned: number; state: State; last: Place }
type OpenPart = Part<'waiting', WaitingPlace> | Part<'failed', FailedPlace>

/** The rows after which the next statement continues; null when all of them were counted. */
type OpenPlaces = { waiting: WaitingPlace | null; failed: FailedPlace | null }

const first = { flow: '', destination: '', dueAt: '-infinity', queuedAt: '-infinity', pk: '' }
export const beforeAllOpen = { waiting: first, failed: first } satisfies OpenPlaces

/**
 * Rows in each state per statement. It takes 40 ms on the embedded database, which answers no other request
 * meanwhile.
 */
const rowsAtOnce = 10_000

/**
 * Reads and counts the next `limit` waiting rows by due time, and the next `limit` failed rows. They use indexes that
 * exist anyway: an index of all open rows made storing new items 10% slower. One statement, so that a row that
 * changes state meanwhile is counted once.
 */
export function openParts(
  now: Date,
  { after, limit }: { after: OpenPlaces; limit: number },
): RawBuilder<OpenPart> {
  const waiting = after.waiting ?? first
  const failed = after.failed ?? first
  return sql<OpenPart>`
    with waiting as materialized (
      select flow, destination, due_at, queued_at, pk, not_before, why from deliveries
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
    select 'waiting' as state, flow, destination, count(*) as scanned,
      count(*) filter (where not_before is null or not_before <= ${now}) as waiting,
      count(*) filter (where not_before > ${now}) as delayed,
      -- A delete that waits for another flow is not late.
      0::bigint as failed, min(queued_at) filter (where why->>'code' is distinct from 'DELETE_WAITS') as "oldestWaitingAt",
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

/**
 * Reads only rows that are not done, however many items there are, in the order of the names. A target without open
 * deliveries is left out.
 */
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
    for (const { state: _, last: __, scanned: ___, ...part } of rows) addPart(targets, part)
    const waiting = rows.filter((part) => part.state === 'waiting')
    const failed = rows.filter((part) => part.state === 'failed')
    after = { waiting: nextOf(waiting, limit), failed: nextOf(failed, limit) }
  }
  return [...targets].toSorted(([one], [next]) => (one < next ? -1 : 1)).map(([, counts]) => counts)
}

/** Where the next page begins, if one may exist. */
function nextOf<Place>(parts: readonly Part<unknown, Place>[], limit: number): Place | null {
  const scanned = parts.reduce((sum, part) => sum + part.scanned, 0)
  return scanned === limit ? (parts[0]?.last ?? null) : null
}

/** A target has a part for each state, and more where a page ended within it. */
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

type OpenDelivery = Pick<DeliveryRow, (typeof openColumns)[number]>

/** Waiting deliveries (due ones first, then the oldest) or failed ones (newest first). */
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
  Pick<DeliveryRow, 'destination' | 'delivered_hash' | 'delivered_at' | 'skipped'> & {
    still_there: boolean
  }

/**
 * The deliveries of one item at these destinations, waiting or done, one row for each. The names are needed because
 * the key begins with the destination: without them it reads the deliveries of every item.
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
    .select(isStillThere.as('still_there'))
    .where('flow', '=', flow)
    .where(sql<boolean>`destination = any(${destinations}::text[])`)
    .where('pk', '=', pk)
    .orderBy('destination')
    .execute()
}

/** The deliveries of one item at any of these destinations, each row found by its key. */
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

/** The destinations of a flow with waiting or failed deliveries, by name. It reads one row of each. */
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

/** How many items have arrived at a destination and have no newer delivery waiting. */
export async function countDone(db: Db): Promise<number> {
  const { rows } = await sql<{ done: number }>`
    select count(*) as done from deliveries where state = 'done'`.execute(db)
  return rows[0]?.done ?? 0
}
