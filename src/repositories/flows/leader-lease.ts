import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { LeaseToken } from '../leases.ts'

/** The process that holds this lease polls and delivers, for all flows. */
export const leaderLease = 'flows:leader'

/** The process that holds this lease polls the flow, or changes what its polls compare with. */
export const pollLease = (flow: string) => `flow:${flow}`

/** Releases the leases of polls of a process that is gone, or of all when this process is alone. */
export async function releasePollLeases(db: Db, owner?: string): Promise<void> {
  await db
    .updateTable('leases')
    .set({ deadline: new Date(0) })
    .where('name', 'like', pollLease('%'))
    .$if(owner !== undefined, (query) => query.where('owner', '=', owner as string))
    .execute()
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
