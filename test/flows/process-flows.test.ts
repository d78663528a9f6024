import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, test } from 'vitest'
import { type RealProcess, startService } from '../process/real-process.ts'
import { needsPostgres, openPostgresClone, postgresUrl } from '../support/database.ts'
import { prepareData } from '../support/pglite-template.ts'
import { control, settingsFor, shopFlow, startShop } from './process-support.ts'

// These wait for real deadlines more than they work, so they run side by side.

const title = postgresUrl ? '' : ` (${needsPostgres})`
const soon = { timeout: 60_000, interval: 50 }
const started: RealProcess[] = []
let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tillbridge-flows-'))
})
afterAll(async () => {
  for (const { child } of started) if (child.exitCode === null) child.kill('SIGKILL')
  await Promise.all(started.map(({ ended }) => ended))
  await rm(folder, { recursive: true, force: true })
})

async function start(env: Record<string, string>): Promise<RealProcess> {
  const running = await startService(env)
  started.push(running)
  return running
}

const items = (count: number) =>
  JSON.stringify(Array.from({ length: count }, (_, index) => ({ id: `i${index}` })))

const sideBySide = { concurrent: true, timeout: 180_000, tags: ['long'] }

test(`pauses survive kill -9, run limits do not; SIGHUP reloads; SIGTERM aborts a long poll and loses nothing`, {
  ...sideBySide,
  tags: ['night'],
}, async ({ expect }) => {
  const shop = await startShop()
  const flowsDir = join(folder, 'embedded-flows')
  await mkdir(flowsDir)
  const write = (name: string, text: string) => writeFile(join(flowsDir, `${name}.flow.yaml`), text)
  await write('stock', shopFlow('stock', shop))
  await write('counted', shopFlow('counted', shop))
  await write('prices', shopFlow('prices', shop).replace('"pollInterval"', '"polInterval"'))
  const dataDir = join(folder, 'embedded')
  const env = await settingsFor(dataDir, { FLOWS_DIR: flowsDir, READER: 'one' })
  const status = async () => (await control(env, 'GET', '/flows/status')).body

  await prepareData(dataDir)

  // A bad flow file stops neither the tills nor the other flows.
  const first = await start(env)
  expect((await fetch(`${first.url}/health`)).status).toBe(200)
  await expect.poll(status, soon).toMatchObject({ stock: {}, counted: {} })
  await expect.poll(first.stdout, soon).toContain('polInterval')
  expect((await control(env, 'POST', '/flow/counted/limit/1')).status).toBe(200)
  await expect.poll(status, soon).toMatchObject({ counted: { paused: true } })
  expect((await control(env, 'POST', '/flow/stock/limit/500')).status).toBe(200)
  expect(await status()).toMatchObject({ stock: { runLimit: 500, paused: false } })
  expect((await control(env, 'POST', '/flow/stock/pause')).status).toBe(200)
  first.child.kill('SIGKILL')
  expect(await first.ended).toBe('SIGKILL')

  shop.reads.length = 0
  const second = await start(env)
  await expect.poll(status, soon).toMatchObject({
    stock: { paused: true, runLimit: null, runCount: 0 },
    counted: {
      paused: true,

      reason: expect.stringContaining('limit of runs'),
    },
  })
  // Every item of the source is still unknown; its answer begins and does not end.
  shop.answer((response) => void response.write('[{"id":"i0"},'))
  await write('prices', shopFlow('prices', shop))
  second.child.kill('SIGHUP')
  await expect.poll(status, soon).toMatchObject({ prices: { paused: false } })
  await expect.poll(() => shop.reading, soon).toEqual(['one'])
  // The paused ones have not polled since the start; this is the one that is new.
  expect(shop.reads).toEqual(['one'])
  const stoppedAt = performance.now()
  second.child.kill('SIGTERM')
  expect(await second.ended).toBe(0)
  expect(performance.now() - stoppedAt).toBeLessThan(20_000)
  expect(second.stdout()).toContain('"stopped"')
  expect(shop.arrived.size).toBe(0)

  shop.answer((response) => void response.end(items(25)))
  await start(env)
  await expect.poll(() => shop.arrived.size, soon).toBe(25)
  await shop.close()
})

test(`one of two processes polls a flow; when it is killed in a poll the other continues within 15 s${title}`, {
  ...sideBySide,
  skip: !postgresUrl,
}, async ({ expect }) => {
  const clone = await openPostgresClone(String(postgresUrl))
  const shop = await startShop()
  const flowsDir = join(folder, 'shared-flows')
  await mkdir(flowsDir)
  await writeFile(join(flowsDir, 'stock.flow.yaml'), shopFlow('stock', shop))
  const shared = {
    FLOWS_DIR: flowsDir,
    DATABASE_URL: clone.url,
    ADMIN_TOKEN: randomBytes(32).toString('hex'),
    ENCRYPTION_KEYS: `k1:${randomBytes(32).toString('base64')}`,
  }
  const envOf = (name: string) => settingsFor(join(folder, name), { ...shared, READER: name })
  const env = { one: await envOf('one'), two: await envOf('two') }
  const waitMs = 100
  shop.answer((response) => void setTimeout(() => response.end(items(5)), waitMs))
  const [one, two] = await Promise.all([start(env.one), start(env.two)])
  const ready = async () =>
    (
      await Promise.all([env.one, env.two].map((each) => control(each, 'GET', '/flows/status')))
    ).every(({ body }) => body.stock !== undefined)
  await expect.poll(ready, soon).toBe(true)
  // Both are asked at once, on top of their own intervals.
  for (let round = 0; round < 3; round += 1) {
    const answers = await Promise.all(
      [env.one, env.two].map((each) => control(each, 'POST', '/sync/stock')),
    )
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
  }
  expect(new Set(shop.reads)).toEqual(new Set(['one', 'two']))
  expect(shop.overlaps).toEqual([])
  expect(shop.arrived.size).toBe(5)

  // The process that reads next hangs in its read and is killed there.
  shop.answer((response) => void response.write('['))
  await expect.poll(() => shop.reading.length, soon).toBe(1)
  const [victim] = shop.reading
  shop.answer((response) => void response.end(items(9)))
  const before = shop.reads.length
  const killedAt = performance.now()
  ;(victim === 'one' ? one : two).child.kill('SIGKILL')
  await expect.poll(() => shop.reads.length, soon).toBeGreaterThan(before)
  // A lease of 10 s and a check each second; the rest is for a busy machine.
  expect(performance.now() - killedAt).toBeLessThan(15_000)
  expect(shop.reads.at(before)).toBe(victim === 'one' ? 'two' : 'one')
  await expect.poll(() => shop.arrived.size, soon).toBe(9)
  expect(shop.overlaps).toEqual([])
  for (const { child } of [one, two]) child.kill('SIGKILL')
  await Promise.all([one.ended, two.ended])
  await shop.close()
  await clone.database.close()
})
