import { mkdirSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import type { Engine, Log } from './engine.ts'
import { lockFolder } from './folder-lock.ts'
import { makeNewPglite } from './new-pglite.ts'
import { copyPglite } from './pglite-copy.ts'
import { pgliteDialect } from './pglite-dialect.ts'
import { keepParserSmall } from './small-parser.ts'
import { typeParsers } from './statements.ts'
import { startVacuum } from './vacuum.ts'

type PgliteOptions = {
  /** The database is in `${dataDir}/pglite`; without it in memory. */
  dataDir?: string
  /** A result of PGlite.dumpDataDir, instead of an empty database. */
  loadDataDir?: Blob | File
  log: Log
}

/**
 * Starts the embedded database: 2.5 to 5 s for a new one, 0.5 s for an existing or loaded one. It takes about 350 MB
 * of memory, and 650 MB in another process while a new one is made. Queries of `pglite` wait for open transactions,
 * so do not await them inside one.
 * @throws DatabaseLockedError if another process has the folder.
 */
export async function openPglite(options: PgliteOptions): Promise<Engine & { pglite: PGlite }> {
  const folder = options.dataDir === undefined ? undefined : resolve(options.dataDir)
  const unlock = folder === undefined ? () => {} : lockFolder(folder)
  try {
    const pglite = await createPglite(folder, options.loadDataDir)
    const stopVacuum = startVacuum(pglite, options.log)
    let stopped = false
    const listening = new Map<string, Set<(payload: string) => void>>()
    return {
      name: 'pglite',
      pglite,
      dialect: pgliteDialect(pglite),
      ...(folder !== undefined && {
        copyFiles: (target, signal) => copyPglite(pglite, filesOf(folder), filesOf(target), signal),
      }),
      // There is no connection to lose, so there are no gaps.
      listen: async (channel, { onPayload }) => {
        // Quoted, or PGlite would fold capitals while pg_notify does not. The function that `listen` returns omits the
        // quotes.
        const name = quoted(channel)
        // A function of its own per call, since PGlite keeps a set of them.
        const own = (payload: string) => onPayload(payload)
        await pglite.listen(name, own)
        const others = listening.get(channel) ?? new Set()
        listening.set(channel, others.add(own))
        return async () => {
          others.delete(own)
          if (!stopped) await pglite.unlisten(name, own)
        }
      },
      notifyLocal: (channel, payload) => {
        for (const own of listening.get(channel) ?? []) own(payload)
      },
      stop: async () => {
        stopped = true
        await stopVacuum()
      },
      disconnect: async () => {
        await pglite.close()
        unlock()
      },
    }
  } catch (error) {
    unlock()
    throw error
  }
}

/** The database folder inside a data folder. */
export function filesOf(dataDir: string): string {
  return join(dataDir, 'pglite')
}

function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`
}

async function createPglite(
  folder: string | undefined,
  loadDataDir: Blob | File | undefined,
): Promise<PGlite> {
  const options = { parsers: typeParsers, ...(loadDataDir && { loadDataDir }) }
  if (folder === undefined) return await begun(new PGlite(options))
  const files = filesOf(folder)
  mkdirSync(files, { recursive: true, mode: 0o700 })
  if (!loadDataDir && readdirSync(files).length === 0) await makeNewPglite(files)
  return await begun(new PGlite(files, options))
}

async function begun(pglite: PGlite): Promise<PGlite> {
  keepParserSmall(pglite)
  await pglite.waitReady
  // Otherwise each 16 MB of log is written twice, first as zeros: 4% of a first import. No write is forced to disk
  // anyway.
  await pglite.exec('set wal_init_zero = off')
  return pglite
}
