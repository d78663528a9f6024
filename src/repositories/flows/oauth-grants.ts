import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { OauthGrantsTable } from '../../db/tables.ts'

export type GrantRow = Selectable<OauthGrantsTable>

/** The row of a grant. If none exists, it is created with its first refresh token. */
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

/** A renewal that began from this version of the row. */
export type GrantRenewal = { from: Pick<GrantRow, 'id' | 'version'>; beganAt: Date }

/**
 * Records that a renewal begins, unless the row changed since `seen`. An earlier renewal without an answer stays
 * recorded. Returns whether it did.
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

/** Records that this renewal ended without tokens. `isUnanswered`: its answer is unknown. */
export async function endGrantRenewal(
  db: Db,
  { from, beganAt }: GrantRenewal,
  { isUnanswered }: { isUnanswered: boolean },
): Promise<void> {
  await db
    .updateTable('oauth_grants')
    .set({
      renewal_began_at: null,
      ...(isUnanswered && { unheard_since: sql<Date>`coalesce(unheard_since, ${beganAt})` }),
    })
    .where('id', '=', from.id)
    .where('version', '=', from.version)
    .where('renewal_began_at', '=', beganAt)
    .execute()
}

/**
 * Stores the tokens of a renewal over the version it started from, even if that was marked lost meanwhile: the
 * issuer's latest token is the valid one. A newer version stays unchanged.
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

/** Marks the grant as lost, unless a newer renewal began. Returns whether it did. */
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

/**
 * Gives up tokens that cannot be decrypted: `encrypted` is the value whose encryption key was lost. Returns whether it
 * did.
 */
export async function giveUpGrant(
  db: Db,
  id: string,
  encrypted: string,
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
    .where((eb) => eb.or([eb('refresh_token', '=', encrypted), eb('access_token', '=', encrypted)]))
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** The lost grants among these. */
export async function listLostGrants(db: Db, ids: readonly string[]): Promise<GrantRow[]> {
  if (ids.length === 0) return []
  return db
    .selectFrom('oauth_grants')
    .selectAll()
    .where('id', 'in', [...ids])
    .where('lost_at', 'is not', null)
    .execute()
}

/** Records that the grant is still in use. */
export async function useGrant(
  db: Db,
  id: string,
  { used_by, used_at }: Pick<GrantRow, 'used_by' | 'used_at'>,
): Promise<void> {
  await db.updateTable('oauth_grants').set({ used_by, used_at }).where('id', '=', id).execute()
}

/** Deletes grants unused since `before`, except those that open flows use. */
export async function deleteUnusedGrants(
  db: Db,
  inUse: readonly string[],
  before: Date,
): Promise<void> {
  let query = db.deleteFrom('oauth_grants').where('used_at', '<', before)
  if (inUse.length > 0) query = query.where('id', 'not in', [...inUse])
  await query.execute()
}
