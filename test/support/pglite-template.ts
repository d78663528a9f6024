import { createHash } from 'node:crypto'
import { openAsBlob } from 'node:fs'
import { access, cp, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import type { Database } from '../../src/db/database.ts'
import { migrate, migrationsFolder } from '../../src/db/migrate.ts'
import { build, openDatabase } from '../../src/db/open-database.ts'
import { openPglite } from '../../src/db/pglite-engine.ts'

/** Inside node_modules: ours alone, ignored by git, and gone with the next `npm ci`. */
const cacheFolder = fileURLToPath(new URL('../../node_modules/.cache/tillbridge/', import.meta.url))
const UNUSED_AFTER_MS = 24 * 60 * 60 * 1000

/** A database before any migration, made once (2.5 s). */
export async function newPgliteTemplate(): Promise<Blob> {
  return await openAsBlob(await cached('new.tar', (path) => dump(path)))
}

/** A migrated empty database, made once per content of the migrations and loaded from then on (0.4 s). */
export async function pgliteTemplate(): Promise<Blob> {
  const path = await cached('migrated.tar', async (unfinished) => {
    await dump(unfinished, { from: await newPgliteTemplate(), prepare: migrateAndShrink })
  })
  return await openAsBlob(path)
}

/**
 * Loading writes every file and clears all shared buffers. The tests' rows fit in a quarter of the usual 128 MB, and nobody
 * creates a database from the templates of the server.
 */
async function migrateAndShrink(database: Database): Promise<void> {
  await migrate(database)
  await sql`alter system set shared_buffers = '32MB'`.execute(database.db)
  await sql`update pg_database set datistemplate = false where datistemplate`.execute(database.db)
  await sql`drop database template0`.execute(database.db)
  await sql`drop database template1`.execute(database.db)
}

/** Puts a migrated empty database into a data folder, as a service that was stopped leaves it. */
export async function prepareData(dataDir: string): Promise<void> {
  const prepared = await cached('folder', async (path) => {
    const database = await openDatabase({ dataDir: path, loadDataDir: await pgliteTemplate() })
    await database.close()
  })
  await cp(prepared, dataDir, { recursive: true })
}

/** Removes the templates of migrations that were edited since. */
export async function removeOldTemplates(): Promise<void> {
  const current = await fingerprint()
  for (const name of await readdir(cacheFolder)) {
    if (name.startsWith(current)) continue
    const { mtimeMs } = await stat(cacheFolder + name)
    if (Date.now() - mtimeMs > UNUSED_AFTER_MS) {
      await rm(cacheFolder + name, { recursive: true, force: true })
    }
  }
}

/** The path of what `make` leaves at the path that it is given: whole or not at all, since others may be at it too. */
async function cached(name: string, make: (path: string) => Promise<void>): Promise<string> {
  const path = `${cacheFolder}${await fingerprint()}-${name}`
  if (await isThere(path)) return path
  await mkdir(cacheFolder, { recursive: true })
  const unfinished = `${path}.${process.pid}`
  await make(unfinished)
  await rename(unfinished, path).catch(async (error: unknown) => {
    if (!(await isThere(path))) throw error
    await rm(unfinished, { recursive: true })
  })
  return path
}

function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

async function dump(
  path: string,
  more: { from?: Blob; prepare?: (database: Database) => Promise<unknown> } = {},
): Promise<void> {
  const { from, prepare } = more
  const engine = await openPglite({ log: () => {}, ...(from && { loadDataDir: from }) })
  const database = build(engine)
  await prepare?.(database)
  const dumped = await engine.pglite.dumpDataDir('none')
  await database.close()
  await writeFile(path, dumped.stream())
}

async function fingerprint(): Promise<string> {
  const hash = createHash('sha256')
  const require = createRequire(import.meta.url)
  const manifest = require.resolve('@electric-sql/pglite').replace(/dist.*$/, 'package.json')
  hash.update(await readFile(manifest)).update(await readFile(fileURLToPath(import.meta.url)))
  for (const name of (await readdir(migrationsFolder)).sort()) {
    hash.update(`${name}\n`).update(await readFile(migrationsFolder + name))
  }
  return hash.digest('hex').slice(0, 16)
}
