import { type RawBuilder, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { ActivityRow } from '../audit/activity-queries.ts'

/** A column with encrypted values: how to find them by key, their context, and the key of the row. */
export type EncryptedColumn = {
  table: 'oauth_connections' | 'oauth_states' | 'oauth_grants' | 'people'
  column: 'access_token' | 'refresh_token' | 'code_verifier' | 'totp_secret'
  primaryKey: 'client' | 'state_hash' | 'id' | 'name_key'
  /** The column with the owner of the value, for readers: a client, the flow and the destination, or a person. */
  owner: 'client' | 'used_by' | 'name'
  /** Which rows are still in use. */
  alive: RawBuilder<boolean>
}

const always = sql<boolean>`true`
const ofClients = {
  table: 'oauth_connections',
  primaryKey: 'client',
  owner: 'client',
  alive: always,
} as const
const ofFlows = {
  table: 'oauth_grants',
  primaryKey: 'id',
  owner: 'used_by',
  alive: always,
} as const

/** All columns with encrypted values. Each has the index `split_part(column, '.', 2), primaryKey`. */
const encryptedColumns: readonly EncryptedColumn[] = [
  { ...ofClients, column: 'access_token' },
  { ...ofClients, column: 'refresh_token' },
  {
    table: 'oauth_states',
    column: 'code_verifier',
    primaryKey: 'state_hash',
    owner: 'client',
    alive: sql<boolean>`expires_at > now()`,
  },
  { ...ofFlows, column: 'access_token' },
  { ...ofFlows, column: 'refresh_token' },
  {
    table: 'people',
    column: 'totp_secret',
    primaryKey: 'name_key',
    owner: 'name',
    alive: sql<boolean>`totp_secret is not null`,
  },
]

/** The existing columns with encrypted values: before the latest migrations some are missing. */
export async function listEncryptedColumns(db: Db): Promise<readonly EncryptedColumn[]> {
  const found = await existing(db, [...new Set(encryptedColumns.map(({ table }) => table))])
  return encryptedColumns.filter(({ table }) => found.has(table))
}

async function existing(db: Db, tables: readonly string[]): Promise<Set<string>> {
  const { rows } = await sql<{ name: string }>`
    select name from unnest(${tables}::text[]) as name where to_regclass(name) is not null`.execute(
    db,
  )
  return new Set(rows.map(({ name }) => name))
}

/** The context that the secret of a person's codes is bound to. */
export function totpContext(nameKey: string): string {
  return `person_totp:${nameKey}`
}

/** Removes a secret whose key is lost. No code is accepted until an administrator resets the person. */
export async function giveUpTotp(db: Db, nameKey: string, encrypted: string): Promise<boolean> {
  const result = await db
    .updateTable('people')
    .set({ totp_secret: null })
    .where('name_key', '=', nameKey)
    .where('totp_secret', '=', encrypted)
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** The context that the values of a flow's grant are bound to. */
export function grantContext(id: string): string {
  return `oauth_grant:${id}`
}

/** An encrypted value, what identifies its row, and its owner. */
export type EncryptedValue = { row: string; owner: string; encrypted: string }

/** False before the first migration. */
export async function hasTables(db: Db): Promise<boolean> {
  return (await existing(db, ['activity_log'])).size > 0
}

/** The ids of the keys that encrypted the column's values; one step of the index per id, with any number of rows. */
export function findEncryptionKeys(
  db: Db,
  { table, column, alive }: EncryptedColumn,
): Promise<string[]> {
  return distinct(db, table, sql`split_part(${sql.ref(column)}, '.', 2)`, alive)
}

/** The ids of the keys that signed entries of the audit log, archived ones included. */
export async function findSigningKeys(db: Db): Promise<string[]> {
  const inLog = await distinct(db, 'activity_log', sql`key_id`, always)
  return [...new Set([...inLog, ...(await findArchivedKeys(db))])]
}

/** None before the migration for archives. */
async function findArchivedKeys(db: Db): Promise<string[]> {
  if ((await existing(db, ['activity_archives'])).size === 0) return []
  const { rows } = await sql<{ id: string }>`
    select distinct unnest(key_ids) as id from activity_archives`.execute(db)
  return rows.map(({ id }) => id)
}

/** The id of the key that signed the end of the log; undefined before it was signed, and before the migration for that. */
export async function findHeadKey(db: Db): Promise<string | undefined> {
  const { rows } = await sql<{ id: string | null }>`
    select to_jsonb(activity_head) ->> 'key_id' as id from activity_head`.execute(db)
  return rows[0]?.id ?? undefined
}

/** DISTINCT would read every row: https://wiki.postgresql.org/wiki/Loose_indexscan */
async function distinct(
  db: Db,
  table: string,
  id: RawBuilder<unknown>,
  alive: RawBuilder<boolean>,
): Promise<string[]> {
  const from = sql`${sql.table(table)} where ${alive}`
  const { rows } = await sql<{ id: string }>`
    with recursive found as (
      (select ${id} as id from ${from} and ${id} is not null order by ${id} limit 1)
      union all
      select (select ${id} from ${from} and ${id} > found.id order by ${id} limit 1)
      from found where found.id is not null
    )
    select id from found where id is not null`.execute(db)
  return rows.map((row) => row.id)
}

/** Values under the key, by primary key, after `after`. */
export async function readEncryptedBy(
  db: Db,
  { table, column, primaryKey, owner, alive }: EncryptedColumn,
  keyId: string,
  { after = '', limit }: { after?: string; limit: number },
): Promise<EncryptedValue[]> {
  const { rows } = await sql<EncryptedValue>`
    select ${sql.ref(primaryKey)} as row, ${sql.ref(owner)} as owner, ${sql.ref(column)} as encrypted from ${sql.table(table)}
    where ${alive} and split_part(${sql.ref(column)}, '.', 2) = ${keyId} and ${sql.ref(primaryKey)} > ${after}
    order by ${sql.ref(primaryKey)} limit ${limit}`.execute(db)
  return rows
}

/** Replaces a value by its new form. False when it has changed meanwhile. */
export async function replaceEncrypted(
  db: Db,
  { table, column, primaryKey }: EncryptedColumn,
  { row, encrypted }: EncryptedValue,
  renewed: string,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update ${sql.table(table)} set ${sql.ref(column)} = ${renewed}
    where ${sql.ref(primaryKey)} = ${row} and ${sql.ref(column)} = ${encrypted}`.execute(db)
  return numAffectedRows === 1n
}

export async function deleteStatesEncryptedBy(db: Db, keyId: string): Promise<void> {
  await sql`delete from oauth_states where split_part(code_verifier, '.', 2) = ${keyId}`.execute(db)
}

/** The newest entries of the audit log that name the key, newest first. */
export async function readEntriesSignedBy(
  db: Db,
  keyId: string,
  limit: number,
): Promise<ActivityRow[]> {
  return db
    .selectFrom('activity_log')
    .selectAll()
    .where('key_id', '=', keyId)
    .orderBy('seq', 'desc')
    .limit(limit)
    .execute()
}

const keptPrefix = 'signing_key:'

/** Signing keys of replaced encryption keys: by id, encrypted, or empty when the key was lost. */
export async function readKeptSigningKeys(db: Db): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('settings')
    .select(['name', 'value'])
    .where('name', 'like', `${keptPrefix}%`)
    .execute()
  return new Map(rows.map(({ name, value }) => [name.slice(keptPrefix.length), value]))
}

/** Stores the signing key of an id; `before` is the expected old value, undefined for none. False when it differs. */
export async function keepSigningKey(
  db: Db | Trx,
  id: string,
  encrypted: string,
  before: string | undefined,
  now: Date,
): Promise<boolean> {
  const name = `${keptPrefix}${id}`
  if (before === undefined) {
    const { numInsertedOrUpdatedRows } = await db
      .insertInto('settings')
      .values({ name, value: encrypted, updated_at: now })
      .onConflict((conflict) => conflict.column('name').doNothing())
      .executeTakeFirst()
    return numInsertedOrUpdatedRows === 1n
  }
  const { numUpdatedRows } = await db
    .updateTable('settings')
    .set({ value: encrypted, updated_at: now })
    .where('name', '=', name)
    .where('value', '=', before)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}
