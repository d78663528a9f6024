import type { Db } from '../../db/database.ts'
import type { Reason } from '../../domain/flow-reasons.ts'
import { countWaiting, listOpenDeliveries } from '../../repositories/flows/delivery-reports.ts'
import type { Flow } from '../definition/schema.ts'
import type { ControlService, WaitingDelivery } from './control-service-types.ts'
import { withMissing } from './destination-reports.ts'
import { readSending } from './sending.ts'

/** The waiting deliveries of all destinations of a flow, the oldest first, and the state of each destination. */
export async function listWaiting(
  { db, now }: { db: Db; now: () => Date },
  flow: Pick<Flow, 'name' | 'destinations' | 'queue'>,
  limit: number,
): ReturnType<ControlService['waiting']> {
  const found: WaitingDelivery[] = []
  const destinations = await withMissing(db, flow)
  for (const { name: destination } of destinations) {
    const rows = await listOpenDeliveries(
      db,
      { flow: flow.name, destination },
      { state: 'waiting', limit },
    )
    found.push(
      ...rows.map((row) => ({
        destination,
        pk: row.pk,
        attempts: row.attempts,
        lastError: row.last_error,
        why: row.why,
        lastStatus: row.last_status,
        queuedAt: row.queued_at,
        nextAttemptAt: row.not_before,
      })),
    )
  }
  const sending = await readSending(db, now(), flow.name)
  return {
    waiting: found.sort((a, b) => a.queuedAt.getTime() - b.queuedAt.getTime()).slice(0, limit),
    destinations: destinations.map((one) => ({ ...one, sending: sending(flow.name, one.name) })),
    readingPausedWhy: backlogReason(flow, await waitingCount(db, flow)),
  }
}

/**
 * How many deliveries wait for the destination with the fewest, counted up to `queue.maxWaiting`. While one destination takes
 * its deliveries the flow is polled: one that is down must not keep changes from the others.
 */
export async function waitingCount(
  db: Db,
  { name, queue, destinations }: Pick<Flow, 'name' | 'queue' | 'destinations'>,
): Promise<number> {
  const counts = await Promise.all(
    destinations.map((one) => countWaiting(db, name, one.name, queue.maxWaiting)),
  )
  return Math.min(...counts)
}

/** Why a flow is not polled while too many deliveries wait for each destination; null if they are few enough for one. */
export function backlogReason(
  { queue: { maxWaiting } }: Pick<Flow, 'queue'>,
  waiting: number,
): Reason | null {
  if (waiting < maxWaiting) return null
  return { code: 'TOO_MANY_WAITING', data: { most: maxWaiting } }
}
