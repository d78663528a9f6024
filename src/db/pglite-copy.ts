import { constants, copyFileSync } from 'node:fs'
import { copyFile, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PGlite } from '@electric-sql/pglite'
import { codeOf } from './database-failures.ts'

/** Copied at the end: it has the changes of the other files during the copy. */
const log = 'pg_wal'
/** Written last, in one write: it must be consistent. */
const control = 'global/pg_control'
const processId = 'postmaster.pid'

/**
 * Copies the files of a running embedded database, by PostgreSQL's manual ("Making a Base Backup Using the Low Level
 * API"). Files that change meanwhile are repaired from the log when the copy is first opened. Other queries wait only
 * for the checkpoint at the start, which writes at most 128 MB.
 */
export async function copyPglite(
  pglite: PGlite,
  from: string,
  to: string,
  signal: AbortSignal,
): Promise<void> {
  await mkdir(to, { recursive: true, mode: 0o700 })
  await pglite.query(`select pg_backup_start('tillbridge', fast => true)`)
  let label: string
  try {
    await copyTree(from, to, signal, [log, control, processId])
  } finally {
    // There is no archive to wait for.
    const { rows } = await pglite.query<{ labelfile: string }>(
      'select labelfile from pg_backup_stop(wait_for_archive => false)',
    )
    label = rows[0]?.labelfile as string
  }
  await copyTree(join(from, log), join(to, log), signal)
  // Synchronous on this thread, where the embedded database writes: no write can happen meanwhile.
  copyFileSync(join(from, control), join(to, control))
  await writeFile(join(to, 'backup_label'), label, { mode: 0o600 })
}

async function copyTree(
  from: string,
  to: string,
  signal: AbortSignal,
  without: readonly string[] = [],
  inner = '',
): Promise<void> {
  await mkdir(join(to, inner), { recursive: true, mode: 0o700 })
  for (const entry of await readdir(join(from, inner), { withFileTypes: true })) {
    signal.throwIfAborted()
    // With the separator of PostgreSQL's own names, on Windows too.
    const name = inner === '' ? entry.name : `${inner}/${entry.name}`
    if (without.includes(name)) continue
    if (entry.isDirectory()) await copyTree(from, to, signal, without, name)
    else if (entry.isFile()) await copyOne(join(from, name), join(to, name))
  }
}

async function copyOne(from: string, to: string): Promise<void> {
  try {
    // If the file system can, it shares the blocks until one side changes them.
    await copyFile(from, to, constants.COPYFILE_FICLONE)
  } catch (error) {
    // Dropped or truncated meanwhile: the log has it.
    if (codeOf(error) !== 'ENOENT') throw error
  }
}
