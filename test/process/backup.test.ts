import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkBackup } from '../../src/backup/backup-file.ts'
import { CopyError } from '../../src/backup/backup-parts.ts'
import {
  openSnapshotSocket,
  reportBackup,
  requestSnapshot,
} from '../../src/backup/snapshot-socket.ts'
import { openDatabase } from '../../src/db/database.ts'
import { filesOf } from '../../src/db/start-pglite.ts'
import { nameInRun, needsPostgres, postgresUrl } from '../support/database.ts'
import { seedEncrypted } from '../support/encrypted-rows.ts'
import { prepareData } from '../support/pglite-template.ts'
import { dropDatabase, onServer, urlOf } from '../support/postgres-template.ts'
import { isLongForm, needsLongForm } from '../support/rounds.ts'
import { adminToken } from '../support/service.ts'
import { insertUnusualRows } from '../support/unusual-rows.ts'
import { compiled, freePort, type RealProcess, startService } from './real-process.ts'

/** Whole processes are started here, which a busy machine makes slow. */
const slow = { timeout: 240_000 }
const key = { id: 'k1', key: randomBytes(32) }
const env = {
  ADMIN_TOKEN: adminToken,
  ENCRYPTION_KEYS: `k1:${key.key.toString('base64')}`,
  // Invitations are asked for as fast as they are answered.
  RATE_LIMIT_PER_SECOND: '1000000',
}

let parent: string
let dataDir: string
let file: string
const children: ChildProcess[] = []

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'tillbridge-backup-'))
  dataDir = join(parent, 'data')
  file = join(parent, 'one.backup')
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

type Command = 'back-up' | 'restore' | 'move-database'

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

/** An invitation is a row and an entry of the audit log; the number of those that were answered for. */
async function inviteOn({ url }: RealProcess, until: AbortSignal) {
  const invitations = { count: 0, slowestMs: 0 }
  const done = (async () => {
    while (!until.aborted) {
      const startedAt = performance.now()
      const response = await fetch(`${url}/admin/invitations`, {
        method: 'POST',
        headers: { 'x-api-token': adminToken, 'content-type': 'application/json' },
        body: JSON.stringify({ client: `shop ${invitations.count}` }),
      })
      expect(response.status).toBe(201)
      await response.text()
      invitations.count += 1
      invitations.slowestMs = Math.max(invitations.slowestMs, performance.now() - startedAt)
    }
  })()
  return { invitations, done }
}

test.skipIf(!isLongForm)(
  `a backup of a running service has all that was answered before, and is restored elsewhere (${needsLongForm})`,
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
    const enough = new AbortController()
    const { invitations, done } = await inviteOn(service, enough.signal)
    while (invitations.count < 20) await wait(20)
    const before = invitations.count
    const backup = await command('back-up', [file]).ended
    const after = invitations.count
    enough.abort()
    await done
    expect(backup.said).toContain('written and read again')
    expect(backup.code).toBe(0)
    expect(after).toBeGreaterThan(before)
    expect(await readdir(join(dataDir, 'snapshots'))).toEqual([])

    // A folder in use is not restored into.
    const refused = await command('restore', [file]).ended
    expect(refused).toMatchObject({ code: 1, said: expect.stringContaining('in use') })
    service.child.kill('SIGTERM')
    await service.ended

    // Killed while it loads, it leaves no database, and the next attempt begins anew.
    const elsewhere = join(parent, 'elsewhere')
    const killed = command('restore', [file, '--into', elsewhere])
    await untilThere(join(elsewhere, 'restore.unfinished'))
    await wait(500)
    killed.child.kill('SIGKILL')
    await killed.ended
    expect(await readdir(elsewhere)).not.toContain('pglite')

    const restored = await command('restore', [file, '--into', elsewhere]).ended
    expect(restored.said).toMatch(/The audit log verifies: \d+ entries/)
    expect(restored.code).toBe(0)
    expect(await readdir(elsewhere)).toEqual(expect.arrayContaining(['pglite']))
    expect(await readdir(elsewhere)).not.toContain('restore.unfinished')
    const { totals } = await checkBackup(file)
    const database = await openDatabase({ dataDir: elsewhere })
    const { rows } = await sql<{ invited: number; copied: number }>`
    select (select count(*) from invitations) as invited,
      (select count(*) from activity_log where action = 'database.copied') as copied`.execute(
      database.db,
    )
    await database.close()
    expect(rows[0]?.invited).toBe(totals.tables.invitations?.rows)
    expect(rows[0]?.invited).toBeGreaterThanOrEqual(before)
    expect(rows[0]?.copied).toBe(1)

    const again = await command('restore', [file, '--into', elsewhere]).ended
    expect(again).toMatchObject({ code: 1, said: expect.stringContaining('already') })
  },
)

