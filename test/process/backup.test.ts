/** @module-tag long */

import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDatabase } from '../../src/db/open-database.ts'
import { nameInRun, needsPostgres, postgresUrl } from '../support/database.ts'
import { seedEncrypted } from '../support/encrypted-rows.ts'
import { prepareData } from '../support/pglite-template.ts'
import { dropDatabase, onServer, urlOf } from '../support/postgres-template.ts'
import { adminToken } from '../support/service.ts'
import { insertUnusualRows } from '../support/unusual-rows.ts'
import { compiled, freePort, startService } from './real-process.ts'

/** Whole processes are started here, which a busy machine makes slow. */
const slow = { timeout: 240_000 }
const key = { id: 'k1', key: randomBytes(32) }
const env = {
  ADMIN_TOKEN: adminToken,
  ENCRYPTION_KEYS: `k1:${key.key.toString('base64')}`,
}

let parent: string
let dataDir: string
let file: string
const children: ChildProcess[] = []

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'tillbridge-backup-'))
  dataDir = join(parent, 'data')
  file = join(parent, 'one.tar.gz')
  await prepareData(dataDir)
  const database = await openDatabase({ dataDir })
  await seedEncrypted(database, [key])
  await insertUnusualRows(database, 2_000)
  await database.close()
}, 60_000)
afterAll(async () => {
  for (const child of children) if (child.exitCode === null) child.kill('SIGKILL')
  await rm(parent, { recursive: true, force: true, maxRetries: 5 })
})

type Command = 'back-up' | 'restore' | 'move-database' | 'verify-audit-log'

function command(name: Command, words: string[], more: Record<string, string> = {}) {
  const script = fileURLToPath(new URL(`../../src/commands/${name}.ts`, import.meta.url))
  const child = spawn(process.execPath, [script, ...words], {
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: compiled,
      DATA_DIR: dataDir,
      ...env,
      ...more,
    },
  })
  children.push(child)
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => {
      said += bytes.toString()
    })
  }
  const ended = new Promise<{ code: number | null; said: string }>((resolve) =>
    child.once('close', (code) => resolve({ code, said })),
  )
  return { child, ended }
}

test(
  'the backup of a running service is refused, one of a stopped service is restored, and a killed restore leaves no database',
  slow,
  async () => {
    const service = await startService({
      ...env,
      DATA_DIR: dataDir,
      PORT: String(await freePort()),
      SYNC_PORT: '0',
      SANDBOX_PORT: String(await freePort()),
    })
    children.push(service.child)
    const refused = await command('back-up', [file]).ended
    expect(refused).toMatchObject({ code: 1, said: expect.stringContaining('stop the service') })
    service.child.kill('SIGTERM')
    await service.ended

    const backup = await command('back-up', [file]).ended
    expect(backup).toMatchObject({ code: 0, said: expect.stringContaining('written') })

    const elsewhere = join(parent, 'elsewhere')
    const killed = command('restore', [file, '--into', elsewhere])
    await untilThere(join(elsewhere, 'restore.unfinished'))
    killed.child.kill('SIGKILL')
    await killed.ended
    expect(await readdir(elsewhere)).not.toContain('pglite')

    const restored = await command('restore', [file, '--into', elsewhere]).ended
    expect(restored.code, restored.said).toBe(0)
    expect(await readdir(elsewhere)).not.toContain('restore.unfinished')
    const verified = await command('verify-audit-log', [], { DATA_DIR: elsewhere }).ended
    expect(verified).toMatchObject({ code: 0, said: expect.stringContaining('log verifies') })
    const again = await command('restore', [file, '--into', elsewhere]).ended
    expect(again).toMatchObject({ code: 1, said: expect.stringContaining('already') })
  },
)

test('for a PostgreSQL the commands name the tools of PostgreSQL', slow, async () => {
  const DATABASE_URL = 'postgres://127.0.0.1:1/nowhere'
  const backup = await command('back-up', [join(parent, 'x')], { DATABASE_URL }).ended
  expect(backup).toMatchObject({ code: 1, said: expect.stringContaining('pg_dump') })
  const restore = await command('restore', [join(parent, 'x')], { DATABASE_URL }).ended
  expect(restore).toMatchObject({ code: 1, said: expect.stringContaining('pg_restore') })
  expect((await command('back-up', []).ended).code).toBe(2)
})

test.skipIf(!postgresUrl)(
  `the move to PostgreSQL, begun again after a kill, copies every row and the audit log (${needsPostgres})`,
  slow,
  async () => {
    const name = nameInRun('moved')
    const DATABASE_URL = urlOf(postgresUrl ?? '', name)
    const source = join(parent, 'to-be-moved')
    await cp(dataDir, source, { recursive: true })
    try {
      // A move that was done before the kill came is made once more.
      for (let code: number | null = 0; code !== null; ) {
        await dropDatabase(postgresUrl ?? '', name)
        await onServer(postgresUrl ?? '', (client) => client.query(`create database ${name}`))
        const killed = command('move-database', [], { DATA_DIR: source, DATABASE_URL })
        await untilConnected(name)
        killed.child.kill('SIGKILL')
        code = (await killed.ended).code
      }
      const moved = await command('move-database', [], { DATA_DIR: source, DATABASE_URL }).ended
      expect(moved.said).toMatch(/The audit log verifies: \d+ entries/)
      expect(moved.code).toBe(0)

      const twice = await command('move-database', [], { DATA_DIR: source, DATABASE_URL }).ended
      expect(twice).toMatchObject({ code: 1, said: expect.stringContaining('not empty') })
      const open = new URL(DATABASE_URL)
      open.password = 'no-longer-secret'
      const seen = await command('move-database', [`--to=${open}`], { DATA_DIR: source }).ended
      expect(seen).toMatchObject({ code: 2, said: expect.not.stringContaining('no-longer') })

      const tables =
        'select count(*) as rows, sum(hashtextextended(t::text, 0)) as digest from flow_polls t'
      const embedded = await openDatabase({ dataDir: source })
      const there = await openDatabase({ databaseUrl: DATABASE_URL })
      const of = async (database: typeof there) => (await sql.raw(tables).execute(database.db)).rows
      expect(await of(there)).toEqual(await of(embedded))
      await there.close()
      await embedded.close()
    } finally {
      await dropDatabase(postgresUrl ?? '', name)
    }
  },
)

async function untilThere(path: string): Promise<void> {
  await expect
    .poll(
      () =>
        readdir(path).then(
          (names) => names.length,
          () => 0,
        ),
      { timeout: 60_000 },
    )
    .toBeGreaterThan(0)
}

async function untilConnected(name: string): Promise<void> {
  await expect
    .poll(
      () =>
        onServer(postgresUrl ?? '', async (client) => {
          const { rowCount } = await client.query(
            `select from pg_stat_activity where datname = $1 and query like '%flow_polls%'`,
            [name],
          )
          return rowCount
        }),
      { timeout: 60_000, interval: 20 },
    )
    .toBeGreaterThan(0)
}
