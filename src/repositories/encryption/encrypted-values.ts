import { type RawBuilder, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import {
  auditKeyContext,
  connectionContext,
  endpointContext,
  grantContext,
  totpContext,
} from '../../domain/encryption.ts'

/** What stored values are, for operators. */
export type EncryptedUse =
  | 'tokens of clients'
  | 'logins under way'
  | 'tokens of destinations of flows'
  | 'codes of people'
  | 'secrets of endpoints'
  | 'the audit log'

/** An encrypted value, what identifies its row, and its owner: a client, the flow and the destination, or a person. */
export type EncryptedValue = { row: string; owner: string; encrypted: string }

/** A column with encrypted values. */
export type EncryptedColumn = {
  use: EncryptedUse
  table:
    | 'oauth_connections'
    | 'oauth_states'
    | 'oauth_grants'
    | 'people'
    | 'event_endpoints'
    | 'settings'
  column:
    | 'access_token'
    | 'refresh_token'
    | 'code_verifier'
    | 'totp_secret'
    | 'secret'
    | 'former_secret'
    | 'value'
  primaryKey: string
  /** The column with the owner of a value. */
  owner: string
  /** Which rows are encrypted and still in use. */
  alive: RawBuilder<boolean>
  /** What a value is bound to, so that it cannot be decrypted in another row or column. */
  contextOf(value: Pick<EncryptedValue, 'row' | 'owner'>): string
}

/** The name of the setting with the key of the audit log. */
export const auditKeySetting = 'audit_key'

const isStored = sql<boolean>`true`

/** All columns with encrypted values. Each has the index `split_part(column, '.', 2), primaryKey`, except the one row of settings. */
const encryptedColumns: readonly EncryptedColumn[] = [
  ...(['access_token', 'refresh_token'] as const).map((column) => ({
    use: 'tokens of clients' as const,
    table: 'oauth_connections' as const,
    column,
    primaryKey: 'client',
    owner: 'client',
    alive: isStored,
    contextOf: ({ owner }: Pick<EncryptedValue, 'owner'>) => connectionContext(owner, column),
  })),
  {
    use: 'logins under way',
    table: 'oauth_states',
    column: 'code_verifier',
    primaryKey: 'state_hash',
    owner: 'client',
    alive: sql<boolean>`expires_at > now()`,
    contextOf: ({ owner }) => connectionContext(owner, 'code_verifier'),
  },
  ...(['access_token', 'refresh_token'] as const).map((column) => ({
    use: 'tokens of destinations of flows' as const,
    table: 'oauth_grants' as const,
    column,
    primaryKey: 'id',
    owner: 'used_by',
    alive: isStored,
    contextOf: ({ row }: Pick<EncryptedValue, 'row'>) => grantContext(row),
  })),
  {
    use: 'codes of people',
    table: 'people',
    column: 'totp_secret',
    primaryKey: 'name_key',
    owner: 'name',
    alive: sql<boolean>`totp_secret is not null`,
    contextOf: ({ row }) => totpContext(row),
  },
  ...(['secret', 'former_secret'] as const).map((column) => ({
    use: 'secrets of endpoints' as const,
    table: 'event_endpoints' as const,
    column,
    primaryKey: 'id',
    owner: 'client',
    alive: sql<boolean>`${sql.ref(column)} is not null`,
    contextOf: ({ row }: Pick<EncryptedValue, 'row'>) => endpointContext(row),
  })),
  {
    use: 'the audit log',
    table: 'settings',
    column: 'value',
    primaryKey: 'name',
    owner: 'name',
    alive: sql<boolean>`name = ${auditKeySetting}`,
    contextOf: () => auditKeyContext,
  },
]

/** The columns with encrypted values that exist: before the migrations some or all are missing. */
export async function listEncryptedColumns(db: Db): Promise<readonly EncryptedColumn[]> {
  const tables = [...new Set(encryptedColumns.map(({ table }) => table))]
  const { rows } = await sql<{ name: string }>`
    select name from unnest(${tables}::text[]) as name where to_regclass(name) is not null`.execute(
    db,
  )
  const found = new Set(rows.map(({ name }) => name))
  return encryptedColumns.filter(({ table }) => found.has(table))
}

/**
 * The ids of the keys that encrypted the column's values; one step of the index per id, with any number of rows. DISTINCT would read
 * every row: https://wiki.postgresql.org/wiki/Loose_indexscan
 */
export async function findEncryptionKeys(
  db: Db,
  { table, column, alive }: EncryptedColumn,
): Promise<string[]> {
  const id = keyIn(column)
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
    where ${alive} and ${keyIn(column)} = ${keyId} and ${sql.ref(primaryKey)} > ${after}
    order by ${sql.ref(primaryKey)} limit ${limit}`.execute(db)
  return rows
}

/** How many values each key encrypted, apart from this one. */
export async function countEncryptedByOthers(
  db: Db,
  { table, column, alive }: EncryptedColumn,
  keyId: string,
): Promise<{ key: string; values: number }[]> {
  const { rows } = await sql<{ key: string; values: number }>`
    select ${keyIn(column)} as key, count(*)::int as values from ${sql.table(table)}
    where ${alive} and ${keyIn(column)} <> ${keyId} group by 1 order by 1`.execute(db)
  return rows
}

/** Replaces a value by its new form. False when it has changed meanwhile. */
export async function replaceEncrypted(
  db: Db | Trx,
  { table, column, primaryKey }: Pick<EncryptedColumn, 'table' | 'column' | 'primaryKey'>,
  { row, encrypted }: Pick<EncryptedValue, 'row' | 'encrypted'>,
  renewed: string | null,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update ${sql.table(table)} set ${sql.ref(column)} = ${renewed}
    where ${sql.ref(primaryKey)} = ${row} and ${sql.ref(column)} = ${encrypted}`.execute(db)
  return numAffectedRows === 1n
}

/** Ends the logins whose verifier this key encrypted. */
export async function deleteStatesEncryptedBy(db: Db, keyId: string): Promise<void> {
  await sql`delete from oauth_states where split_part(code_verifier, '.', 2) = ${keyId}`.execute(db)
}

/** An encrypted value names its key between the first two dots. */
function keyIn(column: string): RawBuilder<string> {
  return sql<string>`split_part(${sql.ref(column)}, '.', 2)`
}
