import { sql } from 'kysely'
import type { Database, Db, Trx } from '../../db/database.ts'
import { hasCome } from '../due-work.ts'
import { type LeaseToken, takeLease } from '../leases.ts'

/** The process that holds this lease polls and delivers, for all flows. */
export const leaderLease = 'flows:leader'

/** How long a process of the previous version keeps the lease of a destination. */
const destinationLeaseMs = 10_000

/**
 * Takes the leader lease if no process holds it (see takeLease). Refuses while a process of the previous version
 * holds the lease of a destination (`deliver:…`), because it would send in parallel. A trigger prevents it from
 * taking further ones.
 */
export function takeLead(
  database: Pick<Database, 'transaction'>,
  lease: { owner: string; now: Date; lengthMs: number },
): Promise<{ token: number; isFree: boolean } | undefined> {
  return takeLease(database, { name: leaderLease, ...lease }, (trx) =>
    endLeasesOfDestinations(trx, lease.now),
  )
}

async function endLeasesOfDestinations(
  trx: Trx,
  now: Date,
): Promise<'free' | 'taken over' | 'refused'> {
  const kept = await trx
    .selectFrom('leases')
    .select(['name', 'deadline'])
    .where('name', 'like', 'deliver:%')
    .where('deadline', '<>', new Date(0))
    .execute()
  if (kept.length === 0) return 'free'
  if (kept.some(({ deadline }) => !hasCome(deadline, now, 2 * destinationLeaseMs))) return 'refused'
  // A process that held one and was suspended checks its token before it writes.
  await trx
    .updateTable('leases')
    .set((eb) => ({ token: eb('token', '+', 1), deadline: new Date(0) }))
    .where(
      'name',
      'in',
      kept.map(({ name }) => name),
    )
    .execute()
  return 'taken over'
}

/** Stores how many deliveries the leader is sending, for `countInFlight` in other processes. */
export async function saveInFlight(db: Db, lease: LeaseToken, inFlight: number): Promise<void> {
  await db
    .updateTable('leases')
    .set({ in_hand: inFlight })
    .where('name', '=', lease.name)
    .where('owner', '=', lease.owner)
    .where('token', '=', lease.token)
    .execute()
}

/** How many deliveries the leader is sending; 0 without a leader. `now` is the database's time. */
export async function countInFlight(db: Db, now: Date): Promise<number> {
  const row = await db
    .selectFrom('leases')
    .select('in_hand')
    .where('name', '=', leaderLease)
    .where(sql<boolean>`deadline > ${now}`)
    .executeTakeFirst()
  return row?.in_hand ?? 0
}
