import type { Database, Db } from '../../db/database.ts'
import { listOpenDestinations } from '../../repositories/flows/delivery-reports.ts'
import type { QueueLog } from '../deliver/queue.ts'

export type NamedDestination = { name: string; type: string }

/**
 * The type of a destination that was removed from the definition while deliveries for it wait. No process sends them,
 * so reports must still show them.
 */
export const missingType = 'missing'

/** The destinations of the definition, then removed ones with waiting deliveries. */
export async function withMissing(
  db: Db,
  flow: { name: string; destinations: readonly NamedDestination[] },
): Promise<NamedDestination[]> {
  return withOpen(flow.destinations, await listOpenDestinations(db, flow.name))
}

/** Warns of removed destinations with waiting deliveries, because no process sends these. */
export async function warnOfMissing(
  { database, log }: { database: Database; log: QueueLog },
  flow: { name: string; destinations: readonly NamedDestination[] },
): Promise<void> {
  const destinations = (await withMissing(database.db, flow))
    .filter(({ type }) => type === missingType)
    .map(({ name }) => name)
  if (destinations.length === 0) return
  log.warn(
    { flow: flow.name, destinations },
    'pending deliveries for destinations that are no longer in the definition; they wait until the name is defined again',
  )
}

/** Warns of removed flows with waiting deliveries. */
export async function warnOfPending(
  { database, log }: { database: Database; log: QueueLog },
  flows: readonly string[],
): Promise<void> {
  const leftBehind: { flow: string; destinations: string[] }[] = []
  for (const flow of flows) {
    const destinations = await listOpenDestinations(database.db, flow)
    if (destinations.length > 0) leftBehind.push({ flow, destinations })
  }
  if (leftBehind.length === 0) return
  log.warn(
    { flows: leftBehind },
    'pending deliveries of flows without a definition; they wait until the name is defined again',
  )
}

/** Like withMissing, for known names of destinations with waiting deliveries. */
export function withOpen(
  defined: readonly NamedDestination[],
  open: readonly string[],
): NamedDestination[] {
  const known = new Set(defined.map(({ name }) => name))
  const missing = open.filter((name) => !known.has(name))
  return [...defined, ...missing.map((name) => ({ name, type: missingType }))]
}
