/** @module-tag long */

import { copyFile, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CopyError } from '../../src/backup/database-parts.ts'
import { dumpEmbedded, restoreEmbedded } from '../../src/backup/embedded-database.ts'
import type { Database } from '../../src/db/database.ts'
import { DatabaseLockedError } from '../../src/db/database-failures.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { lastBackup } from '../../src/repositories/settings.ts'
import { prepareData } from '../support/pglite-template.ts'
import { insertUnusualRows } from '../support/unusual-rows.ts'

/** The backup of an embedded database, and what is restored from it. */

const now = new Date('2026-11-26T15:00:00Z')

let folder: string
let dataDir: string
let file: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tillbridge-dump-'))
  dataDir = join(folder, 'data')
  file = join(folder, 'one.tar.gz')
  await prepareData(dataDir)
  await using(dataDir, (database) => insertUnusualRows(database, 2_000))
  await dumpEmbedded(dataDir, file, now)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function using<T>(home: string, work: (database: Database) => Promise<T>): Promise<T> {
  const database = await openDatabase({ dataDir: home })
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

async function pollsOf({ db }: Database): Promise<unknown> {
  const { rows } = await sql`
    select count(*) as rows, sum(hashtextextended(t::text, 0)) as digest from flow_polls t`.execute(
    db,
  )
  return rows
}

test('a restored database has every row, and its sequences continue', async () => {
  const elsewhere = join(folder, 'elsewhere')
  await restoreEmbedded(file, elsewhere)
  expect(await using(elsewhere, pollsOf)).toEqual(await using(dataDir, pollsOf))
  const { rows } = await using(elsewhere, ({ db }) =>
    sql<{ id: number }>`
      insert into flow_polls (flow, kind, started_at, duration_ms, rows_read, changes)
      values ('articulos', 'full', now(), 1, 1, 1) returning id`.execute(db),
  )
  expect(rows).toEqual([{ id: 2_001 }])
  expect(await readdir(elsewhere)).not.toContain('restore.unfinished')
})

test('only its owner can read a backup, its time is recorded, and a file is never replaced', async () => {
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  const recorded = await using(dataDir, ({ db }) =>
    db.selectFrom('settings').select('updated_at').where('name', '=', lastBackup).execute(),
  )
  expect(recorded).toEqual([{ updated_at: now }])
  const before = await readFile(file)
  await expect(dumpEmbedded(dataDir, file, now)).rejects.toBeInstanceOf(CopyError)
  expect(await readFile(file)).toEqual(before)
})

test('a database that a process uses is neither backed up nor replaced', async () => {
  await using(dataDir, async () => {
    const path = join(folder, 'in-use.tar.gz')
    await expect(dumpEmbedded(dataDir, path, now)).rejects.toBeInstanceOf(DatabaseLockedError)
    await expect(restoreEmbedded(file, dataDir)).rejects.toBeInstanceOf(DatabaseLockedError)
    expect(await readdir(folder)).not.toContain('in-use.tar.gz')
  })
})

test('a folder with a database is not restored into, and one without is not backed up', async () => {
  await expect(restoreEmbedded(file, dataDir)).rejects.toThrow(/already/)
  const attempt = dumpEmbedded(join(folder, 'none'), join(folder, 'none.tar.gz'), now)
  await expect(attempt).rejects.toThrow(/no database in/)
})

test('a file that is cut, changed, of another major version or something else leaves no database', async () => {
  const whole = await readFile(file)
  const changed = Buffer.from(whole)
  changed[whole.length - 6] = (changed[whole.length - 6] ?? 0) ^ 1
  const damages: [string, Buffer][] = [
    ['cut in the middle', whole.subarray(0, whole.length / 2)],
    ['cut before its last byte', whole.subarray(0, -1)],
    ['its checksum changed', changed],
    ['of another major version of PostgreSQL', gzipSync(withVersion(gunzipSync(whole), '15'))],
    ['something else', Buffer.from('hello')],
    ['another archive', gzipSync(Buffer.alloc(1_024))],
    ['empty', Buffer.alloc(0)],
  ]
  const path = join(folder, 'damaged.tar.gz')
  const home = join(folder, 'damaged')
  for (const [what, bytes] of damages) {
    await writeFile(path, bytes)
    await expect(restoreEmbedded(path, home), what).rejects.toBeInstanceOf(CopyError)
    expect(await readdir(home), what).toEqual(['lock.sqlite'])
  }
  // The next attempt is not in its way.
  await copyFile(file, path)
  await restoreEmbedded(path, home)
  expect(await readdir(home)).toContain('pglite')
}, 120_000)

/** The archive with another content of the file PG_VERSION of the whole database, which is of two digits. */
function withVersion(archive: Buffer, version: string): Buffer {
  const changed = Buffer.from(archive)
  changed.write(version, archive.indexOf('/PG_VERSION\0') + 512, 'latin1')
  return changed
}
