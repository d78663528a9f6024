import { access, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { type Database, openDatabase } from '../db/database.ts'
import { lockFolder } from '../db/folder-lock.ts'
import { filesOf } from '../db/pglite-engine.ts'
import { syncFolder, syncTree } from '../files/durable-files.ts'
import { CopyError } from './source.ts'

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
    if (await hasEmbedded(folder)) {
      throw new CopyError(
        `${folder} holds a database already. Nothing was changed. Move its folder pglite away, or restore into another folder: --into FOLDER`,
      )
    }
    const unfinished = join(folder, 'restore.unfinished')
    await rm(unfinished, { recursive: true, force: true })
    try {
      const result = await fillNew(unfinished, fill)
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

export async function hasEmbedded(dataDir: string): Promise<boolean> {
  return await access(filesOf(dataDir)).then(
    () => true,
    () => false,
  )
}

async function fillNew<T>(folder: string, fill: (database: Database) => Promise<T>): Promise<T> {
  const database = await openDatabase({ dataDir: folder })
  try {
    return await fill(database)
  } finally {
    await database.close()
  }
}
