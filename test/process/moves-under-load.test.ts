import { execFile, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { whileSelling } from '../faults/while-selling.ts'
import { nameInRun, needsPostgres, openPostgresClone, postgresUrl } from '../support/database.ts'
import { prepareData } from '../support/pglite-template.ts'
import { dropDatabase, onServer, urlOf } from '../support/postgres-template.ts'
import { adminToken } from '../support/service.ts'
import { freePort, type RealProcess, runCommand } from './real-process.ts'

/** A service changes its database while tills go on asking, and works with little memory: the providerOrders agree. */
const long = { tags: ['night'] }
const salesPerPart = 16
const server = postgresUrl ?? ''
const run = promisify(execFile)
const hasDump = ['pg_dump', 'pg_restore'].every(
  (name) => spawnSync(name, ['--version']).status === 0,
)
const key = () => `k1:${randomBytes(32).toString('base64')}`

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tillbridge-moves-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Whatever `work` does with the address of an empty database. */
async function onEmptyDatabase(work: (url: string) => Promise<void>): Promise<void> {
  const name = nameInRun('moved')
  await onServer(server, (client) => client.query(`create database ${name}`))
  try {
    await work(urlOf(server, name))
  } finally {
    await dropDatabase(server, name)
  }
}

async function stop({ child, ended }: RealProcess): Promise<void> {
  child.kill('SIGTERM')
  expect(await ended).toBe(0)
}

test.skipIf(!postgresUrl)(
  `db:move takes a shop to PostgreSQL while its tills send requests (${needsPostgres})`,
  long,
  async () => {
    const dataDir = join(folder, 'data')
    await prepareData(dataDir)
    const env = { ADMIN_TOKEN: adminToken, ENCRYPTION_KEYS: key(), DATA_DIR: dataDir }
    const embedded = { env: { DATABASE_URL: '' } }
    await onEmptyDatabase((databaseUrl) =>
      whileSelling({ databaseUrl, env, first: embedded }, async ({ first, start, sellMore }) => {
        const move = () => runCommand('move-database', [], { ...env, DATABASE_URL: databaseUrl })
        await sellMore(salesPerPart)
        expect(await move()).toMatchObject({
          code: 1,
          said: expect.stringContaining('stop the service'),
        })
        await sellMore(salesPerPart)
        await stop(first)
        expect(await move()).toMatchObject({
          code: 0,
          said: expect.stringMatching(/audit log verifies/),
        })
        await start(0)
        await sellMore(salesPerPart)
      }),
    )
  },
)

/** A web shop that counts the requests it gets. */
async function openWebShop() {
  const sent: string[] = []
  const listener = createServer((request, response) => {
    sent.push(String(request.url))
    request.resume().on('end', () => response.writeHead(200).end())
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  const { port } = listener.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    sent,
    close: () => new Promise((resolve) => listener.close(resolve)),
  }
}

const articles = 40
const articlesOf = (change: string) =>
  [
    'codigo,precio',
    ...Array.from({ length: articles }, (_, at) => `A-${at},${at === 7 ? change : '10'}`),
    '',
  ].join('\n')

const flowOf = (file: string, target: string) => `version: 1
name: articulos
pollInterval: 1s
allowPrivateNetwork: true
source:
  type: file
  path: ${file}
  format: csv
item:
  key: codigo
destinations:
  - name: tienda
    type: http
    request:
      method: PUT
      url: ${target}/articulos/{pk}
    map: '{ "precio": precio }'
`

test.skipIf(!postgresUrl || !hasDump)(
  `after a restore flows send no item twice, and tills lose no sale (${needsPostgres}, pg_dump)`,
  long,
  async () => {
    const shop = await openWebShop()
    const flowsDir = join(folder, 'flows')
    mkdirSync(flowsDir)
    const csv = join(folder, 'articulos.csv')
    await writeFile(csv, articlesOf('10'))
    await writeFile(join(flowsDir, 'articulos.flow.yaml'), flowOf(csv, shop.url))
    const env = { ADMIN_TOKEN: adminToken, ENCRYPTION_KEYS: key(), FLOWS_DIR: flowsDir }
    const file = join(folder, 'flows.backup')
    const from = await openPostgresClone(server)
    try {
      await onEmptyDatabase((databaseUrl) =>
        whileSelling(
          { databaseUrl, env, first: { env: { DATABASE_URL: from.url } } },
          async ({ first, start, sellMore }) => {
            await expect.poll(() => shop.sent.length, { timeout: 60_000 }).toBe(articles)
            await sellMore(salesPerPart)
            await stop(first)
            await run('pg_dump', ['--format=custom', `--file=${file}`, from.url])
            await run('pg_restore', [
              '--exit-on-error',
              '--no-owner',
              `--dbname=${databaseUrl}`,
              file,
            ])
            const syncPort = String(await freePort())
            await start(0, { env: { SYNC_PORT: syncPort } })
            await sellMore(salesPerPart)
            const polls = async () => {
              const answer = await fetch(`http://127.0.0.1:${syncPort}/flows`)
              const { flows } = (await answer.json()) as { flows?: { last_poll_at?: string }[] }
              return flows?.[0]?.last_poll_at
            }
            const before = await polls()
            await expect.poll(polls, { timeout: 30_000 }).not.toBe(before)
            await wait(2_000)
            expect(shop.sent).toHaveLength(articles)
            await writeFile(csv, articlesOf('12'))
            await expect.poll(() => shop.sent.length, { timeout: 60_000 }).toBe(articles + 1)
            expect(shop.sent.at(-1)).toBe('/articulos/A-7')
          },
        ),
      )
    } finally {
      await from.database.close()
      await shop.close()
    }
  },
)

/** A group of the kernel that holds a process to this much memory; undefined where none can be made. */
function memoryGroup(bytes: number) {
  const name = `tillbridge-${process.pid}`
  for (const [place, limit] of [
    ['/sys/fs/cgroup/memory', 'memory.limit_in_bytes'],
    ['/sys/fs/cgroup', 'memory.max'],
  ] as const) {
    const group = join(place, name)
    try {
      mkdirSync(group)
    } catch {
      continue
    }
    try {
      writeFileSync(join(group, limit), String(bytes))
      return {
        take: (pid: number) => writeFileSync(join(group, 'cgroup.procs'), String(pid)),
        remove: () => rmdirSync(group),
      }
    } catch {
      rmdirSync(group)
    }
  }
  return undefined
}

/** As docs/how-to/run-two-processes.md says for a service with PostgreSQL. */
const limitMb = 512
const group = memoryGroup(limitMb * 1024 * 1024)
afterAll(() => group?.remove())

test.skipIf(!postgresUrl || !group)(
  `with ${limitMb} MB of memory tills charge while the administrator's pages are read (${needsPostgres}, and memory groups)`,
  long,
  async () => {
    const { url, database } = await openPostgresClone(server)
    try {
      await whileSelling({ databaseUrl: url }, async ({ first, sellMore }) => {
        const pid = Number(first.child.pid)
        group?.take(pid)
        const enough = new AbortController()
        const headers = { 'x-api-token': adminToken }
        const reading = Array.from({ length: 8 }, async () => {
          while (!enough.signal.aborted) {
            for (const path of [
              '/health/fleet',
              '/admin/activity?limit=100',
              '/admin/clients',
              '/openapi.json',
            ]) {
              const answer = await fetch(`${first.url}${path}`, { headers })
              expect([path, answer.status]).toEqual([path, 200])
              await answer.arrayBuffer()
            }
          }
        })
        await sellMore(4 * salesPerPart)
        enough.abort()
        await Promise.all(reading)
        expect(first.child.exitCode).toBe(null)
        const status = await readFile(`/proc/${pid}/status`, 'utf8')
        const peakMb = Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) / 1_024
        expect(peakMb).toBeLessThan(limitMb)
      })
    } finally {
      await database.close()
    }
  },
)
