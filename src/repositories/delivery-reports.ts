import { sql } from 'kysely'
import type { Db, Trx } from '../db/database.ts'
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

/** Reads only what is not done, however many items there are. A target that owes nothing is left out. */
export async function countOpenDeliveries(db: Db, now: Date): Promise<TargetCounts[]> {
  const { rows } = await sql<TargetCounts>`
    select flow, destination,
      count(*) filter (where state = 'waiting' and (not_before is null or not_before <= ${now}))
        as waiting,
      count(*) filter (where state = 'waiting' and not_before > ${now}) as delayed,
      count(*) filter (where state = 'failed') as failed,
      min(queued_at) filter (where state = 'waiting') as "oldestWaitingAt"
    from deliveries where state <> 'done'
    group by flow, destination
    order by flow, destination`.execute(db)
  return rows
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

/** What waits (oldest first) or failed (newest first). */
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
    ? query.orderBy('queued_at').orderBy('pk').execute()
    : query.orderBy('finished_at', 'desc').orderBy('pk').execute()
}

export type FailureGroup = {
  destination: string
  error: string
  status: number | null
  items: number
  lastAt: Date
  /** The first `samplePks` of its items. */
  pks: string[]
}

const samplePks = 20

/** The failed deliveries of a flow by what went wrong, most items first. */
export async function groupFailures(db: Db, flow: string, limit: number): Promise<FailureGroup[]> {
  const { rows } = await sql<FailureGroup>`
    select destination, coalesce(last_error, '') as error, last_status as status,
      count(*) as items, max(finished_at) as "lastAt",
      (array_agg(pk order by pk))[1:${sql.lit(samplePks)}] as pks
    from deliveries where flow = ${flow} and state = 'failed'
    group by 1, 2, 3
    order by items desc, "lastAt" desc
    limit ${limit}`.execute(db)
  return rows
}

export type ItemDelivery = OpenDelivery &
  Pick<DeliveryRow, 'destination' | 'delivered_hash' | 'delivered_at'>

/** What is owed of one item, or was delivered and is not forgotten yet, one row for each destination. */
export async function listItemDeliveries(
  db: Db,
  flow: string,
  pk: string,
): Promise<ItemDelivery[]> {
  return db
    .selectFrom('deliveries')
    .select([...openColumns, 'destination', 'delivered_hash', 'delivered_at'])
    .where('flow', '=', flow)
    .where('pk', '=', pk)
    .orderBy('destination')
    .execute()
}

export type FailedFilter = {
  flow: string
  destination?: string | undefined
  pk?: string | undefined
  /** The words of one group of failures, exactly. */
  error?: string | undefined
}

/**
 * Makes failed deliveries owed again, with all their attempts. Answers whom to wake; fewer than
 * `limit` means that none is left.
 */
export async function reviveFailed(
  trx: Trx,
  filter: FailedFilter,
  options: { at: Date; limit: number },
): Promise<{ destination: string; pk: string }[]> {
  const { destination, pk, error } = filter
  const { rows } = await sql<{ destination: string; pk: string }>`
    with chosen as (
      select destination, pk from deliveries
      where flow = ${filter.flow} and state = 'failed'
        ${destination === undefined ? sql`` : sql`and destination = ${destination}`}
        ${pk === undefined ? sql`` : sql`and pk = ${pk}`}
        ${error === undefined ? sql`` : sql`and last_error = ${error}`}
      order by destination, pk
      limit ${options.limit}
      for update
    )
    update deliveries set
      state = 'waiting', version = version + 1, attempts = 0, queued_at = ${options.at},
      last_error = null, last_status = null, not_before = null, finished_at = null
    from chosen
    where deliveries.flow = ${filter.flow}
      and deliveries.destination = chosen.destination and deliveries.pk = chosen.pk
    returning deliveries.destination, deliveries.pk`.execute(trx)
  return rows
}

/**
 * Forgets rows that were finished before the given times, but no delivered one whose item is still known: its
 * `delivered_hash` is what tells that the destination has what the source showed last. An item without a row is not known
 * to be in step: it never was sent there, or its failure is older than failures are kept. Answers how many; call again
 * while it is `limit`.
 */
export async function deleteFinished(
  db: Db,
  flow: string,
  options: { doneBefore: Date; failedBefore: Date; limit: number },
): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from deliveries where (flow, destination, pk) in (
      select flow, destination, pk from deliveries
      where flow = ${flow} and (
        (state = 'done' and finished_at < ${options.doneBefore} and not exists (
          select from flow_items
          where flow_items.flow = deliveries.flow and flow_items.pk = deliveries.pk))
        or (state = 'failed' and finished_at < ${options.failedBefore}))
      limit ${options.limit}
      for update skip locked
    )`.execute(db)
  return Number(numAffectedRows ?? 0)
}

/** How many items have arrived at a destination and owe it nothing since. */
export async function countDone(db: Db): Promise<number> {
  const { rows } = await sql<{ done: number }>`
    select count(*) as done from deliveries where state = 'done'`.execute(db)
  return rows[0]?.done ?? 0
}
