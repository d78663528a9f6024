import type { Db } from '../db/database.ts'
import { listUsualCharges } from '../repositories/fleet/fleet-observations.ts'
import { freshMs } from './health-limits.ts'
import { type BoxSeen, boxKey } from './observations.ts'

/**
 * Adds the usual number of charges at this time of the week to the boxes where it matters: those without a charge for a
 * while.
 */
export type UsualCharges = (db: Db, boxes: readonly BoxSeen[], now: Date) => Promise<BoxSeen[]>

const weeks = 4
/** The usual number changes slowly, and counting it is expensive. */
const keptMs = 10 * 60_000
/** How many boxes are counted in one round; the others wait for the next round. */
const boxesAtOnce = 200

export function createUsualCharges(): UsualCharges {
  const known = new Map<string, { perHour: number; at: number }>()
  return async (db, boxes, now) => {
    const nowMs = now.getTime()
    const isQuiet = ({ charges: [newest] }: BoxSeen) =>
      newest !== undefined && nowMs - newest.changedAt.getTime() >= freshMs
    const isKnown = (box: BoxSeen) =>
      Math.abs(nowMs - (known.get(boxKey(box))?.at ?? Number.NEGATIVE_INFINITY)) < keptMs
    const quiet = boxes.filter(isQuiet)
    const asked = quiet.filter((box) => !isKnown(box)).slice(0, boxesAtOnce)
    if (asked.length > 0) {
      const names = asked.map(({ client, cajaId }) => ({ client, cajaId }))
      for (const { perHour, ...box } of await listUsualCharges(db, names, now, weeks)) {
        known.set(boxKey(box), { perHour, at: nowMs })
      }
    }
    return boxes.map((box) =>
      isQuiet(box) ? { ...box, usualPerHour: known.get(boxKey(box))?.perHour ?? null } : box,
    )
  }
}
