import type { Db, Trx } from '../../db/database.ts'

export async function insertInvitation(
  trx: Trx,
  invitation: { id: string; client: string; created_at: Date; expires_at: Date },
): Promise<void> {
  await trx
    .insertInto('invitations')
    .values({ ...invitation, used_at: null })
    .execute()
}

export async function findInvitation(db: Db | Trx, id: string) {
  return db.selectFrom('invitations').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Marks the invitation as used. Returns whether it existed, unused and in time. */
export async function useConnectInvitation(
  db: Db | Trx,
  id: string,
  client: string,
  now: Date,
): Promise<boolean> {
  const result = await db
    .updateTable('invitations')
    .set({ used_at: now })
    .where('id', '=', id)
    .where('client', '=', client)
    .where('used_at', 'is', null)
    .where('expires_at', '>', now)
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** Invitations that may still begin a login, the newest first. */
export async function listOpenInvitations(db: Db, now: Date, limit: number) {
  return db
    .selectFrom('invitations')
    .selectAll()
    .where('used_at', 'is', null)
    .where('expires_at', '>', now)
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Returns whether it existed, unused and in time. */
export async function deleteOpenInvitation(trx: Trx, id: string, now: Date): Promise<boolean> {
  const result = await trx
    .deleteFrom('invitations')
    .where('id', '=', id)
    .where('used_at', 'is', null)
    .where('expires_at', '>', now)
    .executeTakeFirst()
  return result.numDeletedRows === 1n
}
