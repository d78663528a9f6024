/** @module-tag long */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'

/** A new database takes seconds, and many on a busy machine. */
const SLOW = { timeout: 120_000 }

let parent: string
beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'tillbridge-'))
})
afterAll(() => rm(parent, { recursive: true, force: true }))

function forkWriter(dataDir: string): ChildProcess {
  return fork(fileURLToPath(new URL('child-writer.ts', import.meta.url)), [dataDir])
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'close')
  child.kill('SIGKILL')
  await ended
}

async function untilUnfinished(dataDir: string): Promise<string> {
  for (;;) {
    const names = await readdir(dataDir).catch((): string[] => [])
    const unfinished = names.find((name) => name.endsWith('.unfinished'))
    if (unfinished) return unfinished
    await sleep(5)
  }
}

test('a folder with files that are no whole database stops the start and is not changed', async () => {
  const { openDatabase } = await import('../../src/db/open-database.ts')
  const dataDir = join(parent, 'half')
  await mkdir(join(dataDir, 'pglite/base'), { recursive: true })
  await writeFile(join(dataDir, 'pglite/pg_wal.txt'), 'left')
  const opening = openDatabase({ dataDir, log: () => undefined })
  await expect(opening).rejects.toThrow(/PG_VERSION, global\/pg_control is missing/)
  expect((await readdir(join(dataDir, 'pglite'))).sort()).toEqual(['base', 'pg_wal.txt'])
})

test(
  'a first start that is killed while it makes the database leaves nothing of it in its place, and the next one makes it whole',
  SLOW,
  async () => {
    const dataDir = join(parent, 'killed')
    const first = forkWriter(dataDir)
    const unfinished = await untilUnfinished(dataDir)
    await kill(first)
    expect(await readdir(join(dataDir, 'pglite'))).toEqual([])
    // As far as a process may have come that was killed with it.
    await mkdir(join(dataDir, unfinished), { recursive: true })
    await writeFile(join(dataDir, unfinished, 'PG_VERSION'), '18\n')

    const second = forkWriter(dataDir)
    expect(await once(second, 'message')).toMatchObject([{ opened: true }, undefined])
    await kill(second)
    expect((await readdir(dataDir)).filter((name) => name.endsWith('.unfinished'))).toEqual([])
  },
)

test('what making a new database takes is not kept by the service', SLOW, async () => {
  const child = forkWriter(join(parent, 'memory'))
  // Its highest so far: 300 to 350 MB with a database that exists; making one takes more than 600.
  const [message] = await once(child, 'message')
  await kill(child)
  expect(message).toMatchObject({ opened: true, peakMb: expect.any(Number) })
  expect(message.peakMb).toBeLessThan(450)
})
