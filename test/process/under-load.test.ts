import { execFile, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { readPaymentFigures } from '../../src/repositories/metrics/metric-figures.ts'
import { type Cluster, hasServerPrograms, openCluster } from '../faults/postgres-cluster.ts'
import { whileSelling } from '../faults/while-selling.ts'
import { nameInRun, needsPostgres, openPostgresClone, postgresUrl } from '../support/database.ts'
import { blocksOf } from '../support/document-blocks.ts'
import { dropDatabase, onServer, urlOf } from '../support/postgres-template.ts'
import { adminToken } from '../support/service.ts'
import { runCommand } from './real-process.ts'

/** What an administrator does to a service at work, and what happens to its machine: tills go on, and the providerOrders agree. */
const long = { tags: ['night'] }
const salesPerPart = 16
const server = postgresUrl ?? ''
const keyed = (id: string) => `${id}:${randomBytes(32).toString('base64')}`

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tillbridge-load-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Whatever `work` does with the address of a migrated database of its own. */
async function onOwnDatabase(work: (url: string) => Promise<void>): Promise<void> {
  const { url, database } = await openPostgresClone(server)
  try {
    await work(url)
  } finally {
    await database.close()
  }
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const backupPage = blocksOf(root, 'docs/how-to/back-up-and-restore.md')

/** Runs the block of the page on backups that contains `part`, with files in `folder` instead of /backups. */
async function runBlock(part: string, databaseUrl: string): Promise<void> {
  const block = backupPage.find(({ text }) => text.includes(part))
  if (block === undefined) throw new Error(`the page has no block with ${part}`)
  const commands = block.text
    .replaceAll('/backups/', `${folder}/`)
    .replaceAll(/\$\(date \+%F\)|2026-11-26/g, 'today')
  const env = { PATH: process.env.PATH, DATABASE_URL: databaseUrl }
  await promisify(execFile)('sh', ['-ec', commands], { env })
}

const hasDump = ['pg_dump', 'pg_restore', 'psql'].every(
  (tool) => spawnSync(tool, ['--version']).status === 0,
)

test.skipIf(!postgresUrl || !hasDump)(
  `the pg_dump of the page, made while tills charge, has every order from before, and is restored (${needsPostgres}, pg_dump)`,
  long,
  async () => {
    const settings = { ADMIN_TOKEN: adminToken, ENCRYPTION_KEYS: keyed('k1') }
    let before: string[] = []
    const restored = nameInRun('restored')
    await onOwnDatabase((databaseUrl) =>
      whileSelling({ databaseUrl, env: settings }, async ({ processes, sold, sellMore }) => {
        await sellMore(salesPerPart)
        const { db } = processes.database
        before = (await db.selectFrom('orders').select('id').execute()).map(({ id }) => id)
        const begun = sold()
        await runBlock('pg_dump', databaseUrl)
        await runBlock('last_backup', databaseUrl)
        const { lastBackupAt } = await readPaymentFigures(db, new Date())
        expect(Date.now() - (lastBackupAt?.getTime() ?? 0)).toBeLessThan(60_000)
        await sellMore(salesPerPart)
        expect(sold()).toBeGreaterThan(begun)
      }),
    )
    await onServer(server, (client) => client.query(`create database ${restored}`))
    try {
      const url = urlOf(server, restored)
      await runBlock('pg_restore', url)
      const verified = await runCommand('verify-audit-log', [], { ...settings, DATABASE_URL: url })
      expect(verified).toMatchObject({ code: 0, said: expect.stringContaining('log verifies') })
      const database = await openDatabase({ databaseUrl: url })
      const rows = await database.db.selectFrom('orders').select('id').execute()
      await database.close()
      const ids = new Set(rows.map(({ id }) => id))
      expect(before.length).toBeGreaterThan(salesPerPart)
      expect(before.filter((id) => !ids.has(id))).toEqual([])
    } finally {
      await dropDatabase(server, restored)
    }
  },
)

test.skipIf(!postgresUrl)(
  `the encryption key is exchanged while tills charge, one process after the other (${needsPostgres})`,
  long,
  async () => {
    const [old, fresh] = [keyed('k1'), keyed('k2')]
    const keys = (...given: string[]) => ({ env: { ENCRYPTION_KEYS: given.join(',') } })
    await onOwnDatabase((databaseUrl) =>
      whileSelling(
        { databaseUrl, first: keys(old, fresh) },
        async ({ processes, first, start, sellMore }) => {
          const second = await start(1, keys(fresh, old))
          processes.sendTo(0, 1)
          await sellMore(salesPerPart)
          processes.sendTo(1)
          first.child.kill('SIGTERM')
          expect(await first.ended).toBe(0)
          const rotated = await runCommand('rotate-secrets', [], {
            ADMIN_TOKEN: adminToken,
            DATABASE_URL: databaseUrl,
            ...keys(fresh, old).env,
          })
          expect(rotated).toMatchObject({
            code: 0,
            said: expect.stringContaining('Nothing needs the other keys any more'),
          })
          await sellMore(salesPerPart)
          await start(0, keys(fresh))
          processes.sendTo(0)
          second.child.kill('SIGTERM')
          expect(await second.ended).toBe(0)
          await sellMore(salesPerPart)
        },
      ),
    )
  },
)

const canMakeServer = hasServerPrograms()
let cluster: Cluster | undefined
afterAll(() => cluster?.remove())

/** A server that the tests below share, from the first one on: `npm test` loads this file and plays none of them. */
async function ownServer(): Promise<Cluster> {
  cluster ??= await openCluster('max_connections=30')
  return cluster
}
const needsCluster = 'needs the programs of a PostgreSQL server'

test.skipIf(!canMakeServer)(
  `other clients take every connection of the server while tills charge, and release them (${needsCluster})`,
  long,
  async () => {
    const { url: superuser } = await ownServer()
    // A retry finds what the try before it made.
    await onServer(superuser, async (client) => {
      await client.query('drop database if exists shop with (force)')
      await client.query('drop role if exists app')
      await client.query('create role app login')
      await client.query('create database shop owner app')
    })
    const url = new URL(urlOf(superuser, 'shop'))
    url.username = 'app'
    const migrating = await openDatabase({ databaseUrl: url.href })
    await migrate(migrating)
    await migrating.close()
    await whileSelling({ databaseUrl: url.href }, async ({ processes, first, sellMore }) => {
      const hoard: Client[] = []
      const takeAll = async () => {
        for (;;) {
          const client = new Client({ connectionString: url.href, application_name: 'hoard' })
          client.on('error', () => {})
          try {
            await client.connect()
          } catch {
            return
          }
          hoard.push(client)
        }
      }
      const health = async () => (await fetch(`${first.url}/health`)).status
      // One connection for all rounds: connections that are being refused count too, so a superuser may find no place left.
      await onServer(superuser, async (client) => {
        const until = performance.now() + 30_000
        while ((await health()) !== 503) {
          if (performance.now() > until) expect.unreachable('the service always had a connection')
          // What the service had goes too.
          await client.query(
            `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'tillbridge'`,
          )
          await takeAll()
        }
      })
      await Promise.all(hoard.map((client) => client.end()))
      await expect.poll(health, { timeout: 30_000 }).toBe(200)
      await sellMore(salesPerPart)
      expect(first.child.exitCode).toBe(null)
      expect(processes.sandbox.ledger().orders.length).toBeGreaterThan(salesPerPart)
    })
  },
)

test.skipIf(!canMakeServer)(
  `the server of the database is stopped and started while tills charge, once as a crash (${needsCluster})`,
  long,
  async () => {
    const own = await ownServer()
    await onServer(own.url, async (client) => {
      await client.query('drop database if exists stopped with (force)')
      await client.query('create database stopped')
    })
    const databaseUrl = urlOf(own.url, 'stopped')
    const migrating = await openDatabase({ databaseUrl })
    await migrate(migrating)
    await migrating.close()
    await whileSelling({ databaseUrl }, async ({ first, sellMore }) => {
      for (const mode of ['fast', 'immediate'] as const) {
        await own.restart(mode)
        await sellMore(salesPerPart)
      }
      expect(first.child.exitCode).toBe(null)
    })
  },
)

const libraries = [
  '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1',
  '/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1',
]
const library = libraries.find((path) => existsSync(path))

test.skipIf(!postgresUrl || !library)(
  `the clock of the service's machine is set hours forward and back while tills charge (${needsPostgres}, and libfaketime)`,
  long,
  async () => {
    const shift = join(folder, 'shift')
    const setClock = (seconds: string) => writeFile(shift, `${seconds}\n`)
    await setClock('+0')
    const env = {
      LD_PRELOAD: library ?? '',
      FAKETIME_TIMESTAMP_FILE: shift,
      FAKETIME_NO_CACHE: '1',
      // As on a real machine, whose monotonic clock cannot be set.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      DONT_FAKE_MONOTONIC: '1',
    }
    await onOwnDatabase((databaseUrl) =>
      whileSelling({ databaseUrl, first: { env } }, async ({ first, sellMore }) => {
        for (const hours of [3, -3, 0]) {
          await setClock(`${hours < 0 ? '' : '+'}${hours * 3_600}`)
          // The service's own clock is the one of its answers' headers.
          await expect
            .poll(async () => {
              const { headers } = await fetch(`${first.url}/health`)
              const ahead = Date.parse(headers.get('date') ?? '') - Date.now()
              // Without the sign of a zero.
              return Math.round(ahead / 3_600_000) + 0
            })
            .toBe(hours)
          await sellMore(salesPerPart)
        }
      }),
    )
  },
)
