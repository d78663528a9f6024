import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { OperatorError } from '../errors/operator-error.ts'
import type { Database, Db, Trx } from './database.ts'
import { codeOf } from './database-failures.ts'
import type { Log } from './engine.ts'

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

/** A migration must not run beside a process of an earlier version, and there may be one. */
export class NotAloneError extends OperatorError {
  constructor({ name, reason }: Alone, found: string, cure: string) {
    super(
      `${name} was not applied, since processes of the version before cannot work beside it: ${reason}. ${found}. ${cure}`,
    )
    this.name = 'NotAloneError'
  }
}

type MigrateOptions = {
  folder?: string
  /** Migrations that must not run while another process uses the database, but are applied nevertheless. */
  anyway?: readonly string[]
  log?: Log
  sleep?: (ms: number) => Promise<unknown>
}

const UNDEFINED_TABLE = '42P01'
const LOCK_NOT_AVAILABLE = '55P03'
/** Kysely's own number, so that processes of versions with Kysely's locking wait too. */
const lockId = '3853314791062309107'
/** The first number of locks whose second number is a session that only waits for the migrations. */
const startingId = 1_953_066_860
/** The beginning of a migration that must not run beside a process of an earlier version. */
const aloneMark = /^-- alone: (.*)/
/** A clean stop ends within this time, and processes that start together are ready within it. */
const othersWithinMs = 20_000
const othersEveryMs = 500
/** A waiting lock request makes all later ones wait; a backup that reads delays both. */
const lockWithinMs = 1_000
const lockAgainMs = 2_000
const lockAttempts = 200

/**
 * Applies the new files `NNNN_what.sql` of the folder in one transaction and returns their names. Processes that
 * start together wait for each other. Processes of the earlier version continue; a migration that they do not
 * tolerate waits up to 20 s for their end.
 * @throws NewerDatabaseError if the database has a migration that the folder lacks.
 * @throws NotAloneError, MigrationError.
 */
export async function migrate(database: Database, options: MigrateOptions = {}): Promise<string[]> {
  const { folder = migrationsFolder, log = () => {}, sleep = wait } = options
  const { pending } = await compareWith(folder, await readApplied(database.db))
  if (pending.length === 0) return []
  return await database.maintenance(async (db) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await db.transaction().execute((trx) => migrateInTurn(trx, database, options))
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

async function migrateInTurn(
  trx: Trx,
  database: Database,
  { folder = migrationsFolder, anyway = [], sleep = wait }: MigrateOptions,
): Promise<string[]> {
  await liftLimits(trx)
  await sayThatWeStart(trx, database)
  await lockMigrations(trx)
  const applied = await readAppliedWithin(trx)
  const { pending } = await compareWith(folder, applied)
  if (applied.length > 0) {
    const alone = (await readAlone(folder, pending)).filter(({ name }) => !anyway.includes(name))
    if (alone[0]) await untilAlone(trx, database, alone[0], sleep)
  }
  await sql`set local lock_timeout = ${sql.lit(lockWithinMs)}`.execute(trx)
  return await migrateWithin(trx, { folder })
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

/** A failed statement would end the transaction. */
async function readAppliedWithin(trx: Trx): Promise<string[]> {
  const { rows } = await sql<{ there: boolean }>`
    select to_regclass('kysely_migration') is not null as there`.execute(trx)
  return rows[0]?.there ? await readApplied(trx) : []
}

async function compareWith(folder: string, applied: string[]): Promise<{ pending: string[] }> {
  const known = await listMigrations(folder)
  const unknown = applied.filter((name) => !known.includes(name))
  if (unknown.length > 0) throw new NewerDatabaseError(unknown.sort(byName))
  return { pending: known.filter((name) => !applied.includes(name)) }
}

type Alone = { name: string; reason: string }

/** The migrations that must not run beside an earlier version, with the reason. */
async function readAlone(folder: string, names: readonly string[]): Promise<Alone[]> {
  const found: Alone[] = []
  for (const name of names) {
    const reason = aloneMark.exec(await readFile(`${folder}/${name}`, 'utf8'))?.[1]
    if (reason !== undefined) found.push({ name, reason })
  }
  return found
}

/** Shows other processes, until the transaction ends, which sessions only wait for the migrations. */
async function sayThatWeStart(trx: Trx, { ownSessions }: Database): Promise<void> {
  const pids = ownSessions?.()
  if (!pids) return
  await sql`
    select pg_advisory_xact_lock_shared(${sql.lit(startingId)}, pid)
    from unnest(${pids}::int[] || pg_backend_pid()) as pid`.execute(trx)
}

/**
 * Waits until no other process uses the database.
 *
 * @throws NotAloneError when one still does, or when that cannot be determined.
 */
async function untilAlone(
  trx: Trx,
  { ownSessions }: Database,
  alone: Alone,
  sleep: (ms: number) => Promise<unknown>,
): Promise<void> {
  // The embedded database has no other process.
  if (!ownSessions) return
  const cure = `Stop them and start again, or apply it all the same with MIGRATE_ANYWAY=${alone.name}`
  if (!ownSessions()) {
    throw new NotAloneError(alone, 'Behind a pooler it cannot be seen whether one still runs', cure)
  }
  for (let waitedMs = 0; ; waitedMs += othersEveryMs) {
    const others = await listOthers(trx)
    if (others.length === 0) return
    if (waitedMs >= othersWithinMs) {
      const found = `Sessions of other processes on this database: ${others.join('; ')}`
      throw new NotAloneError(alone, found, cure)
    }
    await sleep(othersEveryMs)
  }
}

/** Sessions of the service on this database, without those of processes that wait for the migrations. */
async function listOthers(trx: Trx): Promise<string[]> {
  // Within a transaction the server would return the sessions of the first query again.
  await sql`select pg_stat_clear_snapshot()`.execute(trx)
  const { rows } = await sql<{ said: string }>`
    select concat_ws(' ', 'process', pid, 'from', coalesce(host(client_addr), 'this machine'), 'since', backend_start::timestamptz(0)) as said
    from pg_stat_activity
    where datname = current_database() and application_name = current_setting('application_name')
      and pid not in (
        select objid::bigint from pg_locks
        where locktype = 'advisory' and classid::bigint = ${sql.lit(startingId)} and objsubid = 2
          and database = (select oid from pg_database where datname = current_database()))
    order by backend_start`.execute(trx)
  return rows.map(({ said }) => said)
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

/** Like `migrate`, inside a transaction that has the lock; only up to the named migration when `upTo` is given. */
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
