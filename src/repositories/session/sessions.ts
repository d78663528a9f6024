import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { SessionsTable } from '../../db/tables.ts'

/** Stores a session, and deletes expired ones. Of a key, or of the administrator, only the newest `keep` remain. */
export async function insertSession(
  trx: Trx,
  session: Selectable<SessionsTable>,
  keep: number,
): Promise<void> {
  await trx.insertInto('sessions').values(session).execute()
  const { key_id, created_at } = session
  await sql`
    delete from sessions where expires_at <= ${created_at} or id in (
      select id from sessions where key_id is not distinct from ${key_id}
      order by created_at desc, id offset ${keep})`.execute(trx)
}

/** Whether the session exists and has not expired. */
export async function isSessionOpen(db: Db, id: string, now: Date): Promise<boolean> {
  const row = await db
    .selectFrom('sessions')
    .select('id')
    .where('id', '=', id)
    .where('expires_at', '>', now)
    .executeTakeFirst()
  return row !== undefined
}

/** Returns whether it existed. */
export async function deleteSession(trx: Trx, id: string): Promise<boolean> {
  const result = await trx.deleteFrom('sessions').where('id', '=', id).executeTakeFirst()
  return result.numDeletedRows === 1n
}
