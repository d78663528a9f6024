/** @module-tag long */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { DatabaseLockedError } from '../../src/db/database-failures.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { pgliteTemplate } from '../support/pglite-template.ts'

type Message = {
  opened?: true
  peakMb?: number
  committed?: number
  failed?: string
  message?: string
}

/** Whole processes are started here, which a busy machine makes slow. */
const SLOW = { timeout: 60_000 }

let parent: string
let prepared: string
const children: ChildProcess[] = []

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'tillbridge-'))
  prepared = join(parent, 'prepared')
  // Loading a dump saves the 2 s that a new database takes.
  const database = await openDatabase({
    dataDir: prepared,
    loadDataDir: await pgliteTemplate(),
  })
  await database.close()
})
afterAll(() => rm(parent, { recursive: true, force: true }))
/** A folder with a database of its own; copying saves opening another. */
async function newFolder(): Promise<string> {
  const dataDir = await mkdtemp(join(parent, 'data-'))
  await cp(prepared, dataDir, { recursive: true })
  return dataDir
}
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

function forkWriter(dataDir: string): ChildProcess {
  const child = fork(fileURLToPath(new URL('child-writer.ts', import.meta.url)), [dataDir])
  children.push(child)
  return child
}

async function nextMessage(child: ChildProcess): Promise<Message> {
  const [message] = await once(child, 'message')
  return message as Message
}

test(
  'a folder in use is refused to a second process and to this one, and free again after a clean close',
  SLOW,
  async () => {
    const dataDir = await newFolder()
    const database = await openDatabase({ dataDir })
    const second = forkWriter(dataDir)
    expect(await nextMessage(second)).toEqual({
      failed: 'DatabaseLockedError',
      message: expect.stringContaining(dataDir),
    })
    await expect(openDatabase({ dataDir })).rejects.toBeInstanceOf(DatabaseLockedError)
    await sql`create table untouched (n int)`.execute(database.db)
    await database.close()
    const again = await openDatabase({ dataDir })
    expect((await sql`select * from untouched`.execute(again.db)).rows).toEqual([])
    await again.close()
  },
)

test('only the owner may read the folder', SLOW, async () => {
  for (const path of [prepared, join(prepared, 'pglite')]) {
    expect((await stat(path)).mode & 0o777).toBe(0o700)
  }
  expect((await stat(join(prepared, 'lock.sqlite'))).mode & 0o777).toBe(0o600)
})

test(
  'after kill -9 the folder opens at once, with every acknowledged commit and no half of a transaction',
  SLOW,
  async () => {
    const dataDir = await newFolder()
    const writer = forkWriter(dataDir)
    expect(await nextMessage(writer)).toMatchObject({ opened: true })
    let acknowledged = 0
    writer.on('message', (message: Message) => {
      acknowledged = message.committed ?? acknowledged
      if (acknowledged >= 50) writer.kill('SIGKILL')
    })
    await once(writer, 'exit')
    const database = await openDatabase({ dataDir })
    const { rows } = await sql<{ written: number; duplicate: number }>`
    select (select max(n) from written) as written, (select max(n) from duplicate) as duplicate`.execute(
      database.db,
    )
    await database.close()
    expect(rows[0]?.written).toBeGreaterThanOrEqual(acknowledged)
    expect(rows[0]?.duplicate).toBe(rows[0]?.written)
  },
)
