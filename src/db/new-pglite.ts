import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const maker = fileURLToPath(new URL('make-pglite.ts', import.meta.url))
const unfinishedSuffix = '.unfinished'

/**
 * Makes an empty embedded database where `files` will be, in 2 to 4 s. In a process of its own, since the memory that it takes, 650
 * MB, would stay with the service until its end; beside its place, so that a process that is killed meanwhile leaves
 * no half of a database there, but something that the next one removes.
 *
 * @param files the folder of the database, there and empty. Whoever calls has the folder around it for itself.
 */
export async function makeNewPglite(files: string): Promise<void> {
  const around = dirname(files)
  const prefix = `${basename(files)}.`
  for (const name of await readdir(around)) {
    if (name.startsWith(prefix) && name.endsWith(unfinishedSuffix)) {
      await rm(join(around, name), { recursive: true, force: true, maxRetries: 5 })
    }
  }
  // The process of one that was killed may still be at work for a moment, so each has a name of its own.
  const unfinished = join(around, `${prefix}${process.pid}${unfinishedSuffix}`)
  await mkdir(unfinished, { mode: 0o700 })
  await runMaker(unfinished)
  // Not `rm`: what is not empty is never taken away.
  await rmdir(files)
  await rename(unfinished, files)
}

async function runMaker(folder: string): Promise<void> {
  const child = fork(maker, [folder], {
    execArgv: [],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  let told = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    told += text
  })
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  if (code === 0) return
  throw new Error(`The embedded database could not be made (${signal ?? code}): ${told.trim()}`)
}
