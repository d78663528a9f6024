import { type Insertable, type Selectable, type SqlBool, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { OauthConnectionsTable, OauthStatesTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'

export type ConnectionRow = Selectable<OauthConnectionsTable>

/** What a call to the provider needs of a connection. */
export type UsedConnection = Pick<
  ConnectionRow,
  | 'mp_user_id'
  | 'live_mode'
  | 'access_token'
  | 'refresh_token'
  | 'expires_at'
  | 'connected_at'
  | 'refreshed_at'
  | 'status'
  | 'version'
>

export async function insertState(
  db: Db | Trx,
  state: Insertable<OauthStatesTable>,
): Promise<void> {
  await db.insertInto('oauth_states').values(state).execute()
}

/** Deletes and returns the state in one statement, so that only one of two callbacks gets it. */
export async function consumeState(db: Db | Trx, stateHash: string) {
  return db
    .deleteFrom('oauth_states')
    .where('state_hash', '=', stateHash)
    .returningAll()
    .executeTakeFirst()
}

export async function findState(db: Db | Trx, stateHash: string) {
  return db
    .selectFrom('oauth_states')
    .selectAll()
    .where('state_hash', '=', stateHash)
    .executeTakeFirst()
}

export async function deleteExpiredStates(db: Db | Trx, now: Date): Promise<void> {
  await db.deleteFrom('oauth_states').where('expires_at', '<=', now).execute()
}

export async function findConnection(
  db: Db | Trx,
  client: ClientName,
): Promise<ConnectionRow | undefined> {
  return db
    .selectFrom('oauth_connections')
    .selectAll()
    .where('client', '=', client)
    .executeTakeFirst()
}

export async function upsertConnection(
  trx: Trx,
  connection: Omit<Insertable<OauthConnectionsTable>, 'version'>,
): Promise<void> {
  const { client, ...fields } = connection
  await trx
    .insertInto('oauth_connections')
    .values({ ...fields, client })
    .onConflict((conflict) =>
      conflict.column('client').doUpdateSet((eb) => ({
        ...fields,
        version: eb('oauth_connections.version', '+', 1),
      })),
    )
    .execute()
}

/**
 * A pair of tokens. The version alone does not identify it: a connection that was removed and made again counts from
 * 1 again, perhaps with another account.
 */
type Pair = Pick<ConnectionRow, 'client' | 'version' | 'connected_at'>

const isPair = ({ client, version, connected_at }: Pair) =>
  sql<SqlBool>`client = ${client} and version = ${version}
    and date_trunc('milliseconds', connected_at) = ${connected_at}`

/** A renewal that was begun from a pair. */
export type Renewal = { from: Pair; startedAt: Date }

/**
 * Stores a renewed pair over the one it started from, even if that connection counts as lost: the provider's latest
 * pair is valid. Returns whether it did; false if there is a newer one.
 */
export async function replaceTokens(
  trx: Trx,
  from: Pair,
  tokens: Pick<
    ConnectionRow,
    'access_token' | 'refresh_token' | 'public_key' | 'live_mode' | 'expires_at' | 'refreshed_at'
  >,
): Promise<boolean> {
  const result = await trx
    .updateTable('oauth_connections')
    .set({
      ...tokens,
      version: from.version + 1,
      refresh_started_at: null,
      status: 'connected',
      lost_reason: null,
    })
    .where(isPair(from))
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** Records that a renewal begins, unless the row differs from `seen`. Returns whether it did. */
export async function beginRenewal(
  db: Db | Trx,
  seen: ConnectionRow,
  startedAt: Date,
): Promise<boolean> {
  const result = await db
    .updateTable('oauth_connections')
    .set({ refresh_started_at: startedAt })
    .where(isPair(seen))
    .where('status', '=', seen.status)
    .where('refresh_started_at', 'is not distinct from', seen.refresh_started_at)
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** Records that this renewal will not produce a pair any more. */
export async function endRenewal(db: Db | Trx, { from, startedAt }: Renewal): Promise<void> {
  await db
    .updateTable('oauth_connections')
    .set({ refresh_started_at: null })
    .where(isPair(from))
    .where('refresh_started_at', '=', startedAt)
    .execute()
}

/**
 * Marks the connection as lost, unless the renewal's pair is no longer current, or another renewal was begun from it
 * since. Returns whether it did.
 */
export async function markLost(
  db: Db | Trx,
  { from, startedAt }: Renewal,
  reason: string,
): Promise<boolean> {
  const result = await db
    .updateTable('oauth_connections')
    .set({ status: 'lost', lost_reason: reason, refresh_started_at: null })
    .where(isPair(from))
    .where('refresh_started_at', '=', startedAt)
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/**
 * Removes the refresh token that the provider refuses, and ends its renewal; the access token stays. With the
 * conditions of `markLost`. Returns whether it did.
 */
export async function dropRefreshToken(
  db: Db | Trx,
  { from, startedAt }: Renewal,
): Promise<boolean> {
  const result = await db
    .updateTable('oauth_connections')
    .set({ refresh_token: null, refresh_started_at: null })
    .where(isPair(from))
    .where('refresh_started_at', '=', startedAt)
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** Marks the connection as lost while it still has these tokens, which cannot be decrypted. Returns whether it did. */
export async function markUnreadable(
  db: Db | Trx,
  client: string,
  tokens: Partial<Pick<ConnectionRow, 'access_token' | 'refresh_token'>>,
  emptyToken: string,
): Promise<boolean> {
  let query = db
    .updateTable('oauth_connections')
    .set((eb) => ({
      access_token: emptyToken,
      refresh_token: null,
      refresh_started_at: null,
      status: 'lost' as const,
      lost_reason: 'encryption_key_lost',
      version: eb('version', '+', 1),
    }))
    .where('client', '=', client as ClientName)
  for (const [column, value] of Object.entries(tokens)) {
    query = query.where(column as 'access_token', '=', value)
  }
  const result = await query.executeTakeFirst()
  return result.numUpdatedRows === 1n
}

export async function deleteConnection(trx: Trx, client: ClientName): Promise<boolean> {
  const result = await trx
    .deleteFrom('oauth_connections')
    .where('client', '=', client)
    .executeTakeFirst()
  return result.numDeletedRows === 1n
}

/** Clients whose tokens were last renewed before `refreshedBefore` or end before `expiresBefore`. */
export async function findConnectionsToRenew(
  db: Db,
  limits: { refreshedBefore: Date; expiresBefore: Date },
): Promise<ClientName[]> {
  const rows = await db
    .selectFrom('oauth_connections')
    .select('client')
    .where('status', '=', 'connected')
    // Without a refresh token there is nothing to renew: the access token is used until it expires.
    .where('refresh_token', 'is not', null)
    .where((eb) =>
      eb.or([
        eb('refreshed_at', '<=', limits.refreshedBefore),
        eb('expires_at', '<=', limits.expiresBefore),
      ]),
    )
    .orderBy('expires_at')
    .limit(100)
    .execute()
  return rows.map((row) => row.client)
}

/** Accounts that a client is connected to. */
export async function findAccounts(db: Db, limit: number): Promise<number[]> {
  const rows = await db
    .selectFrom('oauth_connections')
    .select('mp_user_id')
    .distinct()
    .where('status', '=', 'connected')
    .orderBy('mp_user_id')
    .limit(limit)
    .execute()
  return rows.map((row) => row.mp_user_id)
}

export async function findClientsOfAccount(db: Db, mpUserId: number): Promise<ClientName[]> {
  const rows = await db
    .selectFrom('oauth_connections')
    .select('client')
    .where('mp_user_id', '=', mpUserId)
    .where('status', '=', 'connected')
    .execute()
  return rows.map((row) => row.client)
}

/** All connected clients, with their accounts. */
export async function listConnectedClients(
  db: Db,
): Promise<{ client: ClientName; mp_user_id: number }[]> {
  return db
    .selectFrom('oauth_connections')
    .select(['client', 'mp_user_id'])
    .where('status', '=', 'connected')
    .orderBy('mp_user_id')
    .orderBy('client')
    .execute()
}
