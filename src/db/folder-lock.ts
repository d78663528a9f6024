import { chmodSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { DatabaseLockedError } from './database-failures.ts'

const SQLITE_BUSY = 5

/**
 * Creates the folder (mode 0700) if needed and locks it for this process. Returns the function that releases it. The
 * operating system frees the lock when the process dies, so it cannot become stale, unlike a file with a process
 * number.
 * @throws DatabaseLockedError if another open database has it.
 */
export function lockFolder(folder: string): () => void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const file = join(folder, 'lock.sqlite')
  const lock = new DatabaseSync(file, { timeout: 0 })
  try {
    // The journal in memory: nothing is written, so no file can be left beside the lock.
    lock.exec('PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE')
    chmodSync(file, 0o600)
  } catch (error) {
    lock.close()
    if (isBusy(error)) throw new DatabaseLockedError(folder, { cause: error })
    throw error
  }
  return () => lock.close()
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY
}
