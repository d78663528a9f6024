import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { StoredReason } from '../../texts/reason.ts'
import type { DeliveryTarget } from './delivery-target.ts'

/**
 * Makes up to `limit` deliveries due that wait for a time after `at`, the first ones by key. Rows are locked in key
 * order. Returns their keys.
 */
export async function endPauses(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  { at, limit }: { at: Date; limit: number },
): Promise<string[]> {
  const { rows } = await sql<{ pk: string }>`
    select pk from deliveries
    where flow = ${flow} and destination = ${destination} and state = 'waiting' and not_before > ${at}
    order by pk
    limit ${limit}
    for update`.execute(trx)
  const pks = rows.map(({ pk }) => pk)
  await sql`
    update deliveries set not_before = null, due_at = '-infinity'
    where flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])`.execute(trx)
  return pks
}

export type DelayedDelivery = DeliveryTarget & {
  pk: string
  attempts: number
  lastError: string | null
  why: StoredReason | null
  lastStatus: number | null
  queuedAt: Date
  nextAttemptAt: Date | null
}

/**
 * Deliveries of these destinations whose first attempt failed, or that the receiver asked to get later. The oldest
 * come first.
 */
export async function listDelayed(
  db: Db,
  targets: readonly DeliveryTarget[],
  limit: number,
): Promise<DelayedDelivery[]> {
  const { rows } = await sql<DelayedDelivery>`
    select found.flow, found.destination, found.pk, found.attempts, found.last_error as "lastError", found.why,
      found.last_status as "lastStatus", found.queued_at as "queuedAt", found.not_before as "nextAttemptAt"
    from unnest(${targets.map(({ flow }) => flow)}::text[],
      ${targets.map(({ destination }) => destination)}::text[]) as wanted (flow, destination)
    cross join lateral (
      select * from deliveries
      where flow = wanted.flow and destination = wanted.destination and state = 'waiting'
        and (attempts > 0 or not_before is not null)
      order by queued_at, pk
      limit ${limit}
    ) as found
    order by found.queued_at, found.flow, found.destination, found.pk
    limit ${limit}`.execute(db)
  return rows
}

export type SkippedDelivery = {
  destination: string
  pk: string
  reason: string
  why: StoredReason | null
  at: Date
}

/** What a flow does not send, and why. The latest come first. */
export async function listSkipped(db: Db, flow: string, limit: number): Promise<SkippedDelivery[]> {
  const { rows } = await sql<SkippedDelivery>`
    select destination, pk, skipped as reason, why, finished_at as at from deliveries
    where flow = ${flow} and skipped is not null
    order by finished_at desc, destination, pk
    limit ${limit}`.execute(db)
  return rows
}
