import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import type { Database } from './database.ts'

export const migrationsFolder: string = fileURLToPath(new URL('../../migrations/', import.meta.url))

/** Sets the start apart from other failures of the database; `migration` is the file that failed, if one did. */
export class MigrationError extends Error {
  readonly migration: string | undefined

  constructor(migration: string | undefined, cause: unknown) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    super(migration ? `${migration} failed: ${reason}` : `Migrations failed: ${reason}`, { cause })
    this.name = 'MigrationError'
    this.migration = migration
  }
}

/**
 * Applies the files `NNNN_what.sql` of the folder that the database has not had yet, all in one transaction, and returns
 * their names. Processes that start together wait for each other. Throws MigrationError, also when the database knows a
 * migration that the folder lacks: then it belongs to a newer version of the service.
 */
export async function migrate(database: Database, folder = migrationsFolder): Promise<string[]> {
  const migrations = await readMigrations(folder)
  return await database.maintenance(async (db) => {
    const migrator = new Migrator({
      db,
      provider: { getMigrations: async () => migrations },
      nameComparator: (a, b) => (a < b ? -1 : Number(a > b)),
    })
    const { error, results } = await migrator.migrateToLatest()
    if (error !== undefined) {
      const failed = results?.find(({ status }) => status === 'Error')
      throw new MigrationError(failed?.migrationName, error)
    }
    return (results ?? []).map(({ migrationName }) => migrationName)
  })
}

async function readMigrations(folder: string): Promise<Record<string, Migration>> {
  const migrations: Record<string, Migration> = {}
  for (const name of await readdir(folder)) {
    if (!name.endsWith('.sql')) continue
    const text = await readFile(`${folder}/${name}`, 'utf8')
    migrations[name] = {
      up: async (db) => {
        await sql.raw(text).execute(db)
      },
    }
  }
  return migrations
}
