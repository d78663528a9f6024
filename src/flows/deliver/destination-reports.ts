import type { Database, Db } from '../../db/database.ts'
import type { Log } from '../../domain/log.ts'
import { countSameIdentities } from '../../repositories/flows/claims.ts'
import { type MinuteCounts, readRates } from '../../repositories/flows/delivery-rates.ts'
import { listOpenDestinations } from '../../repositories/flows/delivery-reports.ts'
import type { DestinationReport } from '../api/control-types.ts'
import type { DestinationDefinition } from '../types.ts'

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
  { database, log }: { database: Database; log: Log },
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
  { database, log }: { database: Database; log: Log },
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

const minuteMs = 60_000
const minutesShown = 60
/** The present rate is that of the last whole minutes. */
const rateMinutes = 5

/**
 * The deliveries of a destination in the last hour. The queue of earlier minutes is computed back from the present
 * one. An item that changed twice counts with its latest change.
 */
export async function reportDestination(
  db: Db,
  now: Date,
  flow: string,
  { name, rateLimit }: Pick<DestinationDefinition, 'name' | 'rateLimit'>,
  canBeShared = false,
): Promise<DestinationReport & { rows: number }> {
  const current = Math.floor(now.getTime() / minuteMs)
  const first = current - minutesShown + 1
  const since = new Date(first * minuteMs)
  const target = { flow, destination: name }
  const { minutes, waiting, done, stillThere, rows } = await readRates(db, target, since)
  const { rows: claims, ...sameIdentity } = canBeShared
    ? await countSameIdentities(db, target)
    : { rows: 0, count: 0, groups: [] }
  const samples: DestinationReport['samples'] = []
  let queue = waiting
  for (let minute = current; minute >= first; minute -= 1) {
    const { queued, delivered, failed } = minutes.get(minute) ?? nothing
    const at = new Date(minute * minuteMs)
    samples.unshift({ at, waiting: Math.max(0, queue), delivered, failed })
    queue += delivered + failed - queued
  }
  const recent = samples.slice(-rateMinutes - 1, -1)
  const delivered = recent.reduce((sum, one) => sum + one.delivered, 0)
  const perMinute = delivered / rateMinutes
  const endsAt =
    waiting > 0 && perMinute > 0 ? new Date(now.getTime() + (waiting / perMinute) * minuteMs) : null
  return {
    ...{ flow, waiting, done, stillThere, sameIdentity, perMinute, endsAt, samples },
    rows: rows + claims,
    rateLimit: rateLimit ? { max: rateLimit.max, perMs: rateLimit.perMs } : null,
  }
}

const nothing: Omit<MinuteCounts, 'minute'> = { queued: 0, delivered: 0, failed: 0 }
