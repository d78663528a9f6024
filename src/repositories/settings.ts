import type { Db, Trx } from '../db/database.ts'

export async function findSetting(db: Db | Trx, name: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('settings')
    .select('value')
    .where('name', '=', name)
    .executeTakeFirst()
  return row?.value
}

/** Its `updated_at` is the time of the data in the last finished backup. */
export const lastBackup = 'last_backup'

/** Records a finished backup. An older one that ends later changes nothing. */
export async function rememberBackup(db: Db | Trx, takenAt: Date): Promise<void> {
  await db
    .insertInto('settings')
    .values({ name: lastBackup, value: '', updated_at: takenAt })
    .onConflict((conflict) =>
      conflict
        .column('name')
        .doUpdateSet({ updated_at: takenAt })
        .where('settings.updated_at', '<', takenAt),
    )
    .execute()
}

/** Writes the setting unless it has a value. Returns the value that is stored then. */
export async function rememberSetting(
  trx: Trx,
  name: string,
  value: string,
  now: Date,
): Promise<string> {
  await trx
    .insertInto('settings')
    .values({ name, value, updated_at: now })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute()
  return (await findSetting(trx, name)) ?? value
}
