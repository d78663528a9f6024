import type { Db, Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'

export async function findClient(db: Db | Trx, name: string) {
  return db
    .selectFrom('clients')
    .selectAll()
    .where('name', '=', name as ClientName)
    .executeTakeFirst()
}

/** Returns whether the client is new. */
export async function insertClientIfAbsent(
  trx: Trx,
  name: ClientName,
  now: Date,
): Promise<boolean> {
  const result = await trx
    .insertInto('clients')
    .values({ name, mp_user_id: null, mp_nickname: null, created_at: now })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .executeTakeFirst()
  return result.numInsertedOrUpdatedRows === 1n
}

/** Locks the row, so that two first connections of one client cannot set two accounts. */
export async function lockClient(trx: Trx, name: ClientName) {
  return trx
    .selectFrom('clients')
    .selectAll()
    .where('name', '=', name)
    .forUpdate()
    .executeTakeFirst()
}

export async function setPinnedAccount(
  trx: Trx,
  name: ClientName,
  account: { mpUserId: number; nickname: string | null } | null,
): Promise<void> {
  await trx
    .updateTable('clients')
    .set({ mp_user_id: account?.mpUserId ?? null, mp_nickname: account?.nickname ?? null })
    .where('name', '=', name)
    .execute()
}

/** Stores the nickname of an account, while the client has that account. */
export async function setNickname(
  db: Db | Trx,
  name: ClientName,
  account: { mpUserId: number; nickname: string },
): Promise<void> {
  await db
    .updateTable('clients')
    .set({ mp_nickname: account.nickname })
    .where('name', '=', name)
    .where('mp_user_id', '=', account.mpUserId)
    .execute()
}

/** All clients with the state of their connection and keys, for the administrator's overview. */
export async function listClients(db: Db) {
  return db
    .selectFrom('clients')
    .leftJoin('oauth_connections', 'oauth_connections.client', 'clients.name')
    .select((eb) => [
      'clients.name',
      'clients.mp_nickname',
      'clients.mp_user_id',
      'clients.created_at',
      'oauth_connections.status as connection_status',
      'oauth_connections.live_mode',
      'oauth_connections.expires_at',
      eb
        .selectFrom('api_keys')
        .select((inner) => inner.fn.countAll<number>().as('active_keys'))
        .whereRef('api_keys.client', '=', 'clients.name')
        .where('api_keys.active', '=', true)
        .as('active_keys'),
    ])
    .orderBy('clients.name')
    .execute()
}
