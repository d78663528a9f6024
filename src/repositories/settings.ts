import type { Db, Trx } from '../db/database.ts'

/** The value of a setting; undefined when it has none. */
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
  await rememberTime(db, lastBackup, takenAt)
}

/** Its `updated_at` is when old rows were last removed without a failure. */
export const lastRemoval = 'last_removal'

/** Records that all old rows were removed. */
export async function rememberRemoval(db: Db | Trx, at: Date): Promise<void> {
  await rememberTime(db, lastRemoval, at)
}

async function rememberTime(db: Db | Trx, name: string, at: Date): Promise<void> {
  await db
    .insertInto('settings')
    .values({ name, value: '', updated_at: at })
    .onConflict((conflict) =>
      conflict.column('name').doUpdateSet({ updated_at: at }).where('settings.updated_at', '<', at),
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
