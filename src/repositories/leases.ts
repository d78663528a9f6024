import { sql } from 'kysely'
import type { Db } from '../db/database.ts'

/**
 * Takes the lease when it is free, expired or already ours. Answers its fencing token, which grows with each new owner,
 * or undefined while somebody else holds it. Time is the caller's clock; deadlines are short, so small skews between
 * machines only delay a takeover.
 */
export async function acquireLease(
  db: Db,
  lease: { name: string; owner: string; now: Date; deadline: Date },
): Promise<number | undefined> {
  const row = await db
    .insertInto('leases')
    .values({ name: lease.name, owner: lease.owner, deadline: lease.deadline, token: 1 })
    .onConflict((conflict) =>
      conflict
        .column('name')
        .doUpdateSet({
          owner: lease.owner,
          deadline: lease.deadline,
          token: sql<number>`leases.token + case when leases.owner = ${lease.owner} and leases.deadline > ${lease.now} then 0 else 1 end`,
        })
        .where((eb) =>
          eb.or([eb('leases.deadline', '<=', lease.now), eb('leases.owner', '=', lease.owner)]),
        ),
    )
    .returning('token')
    .executeTakeFirst()
  return row?.token
}

/** Gives the lease back, if it is still ours. The row stays: its token must never fall back. */
export async function releaseLease(
  db: Db,
  lease: { name: string; owner: string; now: Date },
): Promise<void> {
  await db
    .updateTable('leases')
    .set({ deadline: lease.now })
    .where('name', '=', lease.name)
    .where('owner', '=', lease.owner)
    .execute()
}

/** Who holds the lease matters to nobody else: its token, which tells whether it was taken since, and its deadline. */
export async function findLease(
  db: Db,
  name: string,
): Promise<{ token: number; deadline: Date } | undefined> {
  return db
    .selectFrom('leases')
    .select(['token', 'deadline'])
    .where('name', '=', name)
    .executeTakeFirst()
}
