import type { Database, Db } from '../../db/database.ts'
import { listOpenDestinations } from '../../repositories/flows/delivery-reports.ts'
import type { QueueLog } from '../deliver/queue.ts'

export type NamedDestination = { name: string; type: string }

/**
 * The type that reports give a destination that the definition no longer has, by this name, while something is owed to it:
 * nobody sends that, and it must not disappear with the name.
 */
export const missingType = 'missing'

/** The destinations of a flow as its definition has them, and after them those that it no longer has but owes something. */
export async function withMissing(
  db: Db,
  flow: { name: string; destinations: readonly NamedDestination[] },
): Promise<NamedDestination[]> {
  return withOpen(flow.destinations, await listOpenDestinations(db, flow.name))
}

/** Nobody sends what is owed to a name that is gone, so somebody has to know. */
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
    'deliveries are owed to destinations that the definition no longer has; they wait for the name',
  )
}

/** The same of flows whose definition is gone. */
export async function warnOfOwing(
  { database, log }: { database: Database; log: QueueLog },
  flows: readonly string[],
): Promise<void> {
  const owing: { flow: string; destinations: string[] }[] = []
  for (const flow of flows) {
    const destinations = await listOpenDestinations(database.db, flow)
    if (destinations.length > 0) owing.push({ flow, destinations })
  }
  if (owing.length === 0) return
  log.warn({ flows: owing }, 'flows without a definition owe deliveries; they wait for the name')
}

/** As withMissing, where the names of those that are owed something are known. */
export function withOpen(
  defined: readonly NamedDestination[],
  open: readonly string[],
): NamedDestination[] {
  const known = new Set(defined.map(({ name }) => name))
  const missing = open.filter((name) => !known.has(name))
  return [...defined, ...missing.map((name) => ({ name, type: missingType }))]
}
