import { createHash } from 'node:crypto'
import { openAsBlob } from 'node:fs'
import { access, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { build } from '../../src/db/database.ts'
import { migrate, migrationsFolder } from '../../src/db/migrate.ts'
import { openPglite } from '../../src/db/pglite-engine.ts'

/** Inside node_modules: ours alone, ignored by git, and gone with the next `npm ci`. */
const cacheFolder = fileURLToPath(new URL('../../node_modules/.cache/tillbridge/', import.meta.url))
const UNUSED_AFTER_MS = 24 * 60 * 60 * 1000

/** A migrated empty database, dumped once per content of the migrations (2.5 s) and loaded from then on (0.4 s). */
export async function pgliteTemplate(): Promise<Blob> {
  const file = `${cacheFolder}${await fingerprint()}.tar`
  const exists = await access(file).then(
    () => true,
    () => false,
  )
  if (!exists) await dumpTemplate(file)
  return await openAsBlob(file)
}

/** Removes the templates of migrations that were edited since. */
export async function removeOldTemplates(): Promise<void> {
  const current = `${await fingerprint()}.tar`
  for (const name of await readdir(cacheFolder)) {
    if (name === current) continue
    const { mtimeMs } = await stat(cacheFolder + name)
    if (Date.now() - mtimeMs > UNUSED_AFTER_MS) await rm(cacheFolder + name, { force: true })
  }
}

async function dumpTemplate(file: string): Promise<void> {
  const engine = await openPglite({ log: () => {} })
  const database = build(engine)
  await migrate(database)
  const dump = await engine.pglite.dumpDataDir('none')
  await database.close()
  await mkdir(cacheFolder, { recursive: true })
  // Whole or not at all: another worker may be doing the same.
  const unfinished = `${file}.${process.pid}`
  await writeFile(unfinished, dump.stream())
  await rename(unfinished, file)
}

async function fingerprint(): Promise<string> {
  const hash = createHash('sha256')
  const require = createRequire(import.meta.url)
  const manifest = require.resolve('@electric-sql/pglite').replace(/dist.*$/, 'package.json')
  hash.update(await readFile(manifest))
  for (const name of (await readdir(migrationsFolder)).sort()) {
    hash.update(`${name}\n`).update(await readFile(migrationsFolder + name))
  }
  return hash.digest('hex').slice(0, 16)
}
