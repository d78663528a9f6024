import type { Insertable, Selectable, Updateable } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { PeopleTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'

export type PersonRow = Selectable<PeopleTable>

/** Whose people a request may reach: those of one client, or all. */
export type Among = ClientName | undefined

/** The people of a client, or all, by name. */
export function listPeople(db: Db, among: Among): Promise<PersonRow[]> {
  return db
    .selectFrom('people')
    .selectAll()
    .$if(among !== undefined, (query) => query.where('client', '=', among as ClientName))
    .orderBy('client')
    .orderBy('name_key')
    .execute()
}

export function findPerson(db: Db | Trx, among: Among, id: string): Promise<PersonRow | undefined> {
  return db
    .selectFrom('people')
    .selectAll()
    .where('id', '=', id)
    .$if(among !== undefined, (query) => query.where('client', '=', among as ClientName))
    .executeTakeFirst()
}

export function findPersonByName(db: Db | Trx, key: string): Promise<PersonRow | undefined> {
  return db.selectFrom('people').selectAll().where('name_key', '=', key).executeTakeFirst()
}

/** The person of an invitation that is neither used nor expired. */
export function findInvited(
  db: Db | Trx,
  invitationHash: string,
  now: Date,
): Promise<PersonRow | undefined> {
  return db
    .selectFrom('people')
    .selectAll()
    .where('invitation_hash', '=', invitationHash)
    .where('invitation_expires_at', '>', now)
    .where('revoked_at', 'is', null)
    .executeTakeFirst()
}

/** Returns false when another person has the name. */
export async function insertPerson(trx: Trx, person: Insertable<PeopleTable>): Promise<boolean> {
  const result = await trx
    .insertInto('people')
    .values(person)
    .onConflict((conflict) => conflict.column('name_key').doNothing())
    .executeTakeFirst()
  return result.numInsertedOrUpdatedRows === 1n
}

/** What a sign-in was checked against. */
type CheckedAccess = Partial<Pick<PersonRow, 'password_hash' | 'totp_secret' | 'totp_on'>>

/**
 * Changes a person who is not revoked. With `checked` only while these columns still have the values that were read: a check of a
 * password takes time, and an administrator may take the access away meanwhile. Returns false when nothing was changed.
 */
export async function updatePerson(
  trx: Trx,
  id: string,
  fields: Updateable<PeopleTable>,
  { password_hash: passwordHash, totp_secret: totpSecret, totp_on: totpOn }: CheckedAccess = {},
): Promise<boolean> {
  let update = trx
    .updateTable('people')
    .set(fields)
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
  if (passwordHash !== undefined) {
    update = update.where('password_hash', 'is not distinct from', passwordHash)
  }
  if (totpSecret !== undefined) {
    update = update.where('totp_secret', 'is not distinct from', totpSecret)
  }
  if (totpOn !== undefined) update = update.where('totp_on', '=', totpOn)
  const result = await update.executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** Uses up an invitation: the first request that presents it sets the password. */
export async function usePersonInvitation(
  trx: Trx,
  { hash, passwordHash, now }: { hash: string; passwordHash: string; now: Date },
): Promise<PersonRow | undefined> {
  return trx
    .updateTable('people')
    .set({ password_hash: passwordHash, invitation_hash: null, invitation_expires_at: null })
    .where('invitation_hash', '=', hash)
    .where('invitation_expires_at', '>', now)
    .where('revoked_at', 'is', null)
    .returningAll()
    .executeTakeFirst()
}

/** Takes the time step of a code; returns false when this code or a later one was used before. */
export async function takeTotpStep(db: Db | Trx, id: string, step: number): Promise<boolean> {
  const result = await db
    .updateTable('people')
    .set({ totp_step: step })
    .where('id', '=', id)
    .where((eb) => eb.or([eb('totp_step', 'is', null), eb('totp_step', '<', step)]))
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}
