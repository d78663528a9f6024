import type { Db } from '../../src/db/database.ts'
import { hasCome } from '../../src/repositories/due-work.ts'
import { leaseMs } from '../../src/repositories/leases.ts'

/** The token of a lease of `leaseMs`, and whether it has an owner now. */
export async function findLease(
  db: Db,
  name: string,
  now: Date,
): Promise<{ token: number; hasOwner: boolean } | undefined> {
  const row = await db
    .selectFrom('leases')
    .select(['token', 'deadline'])
    .where('name', '=', name)
    .executeTakeFirst()
  return row && { token: row.token, hasOwner: !hasCome(row.deadline, now, 2 * leaseMs) }
}
