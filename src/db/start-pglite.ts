import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PGlite } from '@electric-sql/pglite'
import { OperatorError } from '../errors/operator-error.ts'
import { keepParserSmall } from './pglite-wasm-memory.ts'
import { typeParsers } from './statements.ts'

const maker = fileURLToPath(new URL('start-pglite-entry.ts', import.meta.url))
const unfinishedSuffix = '.unfinished'

/** The database folder inside a data folder. */
export function filesOf(dataDir: string): string {
  return join(dataDir, 'pglite')
}

/** An embedded database in its folder, or without one in memory. A new folder gets an empty one. */
export async function startPglite(
  folder: string | undefined,
  loadDataDir: Blob | File | undefined,
): Promise<PGlite> {
  const options = { parsers: typeParsers, ...(loadDataDir && { loadDataDir }) }
  if (folder === undefined) return await begun(new PGlite(options))
  const files = filesOf(folder)
  mkdirSync(files, { recursive: true, mode: 0o700 })
  if (!loadDataDir && readdirSync(files).length === 0) await makeNewPglite(files)
  else if (!loadDataDir) requireDatabase(files)
  return await begun(new PGlite(files, options))
}

/**
 * PGlite would make an empty database in a folder without these files, beside what is left of the former one.
 * @throws OperatorError.
 */
function requireDatabase(files: string): void {
  const missing = ['PG_VERSION', 'global/pg_control', 'base'].filter(
    (name) => !existsSync(join(files, name)),
  )
  if (missing.length === 0) return
  throw new OperatorError(
    `The folder ${files} is not empty and holds no whole database: ${missing.join(', ')} is missing. Restore a backup, or name another DATA_DIR; nothing was changed.`,
  )
}

async function begun(pglite: PGlite): Promise<PGlite> {
  keepParserSmall(pglite)
  await pglite.waitReady
  // Otherwise each 16 MB of log is written twice, first as zeros: 4% of a first import. No write is forced to disk
  // anyway.
  await pglite.exec('set wal_init_zero = off')
  return pglite
}

/**
 * Creates an empty embedded database at `files`, in 2 to 4 s. A separate process does it, because its 650 MB of
 * memory would stay with the service. The database is made in a sibling folder, so that a killed process leaves no
 * partial one; the next start removes that folder.
 * @param files the folder of the database, existing and empty, inside a folder that the caller has locked.
 */
async function makeNewPglite(files: string): Promise<void> {
  const around = dirname(files)
  const prefix = `${basename(files)}.`
  for (const name of await readdir(around)) {
    if (name.startsWith(prefix) && name.endsWith(unfinishedSuffix)) {
      await rm(join(around, name), { recursive: true, force: true, maxRetries: 5 })
    }
  }
  // The process of a killed service may still run for a moment, so each uses its own name.
  const unfinished = join(around, `${prefix}${process.pid}${unfinishedSuffix}`)
  await mkdir(unfinished, { mode: 0o700 })
  await runMaker(unfinished)
  // Not `rm`: a folder that is not empty is never removed.
  await rmdir(files)
  await rename(unfinished, files)
}

async function runMaker(folder: string): Promise<void> {
  const child = fork(maker, [folder], {
    execArgv: [],
    // No setting and no secret.
    env: {},
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  let output = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  if (code === 0) return
  throw new Error(`The embedded database could not be made (${signal ?? code}): ${output.trim()}`)
}
