import type { Db } from '../../db/database.ts'
import { camelCased } from '../../domain/field-names.ts'
import { listOpenDeliveries } from '../../repositories/flows/delivery-reports.ts'
import type { WaitingDelivery, WaitingView } from '../api/control-types.ts'
import type { Flow } from '../definition/schema.ts'
import { withMissing } from '../deliver/destination-reports.ts'
import { readSending } from './sending.ts'

/** The waiting deliveries of all destinations of a flow, the oldest first, and the state of each destination. */
export async function listWaiting(
  { db, now }: { db: Db; now: () => Date },
  flow: Pick<Flow, 'name' | 'destinations'>,
  limit: number,
): Promise<WaitingView> {
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
        ...camelCased(row),
        nextAttemptAt: row.not_before,
      })),
    )
  }
  const sending = await readSending(db, now(), flow.name)
  return {
    waiting: found.sort((a, b) => a.queuedAt.getTime() - b.queuedAt.getTime()).slice(0, limit),
    destinations: destinations.map((one) => ({ ...one, sending: sending(flow.name, one.name) })),
  }
}
