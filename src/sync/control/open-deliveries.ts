import type { Db } from '../../db/database.ts'
import { listOpenDeliveries } from '../../repositories/delivery-reports.ts'
import type { WaitingDelivery } from '../flow-service.ts'

/** What a flow owes and has not given up: the oldest first, of all its destinations together. */
export async function listWaiting(
  db: Db,
  flow: { name: string; destinations: readonly { name: string }[] },
  limit: number,
): Promise<WaitingDelivery[]> {
  const found: WaitingDelivery[] = []
  for (const { name: destination } of flow.destinations) {
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
        lastStatus: row.last_status,
        queuedAt: row.queued_at,
        nextAttemptAt: row.not_before,
      })),
    )
  }
  return found.sort((a, b) => a.queuedAt.getTime() - b.queuedAt.getTime()).slice(0, limit)
}
