import { type RawBuilder, sql } from 'kysely'
import type { Database, Db, Trx } from '../db/database.ts'
import { hasCome } from './due-work.ts'

/** The longest time that a dead process can delay the others. */
export const leaseMs = 10_000

/** A deadline further ahead than a lease is long, with room for a renewal, is from before the clock was set back. */
const furthestMs = (lengthMs: number) => 2 * lengthMs

/** The owner of a lease, and its fencing token. */
export type LeaseToken = { name: string; owner: string; token: number }

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
 * The part of a statement that finds a row only while the lease has this token. It prevents a `takeLease` by others
 * until the statement ends. The owner may renew it meanwhile.
 */
export function leaseCondition({ name, owner, token }: LeaseToken): RawBuilder<unknown> {
  return sql`select from leases
    where name = ${name} and owner = ${owner} and token = ${token}::bigint for key share`
}

/**
 * Like isLeaseOf. It also prevents other owners from taking it by `takeLease` before the transaction ends. The owner
 * may renew it meanwhile.
 */
export async function keepLease(trx: Trx, lease: LeaseToken): Promise<boolean> {
  const row = await trx
    .selectFrom('leases')
    .select('token')
    .where('name', '=', lease.name)
    .where('owner', '=', lease.owner)
    .where('token', '=', lease.token)
    .forKeyShare()
    .executeTakeFirst()
  return row !== undefined
}

/** The state of a lease before it was taken. */
type Before = { owner: string; token: number; deadline: Date }

/** `isFree`: it had no owner, or the same one, so no old proof is in use. */
type TakenLease = LeaseToken & { isFree: boolean }

type TakeRequest = {
  name: string
  owner: string
  now: Date
  lengthMs?: number
  /** Whether the owner is known to be gone, so its deadline does not count. */
  isGone?: (before: Before) => boolean
  /** Locks the new token before other processes can see it. */
  lock?: (token: number) => Promise<boolean>
  /** What else is written when the lease is taken. */
  alsoWrite?: (trx: Trx, before: Before) => Promise<void>
}

/**
 * Takes the lease when it is free or expired, for `lengthMs` (`leaseMs` when absent). It waits for statements that have
 * checked it by `keepLease` or `leaseCondition`. Its fencing token grows each time. Returns undefined while it is taken.
 * `now` is the database's time, the same for all processes.
 */
export async function takeLease(
  database: Pick<Database, 'transaction'>,
  { name, owner, now, lengthMs = leaseMs, isGone, lock, alsoWrite }: TakeRequest,
): Promise<TakenLease | undefined> {
  return await database.transaction(async (trx) => {
    const before = (await lockLease(trx, name)) ?? (await insertLease(trx, name))
    if (!hasCome(before.deadline, now, furthestMs(lengthMs)) && !isGone?.(before)) return undefined
    const token = before.token + 1
    if (lock && !(await lock(token))) return undefined
    await alsoWrite?.(trx, before)
    const deadline = new Date(now.getTime() + lengthMs)
    await trx
      .updateTable('leases')
      .set({ owner, token, deadline, in_hand: 0 })
      .where('name', '=', name)
      .execute()
    const isFree = before.owner === owner || before.deadline.getTime() === 0
    return { name, owner, token, isFree }
  })
}

function lockLease(trx: Trx, name: string): Promise<Before | undefined> {
  return trx
    .selectFrom('leases')
    .select(['owner', 'token', 'deadline'])
    .where('name', '=', name)
    .forUpdate()
    .executeTakeFirst()
}

async function insertLease(trx: Trx, name: string): Promise<Before> {
  await trx
    .insertInto('leases')
    .values({ name, owner: '', deadline: new Date(0), token: 0 })
    // Another process may have inserted it at the same moment.
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute()
  return (await lockLease(trx, name)) as Before
}

/**
 * Prolongs a lease taken by `takeLease`. False if another owner has taken it since. An expired lease continues,
 * because its token proves that no other owner took it.
 */
export async function renewLease(
  db: Db,
  { name, owner, token }: LeaseToken,
  { now, lengthMs }: { now: Date; lengthMs: number },
): Promise<boolean> {
  const result = await db
    .updateTable('leases')
    .set({ deadline: new Date(now.getTime() + lengthMs) })
    .where('name', '=', name)
    .where('owner', '=', owner)
    .where('token', '=', token)
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** The present or last owner of a lease. `mark` changes whenever it is renewed, taken or released. */
export async function findOwner(
  db: Db,
  name: string,
): Promise<{ owner: string; token: number; isReleased: boolean; mark: string } | undefined> {
  const row = await db
    .selectFrom('leases')
    .select(['owner', 'token', 'deadline'])
    .where('name', '=', name)
    .executeTakeFirst()
  if (!row) return undefined
  const endsMs = row.deadline.getTime()
  const { owner, token } = row
  return { owner, token, isReleased: endsMs === 0, mark: `${token} ${endsMs}` }
}

/** Releases the lease, if it is still ours. The row stays: its token must never decrease. */
export async function releaseLease(db: Db, lease: LeaseToken): Promise<void> {
  await db
    .updateTable('leases')
    // Not the present moment, which would be in the future after the clock is set back.
    .set({ deadline: new Date(0) })
    .where('name', '=', lease.name)
    .where('owner', '=', lease.owner)
    .where('token', '=', lease.token)
    .execute()
}
