import type { Db } from '../../db/database.ts'
import { type MinuteCounts, readRates } from '../../repositories/flows/delivery-rates.ts'
import type { DestinationReport } from '../flow-service.ts'
import type { DestinationDefinition } from '../types.ts'

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
): Promise<DestinationReport & { rows: number }> {
  const current = Math.floor(now.getTime() / minuteMs)
  const first = current - minutesShown + 1
  const since = new Date(first * minuteMs)
  const { minutes, waiting, done, rows } = await readRates(db, { flow, destination: name }, since)
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
    ...{ flow, waiting, done, perMinute, endsAt, samples, rows },
    rateLimit: rateLimit ? { max: rateLimit.max, perMs: rateLimit.perMs } : null,
  }
}

const nothing: Omit<MinuteCounts, 'minute'> = { queued: 0, delivered: 0, failed: 0 }
