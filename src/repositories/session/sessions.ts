import { type Insertable, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { SessionsTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { Person } from '../../domain/permissions.ts'

export type SessionRow = Selectable<SessionsTable>

/** Stores a session, and deletes expired ones. Of a person, a key, or the administrator, only the newest `keep` remain. */
export async function insertSession(
  trx: Trx,
  session: Insertable<SessionsTable>,
  keep: number,
): Promise<void> {
  await trx.insertInto('sessions').values(session).execute()
  const { person_id = null, key_id = null, created_at } = session
  const isOfSameOwner =
    person_id === null
      ? sql`person_id is null and key_id is not distinct from ${key_id}`
      : sql`person_id = ${person_id}`
  await sql`
    delete from sessions where expires_at <= ${created_at} or id in (
      select id from sessions where ${isOfSameOwner}
      order by created_at desc, id offset ${keep})`.execute(trx)
}

/** A session of a person, of a key, or of the administrator, who has a proof. */
export type OpenSession = {
  id: string
  usedAt: Date
  expiresAt: Date
  person: Person | null
  key: { id: string; client: ClientName } | null
  adminProof: string | null
}

/**
 * The session with this secret, unless it has expired, its key or person was revoked, or it is of a person and was idle since
 * `idleSince`.
 */
export async function findOpenSession(
  db: Db,
  tokenHash: string,
  { now, idleSince }: { now: Date; idleSince: Date },
): Promise<OpenSession | undefined> {
  const row = await db
    .selectFrom('sessions as session')
    .leftJoin('people as person', 'person.id', 'session.person_id')
    .leftJoin('api_keys as key', 'key.id', 'session.key_id')
    .select([
      'session.id',
      'session.used_at as usedAt',
      'session.expires_at as expiresAt',
      'session.admin_proof as adminProof',
      'person.id as personId',
      'person.name',
      'person.role',
      'person.client',
      'person.stores',
      'key.id as keyId',
      'key.client as keyClient',
    ])
    .where('session.token_hash', '=', tokenHash)
    .where('session.expires_at', '>', now)
    .where((eb) =>
      eb.or([eb('session.person_id', 'is', null), eb('session.used_at', '>', idleSince)]),
    )
    .where('person.revoked_at', 'is', null)
    .where((eb) => eb.or([eb('session.key_id', 'is', null), eb('key.active', '=', true)]))
    .executeTakeFirst()
  if (!row) return undefined
  const { id, usedAt, expiresAt, adminProof } = row
  const { personId, name, role, client, stores, keyId, keyClient } = row
  return {
    ...{ id, usedAt, expiresAt, adminProof },
    person:
      personId !== null && name !== null && role !== null
        ? { id: personId, name, role, client, stores }
        : null,
    key: keyId !== null && keyClient !== null ? { id: keyId, client: keyClient } : null,
  }
}

/** Records the use of a session. */
export async function touchSession(db: Db, id: string, at: Date): Promise<void> {
  await db
    .updateTable('sessions')
    .set({ used_at: at })
    .where('id', '=', id)
    .where('used_at', '<', at)
    .execute()
}

/** Ends a session. Returns whether it existed. */
export async function deleteSession(trx: Trx, id: string): Promise<boolean> {
  const result = await trx.deleteFrom('sessions').where('id', '=', id).executeTakeFirst()
  return result.numDeletedRows === 1n
}

/** The open sessions of a person, newest first. */
export function listPersonSessions(
  db: Db,
  personId: string,
  { now, idleSince }: { now: Date; idleSince: Date },
): Promise<SessionRow[]> {
  return db
    .selectFrom('sessions')
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
    .deleteFrom('sessions')
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
    .deleteFrom('sessions')
    .where('person_id', '=', personId)
    .$if(besides !== undefined, (query) => query.where('id', '!=', besides as string))
    .executeTakeFirst()
  return Number(result.numDeletedRows)
}
