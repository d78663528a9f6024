import { type RawBuilder, sql } from 'kysely'
import type { Db, Trx } from '../db/database.ts'
import { columnHasCome, hasCome } from './due-work.ts'

/** The longest time that a dead process can delay the others. */
export const leaseMs = 10_000

/** A deadline further ahead than a lease is long, with room for a renewal, is from before the clock was set back. */
const furthestMs = (lengthMs: number) => 2 * lengthMs

/** The owner of a lease, and its fencing token. */
export type LeaseToken = { name: string; owner: string; token: number }

/**
 * Takes the lease when it is free, expired or already ours, for `lengthMs` (`leaseMs` when absent). Returns its fencing
 * token, which grows with each new owner, or undefined while another owner has it. `now` is the database's time, the
 * same for all processes.
 */
export async function acquireLease(
  db: Db,
  lease: { name: string; owner: string; now: Date; lengthMs?: number },
): Promise<number | undefined> {
  const { now, lengthMs = leaseMs } = lease
  const deadline = new Date(now.getTime() + lengthMs)
  const isOver = columnHasCome('leases.deadline', now, furthestMs(lengthMs))
  const row = await db
    .insertInto('leases')
    .values({ name: lease.name, owner: lease.owner, deadline, token: 1 })
    .onConflict((conflict) =>
      conflict
        .column('name')
        .doUpdateSet({
          owner: lease.owner,
          deadline,
          token: sql<number>`leases.token + case when leases.owner = ${lease.owner} and not ${isOver} then 0 else 1 end`,
        })
        .where((eb) => eb.or([isOver, eb('leases.owner', '=', lease.owner)])),
    )
    .returning('token')
    .executeTakeFirst()
  return row?.token
}

/** Whether the lease still has this token: no owner has taken it since, whatever the clock says. */
export async function isLeaseOf(db: Db, lease: LeaseToken): Promise<boolean> {
  const row = await db
    .selectFrom('leases')
    .select('token')
    .where('name', '=', lease.name)
    .where('owner', '=', lease.owner)
    .where('token', '=', lease.token)
    .executeTakeFirst()
  return row !== undefined
}

/**
 * The part of a statement that finds a row while the lease has this token, and keeps others from taking it before the
 * statement ends.
 */
export function leaseCondition({ name, owner, token }: LeaseToken): RawBuilder<unknown> {
  return sql`select from leases
    where name = ${name} and owner = ${owner} and token = ${token}::bigint for share`
}

/** Like isLeaseOf, and no owner can take it before the transaction ends. */
export async function keepLease(trx: Trx, lease: LeaseToken): Promise<boolean> {
  const row = await trx
    .selectFrom('leases')
    .select('token')
    .where('name', '=', lease.name)
    .where('owner', '=', lease.owner)
    .where('token', '=', lease.token)
    .forShare()
    .executeTakeFirst()
  return row !== undefined
}

/** The last owner of the lease, its token, and whether it was released. */
export async function findLastOwner(
  db: Db | Trx,
  name: string,
): Promise<{ owner: string; token: number; isGivenBack: boolean } | undefined> {
  const row = await db
    .selectFrom('leases')
    .select(['owner', 'token', 'deadline'])
    .where('name', '=', name)
    .executeTakeFirst()
  return row && { owner: row.owner, token: row.token, isGivenBack: row.deadline.getTime() === 0 }
}

/** Releases the lease, if it is still ours. The row stays: its token must never decrease. */
export async function releaseLease(db: Db, lease: { name: string; owner: string }): Promise<void> {
  await db
    .updateTable('leases')
    // Not the present moment, which would be in the future after the clock is set back.
    .set({ deadline: new Date(0) })
    .where('name', '=', lease.name)
    .where('owner', '=', lease.owner)
    .execute()
}

/**
 * The state of a lease of `leaseMs`: its token, which shows whether it was taken since, and whether it has an owner at
 * this moment.
 */
export async function findLease(
  db: Db | Trx,
  name: string,
  now: Date,
): Promise<{ token: number; hasOwner: boolean } | undefined> {
  const row = await db
    .selectFrom('leases')
    .select(['token', 'deadline'])
    .where('name', '=', name)
    .executeTakeFirst()
  return row && { token: row.token, hasOwner: !hasCome(row.deadline, now, furthestMs(leaseMs)) }
}
