import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { OperatorError } from '../errors/operator-error.ts'
import type { Database, Db, Trx } from './database.ts'
import { codeOf } from './database-failures.ts'

export const migrationsFolder: string = fileURLToPath(new URL('../../migrations/', import.meta.url))

/** Sets the start apart from other failures of the database; `migration` is the file that failed, if one did. */
export class MigrationError extends OperatorError {
  readonly migration: string | undefined

  constructor(migration: string | undefined, cause: unknown) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    super(migration ? `${migration} failed: ${reason}` : `Migrations failed: ${reason}`, { cause })
    this.name = 'MigrationError'
    this.migration = migration
  }
}

const UNDEFINED_TABLE = '42P01'
/** Kysely's own number, so that processes of versions that leave the locking to it wait too. */
const lockId = '3853314791062309107'

/**
 * Applies the files `NNNN_what.sql` of the folder that the database has not had yet, all in one transaction, and returns
 * their names. Processes that start together wait for each other. Throws MigrationError, also when the database knows a
 * migration that the folder lacks: then it belongs to a newer version of the service.
 */
export async function migrate(database: Database, folder = migrationsFolder): Promise<string[]> {
  if (await isUpToDate(database.db, folder)) return []
  return await database.maintenance((db) =>
    db.transaction().execute(async (trx) => {
      await liftLimits(trx)
      await lockMigrations(trx)
      return await migrateWithin(trx, { folder })
    }),
  )
}

/** Most starts find nothing to do: one question is enough for them, where the migrator asks for half a second. */
async function isUpToDate(db: Db, folder: string): Promise<boolean> {
  try {
    const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(db)
    const applied = new Set(rows.map(({ name }) => name))
    const known = await listMigrations(folder)
    return applied.size === known.length && known.every((name) => applied.has(name))
  } catch (error) {
    if (codeOf(error) === UNDEFINED_TABLE) return false
    throw error
  }
}

/** The role may have time limits of its own, which are for work of milliseconds. */
export async function liftLimits(trx: Trx): Promise<void> {
  await sql`
    set local statement_timeout = 0;
    set local lock_timeout = 0;
    set local idle_in_transaction_session_timeout = 0`.execute(trx)
}

/**
 * Waits until nobody else migrates, and keeps the others waiting until the transaction ends. Bound to the transaction and
 * not to the session, which behind a pooler changes under our hands.
 */
export async function lockMigrations(trx: Trx): Promise<void> {
  await sql`select pg_advisory_xact_lock(${sql.lit(BigInt(lockId))})`.execute(trx)
}

/** As `migrate`, inside a transaction that holds the lock; only up to the named migration when `upTo` is given. */
export async function migrateWithin(
  trx: Trx,
  { folder = migrationsFolder, upTo }: { folder?: string; upTo?: string } = {},
): Promise<string[]> {
  const migrations = await readMigrations(folder)
  const migrator = new Migrator({
    db: trx,
    provider: { getMigrations: async () => migrations },
    nameComparator: byName,
  })
  const { error, results } = await (upTo === undefined
    ? migrator.migrateToLatest()
    : migrator.migrateTo(upTo))
  if (error !== undefined) {
    const failed = results?.find(({ status }) => status === 'Error')
    throw new MigrationError(failed?.migrationName, error)
  }
  return (results ?? []).map(({ migrationName }) => migrationName)
}

/** The names of the migrations that this version has, in their order. */
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
