import { existsSync } from 'node:fs'
import { readFile, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import { sql } from 'kysely'
import type { Database } from '../db/database.ts'
import { lockFolder } from '../db/folder-lock.ts'
import { build, openDatabase } from '../db/open-database.ts'
import { openPglite } from '../db/pglite-engine.ts'
import { filesOf } from '../db/start-pglite.ts'
import { syncFolder, syncTree, writeWhole } from '../files/durable-files.ts'
import { rememberBackup } from '../repositories/settings.ts'
import { readMigrationLevel } from './copied-tables.ts'
import { CopyError } from './database-parts.ts'

/**
 * Writes PGlite's dump of an embedded database to a file, complete or not at all, that only its owner can read. No process may use
 * the database.
 *
 * @throws DatabaseLockedError when a process uses it, and CopyError when there is no database, or a file of the name.
 */
export async function dumpEmbedded(dataDir: string, path: string, now: Date): Promise<void> {
  requireEmbedded(dataDir)
  if (existsSync(path)) throw new CopyError(`${path} exists already. Name a new file`)
  const engine = await openPglite({ dataDir, log: () => {} })
  const database = build(engine)
  try {
    await sql`checkpoint`.execute(database.db)
    const dumped = await engine.pglite.dumpDataDir('none')
    await writeWhole(path, await promisify(gzip)(await dumped.arrayBuffer()))
    await rememberBackup(database.db, now)
  } finally {
    await database.close()
  }
}

/**
 * Makes an embedded database from a dump in a data folder without one. A single rename puts it in place, after it is complete and on
 * the disk. If the process is killed before, the folder has no database, and the next attempt removes what is left.
 *
 * @throws DatabaseLockedError when the folder is in use, and CopyError when it has a database, or the file is of no use.
 */
export async function restoreEmbedded(path: string, dataDir: string): Promise<void> {
  const folder = resolve(dataDir)
  const unlock = lockFolder(folder)
  try {
    if (hasEmbedded(folder)) {
      throw new CopyError(
        `${folder} holds a database already. Nothing was changed. Move its folder pglite away, or restore into another folder: --into FOLDER`,
      )
    }
    const unfinished = join(folder, 'restore.unfinished')
    await rm(unfinished, { recursive: true, force: true })
    try {
      await loadDump(path, unfinished)
      await syncTree(filesOf(unfinished))
      await rename(filesOf(unfinished), filesOf(folder))
      await syncFolder(folder)
    } finally {
      await rm(unfinished, { recursive: true, force: true })
    }
  } finally {
    unlock()
  }
}

async function loadDump(path: string, dataDir: string): Promise<void> {
  const packed = await readFile(path)
  const load = async () => {
    // Not left to PGlite: a damaged file would end the process with an unhandled rejection.
    const archive = await promisify(gunzip)(packed)
    if (archive.toString('latin1', 257, 262) !== 'ustar') throw new Error('it is no tar archive')
    const loadDataDir = new Blob([archive])
    return withDatabase({ dataDir, loadDataDir }, ({ db }) => readMigrationLevel(db))
  }
  const level = await load().catch((cause: unknown) => {
    throw new CopyError(
      `${path} is damaged, is no backup of an embedded database, or is one of another major version of PostgreSQL`,
      { cause },
    )
  })
  // PGlite makes an empty database when a file has none.
  if (level.length === 0) throw new CopyError(`${path} is no backup of tillbridge`)
}

function hasEmbedded(dataDir: string): boolean {
  return existsSync(filesOf(dataDir))
}

/** @throws CopyError when the folder has no database. */
export function requireEmbedded(dataDir: string): void {
  if (hasEmbedded(dataDir)) return
  throw new CopyError(`There is no database in ${resolve(dataDir)} (DATA_DIR)`)
}

/** Opens a database for some work, and closes it. */
export async function withDatabase<T>(
  where: Parameters<typeof openDatabase>[0],
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const database = await openDatabase(where)
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}