test.skipIf(!isLongForm)(
  `a service killed while it copies its database loses nothing, and leaves neither a backup nor a half copy (${needsLongForm})`,
  slow,
  async () => {
    const home = join(parent, 'killed-copying')
    await cp(dataDir, home, { recursive: true, filter: (path) => !path.endsWith('.sock') })
    const start = async () => {
      const service = await startService({
        ...env,
        DATA_DIR: home,
        PORT: String(await freePort()),
        SYNC_PORT: '0',
        SANDBOX_PORT: String(await freePort()),
      })
      children.push(service.child)
      return service
    }
    const target = join(parent, 'killed-copying.backup')
    const first = await start()
    const enough = new AbortController()
    const { invitations, done } = await inviteOn(first, enough.signal)
    // Its last call ends with the service.
    const over = done.catch(() => undefined)
    while (invitations.count < 5) await wait(20)

    const asked = command('back-up', [target], { DATA_DIR: home })
    const copy = await untilHalfCopied(join(home, 'snapshots'))
    first.child.kill('SIGKILL')
    await first.ended
    enough.abort()
    await over
    const { code, said } = await asked.ended
    expect(code, said).toBe(1)
    // What marks a copy as whole is written last.
    expect(await readdir(copy)).not.toContain('backup_label')
    expect(await readdir(parent)).not.toContain('killed-copying.backup')

    const second = await start()
    // The socket for backups opens after the payment API.
    await expect.poll(() => readdir(join(home, 'snapshots'))).toEqual([])
    const again = await command('back-up', [target], { DATA_DIR: home }).ended
    expect(again.code, again.said).toBe(0)
    second.child.kill('SIGTERM')
    await second.ended
    const { totals } = await checkBackup(target)
    expect(totals.tables.invitations?.rows).toBeGreaterThanOrEqual(invitations.count)
    const restored = await command('restore', [target, '--into', join(parent, 'from-killed')]).ended
    expect(restored.said).toMatch(/The audit log verifies: \d+ entries/)
    expect(restored.code).toBe(0)
  },
)

test.skipIf(!postgresUrl)(
  `the move to PostgreSQL, begun again after a kill, copies every row and the audit log (${needsPostgres})`,
  slow,
  async () => {
    const name = nameInRun('moved')
    const DATABASE_URL = urlOf(postgresUrl ?? '', name)
    const source = join(parent, 'to-be-moved')
    await cp(dataDir, source, { recursive: true, filter: (path) => !path.endsWith('.sock') })
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

test(
  'a stopped service is backed up, too; without a database or a file name the error names what is missing',
  slow,
  async () => {
    const path = join(parent, 'stopped.backup')
    expect((await command('back-up', [path]).ended).code).toBe(0)
    expect((await checkBackup(path)).totals.tables.flow_polls?.rows).toBe(2_000)
    const nothing = await command('back-up', [join(parent, 'x')], {
      DATA_DIR: join(parent, 'none'),
    }).ended
    expect(nothing).toMatchObject({ code: 1, said: expect.stringContaining('no database in') })
    expect((await command('back-up', []).ended).code).toBe(2)
  },
)

test('the socket answers with a copy, one at a time, and to nothing else', slow, async () => {
  const folder = join(parent, 'socket')
  await cp(join(dataDir, 'pglite'), join(folder, 'pglite'), { recursive: true })
  const going = Promise.withResolvers<void>()
  const asked: string[] = []
  const finished: Date[] = []
  const closeSocket = await openSnapshotSocket({
    dataDir: folder,
    copyFiles: async (target) => {
      asked.push(target)
      await going.promise
    },
    onAsked: async () => {},
    onFinished: async (takenAt) => void finished.push(takenAt),
    log: () => {},
  })
  const first = requestSnapshot(folder)
  await expect.poll(() => asked.length).toBe(1)
  await expect(requestSnapshot(folder)).rejects.toThrow(/another backup/)
  going.resolve()
  expect(await first).toBe(asked[0])
  const browser = connect(join(folder, 'backup.sock'))
  browser.write('GET / HTTP/1.1\r\n\r\n')
  let answered = ''
  for await (const chunk of browser) answered += chunk
  expect(answered).toBe('')
  await reportBackup(folder, new Date(5))
  expect(finished).toEqual([new Date(5)])
  await closeSocket()
  await expect(requestSnapshot(folder)).rejects.toBeInstanceOf(CopyError)
})

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

/** The folder of a copy whose files are being made. Throws when it was whole before it was seen half. */
async function untilHalfCopied(snapshots: string): Promise<string> {
  for (let tries = 0; tries < 60_000; tries += 1) {
    const [name] = await readdir(snapshots).catch(() => [])
    if (name !== undefined) {
      const copy = filesOf(join(snapshots, name))
      const files = await readdir(copy).catch(() => [] as string[])
      if (files.includes('backup_label')) throw new Error('the copy was whole too soon')
      if (files.includes('base')) return copy
    }
    await wait(1)
  }
  throw new Error('no copy was begun')
}
