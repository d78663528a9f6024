import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { OauthGrantsTable } from '../../db/tables.ts'

export type GrantRow = Selectable<OauthGrantsTable>

/** The row of an access; made with its first refresh token where there is none yet. */
export async function findOrBeginGrant(
  db: Db,
  first: Pick<GrantRow, 'id' | 'refresh_token' | 'used_by' | 'used_at'>,
): Promise<GrantRow> {
  const found = await findGrant(db, first.id)
  if (found) return found
  await db
    .insertInto('oauth_grants')
    .values(first)
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute()
  const begun = await findGrant(db, first.id)
  if (!begun) throw new Error('a grant that was just begun is gone')
  return begun
}

async function findGrant(db: Db, id: string): Promise<GrantRow | undefined> {
  return db.selectFrom('oauth_grants').selectAll().where('id', '=', id).executeTakeFirst()
}

/** A renewal that was begun from a version of the row. */
export type GrantRenewal = { from: Pick<GrantRow, 'id' | 'version'>; beganAt: Date }

/**
 * Notes that a renewal begins, unless the row is no longer as `seen`. One that was begun before and of which nothing was heard
 * since stays noted. Returns whether it did.
 */
export async function beginGrantRenewal(db: Db, seen: GrantRow, beganAt: Date): Promise<boolean> {
  const result = await db
    .updateTable('oauth_grants')
    .set({
      renewal_began_at: beganAt,
      unheard_since: sql<Date | null>`coalesce(unheard_since, renewal_began_at)`,
    })
    .where('id', '=', seen.id)
    .where('version', '=', seen.version)
    .where('lost_at', 'is', null)
    .where('renewal_began_at', 'is not distinct from', seen.renewal_began_at)
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** Notes that this renewal will bring nothing any more; `isUnheard`: its answer is not known. */
export async function endGrantRenewal(
  db: Db,
  { from, beganAt }: GrantRenewal,
  { isUnheard }: { isUnheard: boolean },
): Promise<void> {
  await db
    .updateTable('oauth_grants')
    .set({
      renewal_began_at: null,
      ...(isUnheard && { unheard_since: sql<Date>`coalesce(unheard_since, ${beganAt})` }),
    })
    .where('id', '=', from.id)
    .where('version', '=', from.version)
    .where('renewal_began_at', '=', beganAt)
    .execute()
}

/**
 * Stores what a renewal brought over what it was made from, whatever was thought of that meanwhile: the issuer's latest token
 * is the live one. Nothing happens when there is a newer one.
 */
export async function renewGrant(
  db: Db,
  from: Pick<GrantRow, 'id' | 'version'>,
  tokens: Pick<GrantRow, 'access_token' | 'expires_at' | 'renewed_at'> &
    Partial<Pick<GrantRow, 'refresh_token'>>,
  { used_by, used_at }: Pick<GrantRow, 'used_by' | 'used_at'>,
): Promise<void> {
  await db
    .updateTable('oauth_grants')
    .set({
      ...tokens,
      used_by,
      used_at,
      version: from.version + 1,
      renewal_began_at: null,
      unheard_since: null,
      lost_at: null,
      lost_reason: null,
    })
    .where('id', '=', from.id)
    .where('version', '=', from.version)
    .execute()
}

/** Notes that nothing can be renewed any more, unless this renewal is no longer the last one. Returns whether it did. */
export async function loseGrant(
  trx: Trx,
  { from, beganAt }: GrantRenewal,
  { reason, at }: { reason: string; at: Date },
): Promise<boolean> {
  const result = await trx
    .updateTable('oauth_grants')
    .set({ lost_at: at, lost_reason: reason, renewal_began_at: null })
    .where('id', '=', from.id)
    .where('version', '=', from.version)
    .where('renewal_began_at', '=', beganAt)
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** Gives up what nobody can read: `sealed` is the value that an encryption key was lost for. Returns whether it did. */
export async function giveUpGrant(
  db: Db,
  id: string,
  sealed: string,
  { empty, at }: { empty: string; at: Date },
): Promise<boolean> {
  const result = await db
    .updateTable('oauth_grants')
    .set((eb) => ({
      refresh_token: empty,
      access_token: null,
      renewal_began_at: null,
      unheard_since: null,
      lost_at: at,
      lost_reason: 'encryption_key_lost',
      version: eb('version', '+', 1),
    }))
    .where('id', '=', id)
    .where((eb) => eb.or([eb('refresh_token', '=', sealed), eb('access_token', '=', sealed)]))
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** Those of these that are lost. */
export async function listLostGrants(db: Db, ids: readonly string[]): Promise<GrantRow[]> {
  if (ids.length === 0) return []
  return db
    .selectFrom('oauth_grants')
    .selectAll()
    .where('id', 'in', [...ids])
    .where('lost_at', 'is not', null)
    .execute()
}

/** Notes that the access is still in use. */
export async function useGrant(
  db: Db,
  id: string,
  { used_by, used_at }: Pick<GrantRow, 'used_by' | 'used_at'>,
): Promise<void> {
  await db.updateTable('oauth_grants').set({ used_by, used_at }).where('id', '=', id).execute()
}

/** Those that nobody used since `before`, but for the ones that open flows name. */
export async function deleteUnusedGrants(
  db: Db,
  inUse: readonly string[],
  before: Date,
): Promise<void> {
  let query = db.deleteFrom('oauth_grants').where('used_at', '<', before)
  if (inUse.length > 0) query = query.where('id', 'not in', [...inUse])
  await query.execute()
}
