import type { Insertable, Selectable } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { fixedStatement } from '../../db/statements.ts'
import type { ApiKeysTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'

export type ApiKeyRow = Selectable<ApiKeysTable>

export async function insertApiKey(trx: Trx, key: Insertable<ApiKeysTable>): Promise<void> {
  await trx.insertInto('api_keys').values(key).execute()
}

/** What identifies a request by its key. */
export type ActiveKey = Pick<ApiKeyRow, 'id' | 'client' | 'key_hash'>

const activeByHash = fixedStatement<{ key_hash: string }, ActiveKey>(
  'select id, client, key_hash from api_keys where key_hash = :key_hash and active',
)

/** The active key with this hash. Read on every request, never cached: a revocation is effective at once. */
export async function findActiveKeyByHash(db: Db, keyHash: string): Promise<ActiveKey | undefined> {
  const [key] = await activeByHash(db, { key_hash: keyHash })
  return key
}

const touch = fixedStatement<{ uses: string }, never>(`
  update api_keys set last_used_at = greatest(last_used_at, use.at)
  from jsonb_to_recordset(:uses::jsonb) as use (id uuid, at timestamptz)
  where api_keys.id = use.id`)

/** Records when keys were last used. */
export async function touchApiKeys(db: Db, uses: ReadonlyMap<string, Date>): Promise<void> {
  await touch(db, { uses: JSON.stringify(Array.from(uses, ([id, at]) => ({ id, at }))) })
}

export async function listApiKeys(db: Db): Promise<ApiKeyRow[]> {
  return db.selectFrom('api_keys').selectAll().orderBy('created_at', 'desc').orderBy('id').execute()
}

/** Active keys and all keys of a client; an unknown client has none. */
export async function countApiKeys(
  db: Db | Trx,
  client: string,
): Promise<{ active: number; total: number }> {
  const row = await db
    .selectFrom('api_keys')
    .select((eb) => [
      eb.fn.countAll<number>().as('total'),
      eb.fn.countAll<number>().filterWhere('active', '=', true).as('active'),
    ])
    .where('client', '=', client as ClientName)
    .executeTakeFirstOrThrow()
  return row
}

export async function findNewestActiveKey(
  db: Db,
  client: ClientName,
): Promise<ApiKeyRow | undefined> {
  return db
    .selectFrom('api_keys')
    .selectAll()
    .where('client', '=', client)
    .where('active', '=', true)
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(1)
    .executeTakeFirst()
}

export async function findKeyById(db: Db | Trx, id: string): Promise<ApiKeyRow | undefined> {
  return db.selectFrom('api_keys').selectAll().where('id', '=', id).executeTakeFirst()
}

/** The active keys, which the statement revokes. */
function revoking(trx: Trx, now: Date) {
  return trx
    .updateTable('api_keys')
    .set({ active: false, revoked_at: now })
    .where('active', '=', true)
}

/** Revokes this key. Returns whether it was active. */
export async function revokeKeyById(trx: Trx, id: string, now: Date): Promise<boolean> {
  const result = await revoking(trx, now).where('id', '=', id).executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** Revokes the client's active keys that were made for another or an unknown account. Returns how many. */
export async function revokeKeysOfOtherAccounts(
  trx: Trx,
  client: ClientName,
  mpUserId: number,
  now: Date,
): Promise<number> {
  const result = await revoking(trx, now)
    .where('client', '=', client)
    .where('mp_user_id', 'is distinct from', mpUserId)
    .executeTakeFirst()
  return Number(result.numUpdatedRows)
}

/** Revokes all active keys of the client. Returns how many there were. */
export async function revokeApiKeys(trx: Trx, client: string, now: Date): Promise<number> {
  const result = await revoking(trx, now)
    .where('client', '=', client as ClientName)
    .executeTakeFirst()
  return Number(result.numUpdatedRows)
}

/** Keys by their ids, revoked ones included; for their names. */
export async function listKeysById(db: Db, ids: readonly string[]): Promise<ApiKeyRow[]> {
  if (ids.length === 0) return []
  return db
    .selectFrom('api_keys')
    .selectAll()
    .where('id', 'in', [...ids])
    .execute()
}
