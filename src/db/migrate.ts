import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { codeOf } from '../domain/error-code.ts'
import { OperatorError } from '../errors/operator-error.ts'
import { analyzeTables } from './analyze-tables.ts'
import type { Database, Db, Trx } from './database.ts'
import type { DatabaseLog } from './engine.ts'

export const migrationsFolder: string = fileURLToPath(new URL('../../migrations/', import.meta.url))

/** Distinguishes the start from other failures of the database; `migration` is the file that failed, if one did. */
export class MigrationError extends OperatorError {
  readonly migration: string | undefined

  constructor(migration: string | undefined, cause: unknown) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    super(migration ? `${migration} failed: ${reason}` : `Migrations failed: ${reason}`, { cause })
    this.name = 'MigrationError'
    this.migration = migration
  }
}

/** The database has migrations that this version lacks. */
export class NewerDatabaseError extends OperatorError {
  constructor(unknown: readonly string[]) {
    super(
      `This database was made by a newer version of tillbridge, which applied ${unknown.join(', ')}. ` +
        'Start that version or a newer one, or restore a backup of this version into an empty database',
    )
    this.name = 'NewerDatabaseError'
  }
}

type MigrateOptions = {
  folder?: string
  log?: DatabaseLog
  sleep?: (ms: number) => Promise<unknown>
}

const UNDEFINED_TABLE = '42P01'
const LOCK_NOT_AVAILABLE = '55P03'
/** Kysely's own number, so that processes of versions with Kysely's locking wait too. */
const lockId = '3853314791062309107'
/** A waiting lock request makes all later ones wait; a backup that reads delays both. */
const lockWithinMs = 1_000
const lockAgainMs = 2_000
const lockAttempts = 200

/**
 * Applies the new files `NNNN_what.sql` of the folder in one transaction and returns their names. Processes that
 * start together wait for each other. Processes of the version before continue. Then analyzes the tables.
 * @throws NewerDatabaseError if the database has a migration that the folder lacks.
 * @throws MigrationError.
 */
export async function migrate(database: Database, options: MigrateOptions = {}): Promise<string[]> {
  const { folder = migrationsFolder, log = () => {}, sleep = wait } = options
  const { pending } = await compareWith(folder, await readApplied(database.db))
  if (pending.length === 0) return []
  const applied = await applyPending(database, { folder, log, sleep })
  if (applied.length > 0) await analyzeTables(database, 'all')
  return applied
}

async function applyPending(
  database: Database,
  { folder, log, sleep }: Required<MigrateOptions>,
): Promise<string[]> {
  return await database.maintenance(async (db) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await db.transaction().execute((trx) => migrateInTurn(trx, folder))
      } catch (error) {
        const isLocked =
          error instanceof MigrationError && codeOf(error.cause) === LOCK_NOT_AVAILABLE
        if (!isLocked || attempt === lockAttempts) throw error
        log(
          'warn',
          { migration: error.migration, attempt },
          'a migration waits for a table that others use',
        )
        await sleep(lockAgainMs)
      }
    }
  })
}

/**
 * Most starts need no migration: one query shows this, where the migrator takes half a second.
 *
 * @throws NewerDatabaseError.
 */
export async function refuseNewerDatabase(db: Db, folder = migrationsFolder): Promise<void> {
  await compareWith(folder, await readApplied(db))
}

async function migrateInTurn(trx: Trx, folder: string): Promise<string[]> {
  await liftLimits(trx)
  await lockMigrations(trx)
  await requireSchema(trx)
  await sql`set local lock_timeout = ${sql.lit(lockWithinMs)}`.execute(trx)
  return await migrateWithin(trx, folder)
}

/** Kysely's own error of a role without this right is that of a later statement. */
async function requireSchema(trx: Trx): Promise<void> {
  const { rows } = await sql<{ role: string; may: boolean }>`
    select current_user as role, has_schema_privilege('public', 'create') as may`.execute(trx)
  const [right] = rows
  if (right?.may !== false) return
  throw new OperatorError(
    `The role ${right.role} may not create tables in this database: make it the owner (alter database … owner to ${right.role})`,
  )
}

async function readApplied(db: Db): Promise<string[]> {
  try {
    const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(db)
    return rows.map(({ name }) => name)
  } catch (error) {
    if (codeOf(error) === UNDEFINED_TABLE) return []
    throw error
  }
}

async function compareWith(folder: string, applied: string[]): Promise<{ pending: string[] }> {
  const known = await listMigrations(folder)
  const unknown = applied.filter((name) => !known.includes(name))
  if (unknown.length > 0) throw new NewerDatabaseError(unknown.sort(byName))
  return { pending: known.filter((name) => !applied.includes(name)) }
}

/**
 * Lifts time limits of the role, which are for short work. A server notices a lost client only at the end of a
 * statement, and keeps the locks of a killed process until then. Some systems cannot check earlier.
 */
export async function liftLimits(trx: Trx): Promise<void> {
  await sql`
    set local statement_timeout = 0;
    set local lock_timeout = 0;
    set local idle_in_transaction_session_timeout = 0;
    do $$ begin
      perform set_config('client_connection_check_interval', '1s', true);
    exception when others then null;
    end $$`.execute(trx)
}

/**
 * Waits until no other process migrates, and blocks others until the transaction ends. The lock belongs to the
 * transaction, because a pooler passes the session to another client.
 */
export async function lockMigrations(trx: Trx): Promise<void> {
  await sql`select pg_advisory_xact_lock(${sql.lit(BigInt(lockId))})`.execute(trx)
}

/** Like `migrate`, inside a transaction that has the lock. */
export async function migrateWithin(trx: Trx, folder = migrationsFolder): Promise<string[]> {
  const migrations = await readMigrations(folder)
  const migrator = new Migrator({
    db: trx,
    provider: { getMigrations: async () => migrations },
    nameComparator: byName,
  })
  const { error, results } = await migrator.migrateToLatest()
  if (error !== undefined) {
    const failed = results?.find(({ status }) => status === 'Error')
    throw new MigrationError(failed?.migrationName, error)
  }
  return (results ?? []).map(({ migrationName }) => migrationName)
}

/** The names of the migrations of this version, in their order. */
export async function listMigrations(folder = migrationsFolder): Promise<string[]> {
  return (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort(byName)
}

function byName(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}

async function readMigrations(folder: string): Promise<Record<string, Migration>> {
  const migrations: Record<string, Migration> = {}
  for (const name of await listMigrations(folder)) {
    const text = await readFile(`${folder}/${name}`, 'utf8')
    migrations[name] = {
      up: async (db) => {
        await sql.raw(text).execute(db)
      },
    }
  }
  return migrations
}
