import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../db/database.ts'
import type { DeliveryRow, DeliveryTarget } from './deliveries.ts'

export type TargetCounts = DeliveryTarget & {
  /** Due now; those that a worker has in hand are among them. */
  waiting: number
  /** Waiting for their time: between two attempts, or since the receiver asked for it. */
  delayed: number
  failed: number
  /** When the oldest row that still waits, delayed or not, became owed. */
  oldestWaitingAt: Date | null
}

/** What is open of some rows of one target; `lastPk` is the last of these rows. */
type OpenPart = TargetCounts & { lastPk: string; looked: number }

type Place = DeliveryTarget & { pk: string }

export const beforeAllOpen: Place = { flow: '', destination: '', pk: '' }

/** As many rows as one statement looks at: 40 ms of the embedded database, in which it answers nobody else. */
const rowsAtOnce = 20_000

/** Asks for the next rows after a place that are not done, counted. */
export function openParts(now: Date, page: { after: Place; limit: number }): RawBuilder<OpenPart> {
  const { after } = page
  return sql<OpenPart>`
    with page as materialized (
      select flow, destination, pk, state, not_before, queued_at from deliveries
      where state <> 'done'
        and (flow, destination, pk) > (${after.flow}, ${after.destination}, ${after.pk})
      order by flow, destination, pk
      limit ${page.limit}
    )
    select flow, destination, max(pk) as "lastPk", count(*) as looked,
      count(*) filter (where state = 'waiting' and (not_before is null or not_before <= ${now}))
        as waiting,
      count(*) filter (where state = 'waiting' and not_before > ${now}) as delayed,
      count(*) filter (where state = 'failed') as failed,
      min(queued_at) filter (where state = 'waiting') as "oldestWaitingAt"
    from page
    group by flow, destination
    order by flow, destination`
}

/**
 * Reads only what is not done, however many items there are, `limit` in each statement. A target that owes nothing is left
 * out.
 */
export async function countOpenDeliveries(
  db: Db,
  now: Date,
  limit = rowsAtOnce,
): Promise<TargetCounts[]> {
  const targets: TargetCounts[] = []
  let after: Place | undefined = beforeAllOpen
  while (after) {
    const { rows }: { rows: OpenPart[] } = await openParts(now, { after, limit }).execute(db)
    for (const { lastPk: _, looked: __, ...part } of rows) addPart(targets, part)
    const looked = rows.reduce((sum, part) => sum + part.looked, 0)
    const last: OpenPart | undefined = rows.at(-1)
    after =
      last && looked === limit
        ? { flow: last.flow, destination: last.destination, pk: last.lastPk }
        : undefined
  }
  return targets
}

/** A page may end within a target, which the next then begins with. */
function addPart(targets: TargetCounts[], part: TargetCounts): void {
  const known = targets.at(-1)
  if (known?.flow !== part.flow || known.destination !== part.destination) {
    targets.push(part)
    return
  }
  known.waiting += part.waiting
  known.delayed += part.delayed
  known.failed += part.failed
  const { oldestWaitingAt } = part
  if (
    known.oldestWaitingAt === null ||
    (oldestWaitingAt && oldestWaitingAt < known.oldestWaitingAt)
  )
    known.oldestWaitingAt = oldestWaitingAt
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
  const { rows } = await sql<{ destination: string }>`
    with recursive found (destination) as (
      (select destination from deliveries
        where flow = ${flow} and state <> 'done' order by flow, destination limit 1)
      union all
      select (select destination from deliveries
        where flow = ${flow} and state <> 'done' and destination > found.destination
        order by flow, destination limit 1)
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
