import { existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { type Database, openDatabase } from '../db/database.ts'
import { lockFolder } from '../db/folder-lock.ts'
import { filesOf } from '../db/start-pglite.ts'
import { syncFolder, syncTree } from '../files/durable-files.ts'
import { CopyError } from './backup-parts.ts'

/**
 * Makes an embedded database in a data folder without one, and lets `fill` fill it. A single rename puts it in place,
 * after it is complete and on the disk. If the process is killed before, the folder has no database, and the next
 * attempt removes what is left.
 *
 * @throws DatabaseLockedError when the folder is in use, and CopyError when it has a database.
 */
export async function makeEmbedded<T>(
  dataDir: string,
  fill: (database: Database) => Promise<T>,
): Promise<T> {
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
      const result = await withDatabase({ dataDir: unfinished }, fill)
      await syncTree(filesOf(unfinished))
      await rename(filesOf(unfinished), filesOf(folder))
      await syncFolder(folder)
      return result
    } finally {
      await rm(unfinished, { recursive: true, force: true })
    }
  } finally {
    unlock()
  }
}

export function hasEmbedded(dataDir: string): boolean {
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
