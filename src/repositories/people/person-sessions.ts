import { type Insertable, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { PersonSessionsTable } from '../../db/tables.ts'
import type { Person } from '../../domain/permissions.ts'

export type PersonSessionRow = Selectable<PersonSessionsTable>

/** Stores a session, and deletes expired ones. Of a person only the newest `keep` remain. */
export async function insertPersonSession(
  trx: Trx,
  session: Insertable<PersonSessionsTable>,
  keep: number,
): Promise<void> {
  await trx.insertInto('person_sessions').values(session).execute()
  const { person_id, created_at } = session
  await sql`
    delete from person_sessions where expires_at <= ${created_at} or id in (
      select id from person_sessions where person_id = ${person_id}
      order by created_at desc, id offset ${keep})`.execute(trx)
}

export type OpenSession = { id: string; usedAt: Date; expiresAt: Date; person: Person }

/** The session with this secret and its person, unless it has expired, was idle since `idleSince`, or the person was revoked. */
export async function findPersonSession(
  db: Db,
  tokenHash: string,
  { now, idleSince }: { now: Date; idleSince: Date },
): Promise<OpenSession | undefined> {
  const row = await db
    .selectFrom('person_sessions as session')
    .innerJoin('people', 'people.id', 'session.person_id')
    .select([
      'session.id',
      'session.used_at as usedAt',
      'session.expires_at as expiresAt',
      'people.id as personId',
      'people.name',
      'people.role',
      'people.client',
      'people.stores',
    ])
    .where('session.token_hash', '=', tokenHash)
    .where('session.expires_at', '>', now)
    .where('session.used_at', '>', idleSince)
    .where('people.revoked_at', 'is', null)
    .executeTakeFirst()
  if (!row) return undefined
  const { id, usedAt, expiresAt, personId, ...person } = row
  return { id, usedAt, expiresAt, person: { id: personId, ...person } }
}

/** Records the use of a session. */
export async function touchPersonSession(db: Db, id: string, at: Date): Promise<void> {
  await db
    .updateTable('person_sessions')
    .set({ used_at: at })
    .where('id', '=', id)
    .where('used_at', '<', at)
    .execute()
}

/** The open sessions of a person, newest first. */
export function listPersonSessions(
  db: Db,
  personId: string,
  { now, idleSince }: { now: Date; idleSince: Date },
): Promise<PersonSessionRow[]> {
  return db
    .selectFrom('person_sessions')
    .selectAll()
    .where('person_id', '=', personId)
    .where('expires_at', '>', now)
    .where('used_at', '>', idleSince)
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .execute()
}

/** Ends one session of a person. Returns whether it existed. */
export async function deletePersonSession(
  trx: Trx,
  { id, personId }: { id: string; personId: string },
): Promise<boolean> {
  const result = await trx
    .deleteFrom('person_sessions')
    .where('id', '=', id)
    .where('person_id', '=', personId)
    .executeTakeFirst()
  return result.numDeletedRows === 1n
}

/** Ends all sessions of a person except one. Returns how many there were. */
export async function deletePersonSessions(
  trx: Trx,
  personId: string,
  besides?: string,
): Promise<number> {
  const result = await trx
    .deleteFrom('person_sessions')
    .where('person_id', '=', personId)
    .$if(besides !== undefined, (query) => query.where('id', '!=', besides as string))
    .executeTakeFirst()
  return Number(result.numDeletedRows)
}

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
