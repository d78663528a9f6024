import { constants, copyFileSync } from 'node:fs'
import { copyFile, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PGlite } from '@electric-sql/pglite'
import { codeOf } from './database-failures.ts'

/** Copied at the end: what happens to the other files while they are copied stands there. */
const log = 'pg_wal'
/** Written last, and in one go: it must not be torn. */
const control = 'global/pg_control'
const processId = 'postmaster.pid'

/**
 * Copies the files of an embedded database while it runs, as PostgreSQL's manual has it ("Making a Base Backup Using the
 * Low Level API"): files that change under the copy are mended from the log when the copy is first opened. Everybody else
 * waits for the checkpoint at the beginning only, which writes 128 MB at most.
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
    // Nothing waits for an archive here.
    const { rows } = await pglite.query<{ labelfile: string }>(
      'select labelfile from pg_backup_stop(wait_for_archive => false)',
    )
    label = rows[0]?.labelfile as string
  }
  await copyTree(join(from, log), join(to, log), signal)
  // On this thread, where the embedded database writes too: nothing can come in between.
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
    // Where the file system can, it shares the blocks until one side changes them.
    await copyFile(from, to, constants.COPYFILE_FICLONE)
  } catch (error) {
    // Dropped or emptied meanwhile: the log knows.
    if (codeOf(error) !== 'ENOENT') throw error
  }
}
