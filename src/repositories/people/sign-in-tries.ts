import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'

/**
 * Counts a try before its password is checked, so that parallel tries cannot exceed the limit. Returns how many there
 * were in the time window. Deletes expired tries.
 */
export async function countSignInTry(
  db: Db,
  subject: string,
  { now, until }: { now: Date; until: Date },
): Promise<{ failures: number; until: Date }> {
  await db.deleteFrom('sign_in_failures').where('until', '<=', now).execute()
  return db
    .insertInto('sign_in_failures')
    .values({ subject, failures: 1, until })
    .onConflict((conflict) =>
      conflict
        .column('subject')
        .doUpdateSet({ failures: sql<number>`sign_in_failures.failures + 1` }),
    )
    .returning(['failures', 'until'])
    .executeTakeFirstOrThrow()
}

/** Removes the counted tries of a place, and one try of what it is counted under besides, after a right password. */
export async function forgiveSignInTries(
  db: Db | Trx,
  counted: readonly { subject: string; isPlace?: true }[],
): Promise<void> {
  for (const { subject, isPlace } of counted) {
    if (isPlace) {
      await db.deleteFrom('sign_in_failures').where('subject', '=', subject).execute()
      continue
    }
    await db
      .updateTable('sign_in_failures')
      .set({ failures: sql`greatest(failures - 1, 0)` })
      .where('subject', '=', subject)
      .execute()
  }
}
