/** @module-tag long */

import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { buildInfo } from '../../src/http/build-info.ts'
import { eventually } from '../support/eventually.ts'
import { prepareData } from '../support/pglite-template.ts'
import { location } from '../support/till.ts'
import {
  adminTokenOf,
  freePort,
  type RealProcess,
  spawnService,
  startService,
} from './real-process.ts'

let dataDir: string
let env: Record<string, string>
let sandboxUrl: string
const started: RealProcess[] = []

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'tillbridge-process-'))
  const sandboxPort = await freePort()
  sandboxUrl = `http://127.0.0.1:${sandboxPort}`
  env = {
    DATA_DIR: dataDir,
    PORT: String(await freePort()),
    SANDBOX_PORT: String(sandboxPort),
    SYNC_PORT: '0',
    POS_CREATE_DELAY_MS: '0',
    SWEEP_INTERVAL_MS: '200',
  }
})

afterAll(async () => {
  for (const { child } of started) if (child.exitCode === null) child.kill('SIGKILL')
  await Promise.all(started.map(({ ended }) => ended))
  await rm(dataDir, { recursive: true, force: true })
})

async function start(settings = env): Promise<RealProcess> {
  const running = await startService(settings)
  started.push(running)
  return running
}

async function json(
  url: string,
  options: { method?: string; token?: string; body?: unknown } = {},
): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(url, {
    method: options.method ?? (options.body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(options.token && { 'x-api-token': options.token }),
      ...(options.body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
  })
  const text = await response.text()
  return { status: response.status, body: text === '' ? {} : JSON.parse(text) }
}

const boxes = ['CAJA-1', 'CAJA-2', 'CAJA-3', 'CAJA-4']

type Shop = { admin: string; token: string; orderId: string; mpOrderId: string }

async function openShopAndCharge(url: string): Promise<Shop> {
  const admin = await adminTokenOf(dataDir)
  const login = await fetch(`${url}/oauth/login?client=acme`, { redirect: 'manual' })
  const consent = await fetch(String(login.headers.get('location')), {
    redirect: 'manual',
    headers: { 'x-sandbox-consent': 'approve' },
  })
  expect((await json(String(consent.headers.get('location')))).status).toBe(200)
  const key = await json(`${url}/api-keys`, { token: admin, body: { client: 'acme' } })
  const token = String(key.body.key)
  await json(`${sandboxUrl}/_sandbox/pace`, { method: 'PUT', body: { fetch_ms: 0, event_ms: 0 } })
  await json(`${url}/stores`, {
    token,
    body: {
      name: 'Centro',
      external_id: 'SUC-1',
      location,
      pos: boxes.map((id) => ({ name: id, external_id: id })),
    },
  })
  const stores = await json(`${url}/stores`, { token })
  const [store] = stores.body.stores as { pos: { mp_pos_id: string }[] }[]
  for (const { mp_pos_id } of store?.pos ?? []) {
    await json(`${sandboxUrl}/_sandbox/terminals`, {
      body: { pos_id: mp_pos_id, user_id: key.body.mp_user_id, operating_mode: 'PDV' },
    })
  }
  const created = await json(`${url}/orders`, {
    token,
    body: { caja_id: 'CAJA-1', external_reference: 'T-1', amount: '100,00' },
  })
  expect(created.status).toBe(201)
  const orderId = String(created.body.order_id)
  const order = await json(`${url}/orders/${orderId}`, { token })
  return { admin, token, orderId, mpOrderId: String(order.body.mp_order_id) }
}

test('a bad setting stops the start and is named', async () => {
  const refused = spawnService({ ...env, PROVIDER_TIMEOUT_MS: '5' })
  expect(await refused.ended).toBe(1)
  expect(refused.stderr()).toContain('PROVIDER_TIMEOUT_MS')
})

test('a killed service leaves its compiled modules to the next start', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-compiled-'))
  const running = await start({ ...env, NODE_COMPILE_CACHE: folder })
  await eventually(async () => {
    const files = await readdir(folder, { recursive: true })
    expect(files.length).toBeGreaterThan(1_000)
  })
  running.child.kill('SIGKILL')
  await running.ended
  await rm(folder, { recursive: true })
})

test('T49: after a kill the service completes what it had begun; a stopped one answers every charge under way', async () => {
  const first = await start()
  const shop = await openShopAndCharge(first.url)
  expect((await stat(join(dataDir, 'secrets', 'secrets.env'))).mode & 0o777).toBe(0o600)

  const second = spawnService({ ...env, PORT: String(await freePort()) })
  expect(await second.ended).toBe(1)
  expect(second.stderr()).toContain(dataDir)

  first.child.kill('SIGKILL')
  await first.ended

  const again = await start()
  await json(`${sandboxUrl}/_sandbox/orders/${shop.mpOrderId}/act`, {
    body: { do: 'pay', payment_method_type: 'debit_card', payment_method_id: 'debvisa' },
  })
  // A wait ends with any change of the order, and its arrival at the terminal is one.
  await expect
    .poll(
      async () =>
        (await json(`${again.url}/orders/${shop.orderId}?wait=1`, { token: shop.token })).body,
      { timeout: 20_000 },
    )
    .toMatchObject({ status: 'processed', amount: '100.00' })
  const verified = await json(`${again.url}/admin/activity/verify`, { token: shop.admin })
  expect(verified.body).toMatchObject({ valid: true })

  const order = (box: string, reference: string) =>
    json(`${again.url}/orders`, {
      token: shop.token,
      body: { caja_id: box, external_reference: reference, amount: '5,00' },
    })
  const { body: waiting } = await order('CAJA-1', 'T-2')
  const waitingRead = json(`${again.url}/orders/${String(waiting.order_id)}?wait=30`, {
    token: shop.token,
  })
  // The provider has done its part when the signal comes, and keeps its answers to three charges back.
  await json(`${sandboxUrl}/_sandbox/faults`, {
    method: 'PUT',
    body: [{ path: '^/v1/orders$', method: 'POST', kind: 'latency_after', delay_ms: 800 }],
  })
  const charges = boxes.slice(1).map((box) => order(box, `T-${box}`))
  await expect
    .poll(async () => (await json(`${sandboxUrl}/_sandbox/ledger`)).body.orders)
    .toHaveLength(5)
  again.child.kill('SIGTERM')
  for (const charge of charges) {
    expect(await charge).toMatchObject({ status: 201, body: { status: 'created' } })
  }
  expect(await waitingRead).toMatchObject({ status: 200, body: { status: 'created' } })
  expect(await again.ended).toBe(0)
  expect(again.stdout()).toContain('"stopped"')
  for (const output of [first.stdout(), again.stdout()]) {
    expect(output).not.toContain(shop.token)
    expect(output).not.toContain(shop.admin)
    expect(output).not.toMatch(/APP_USR-\d|TG-[0-9a-f]/)
  }

  const live = spawnService({
    ...env,
    PROVIDER: 'mercadopago',
    ALLOW_EMBEDDED_DATABASE: 'true',
    MP_CLIENT_ID: '1',
    MP_CLIENT_SECRET: 'secret',
    MP_API_URL: 'http://127.0.0.1:9',
    MP_AUTH_URL: 'http://127.0.0.1:9',
  })
  expect(await live.ended).toBe(1)
  expect(live.stderr()).toContain('This database belongs to PROVIDER=sandbox')
}, 180_000)

test('T18, T46: with the real provider no sandbox listens, a second signal ends it at once, and a database that has served the real provider starts with no other, whatever setting got lost', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-live-'))
  await prepareData(folder)
  const settings = {
    ...env,
    DATA_DIR: folder,
    PORT: String(await freePort()),
    SANDBOX_PORT: String(await freePort()),
    PROVIDER: 'mercadopago',
    ALLOW_EMBEDDED_DATABASE: 'true',
    MP_CLIENT_ID: '1',
    MP_CLIENT_SECRET: 'canary-client-secret',
    MP_API_URL: 'http://127.0.0.1:9',
    MP_AUTH_URL: 'http://127.0.0.1:9',
  }
  const running = await start(settings)
  expect((await json(`${running.url}/health`)).body).toMatchObject({ mode: 'mercadopago' })
  expect(JSON.parse(running.stdout().split('\n')[0] ?? '')).toMatchObject({
    msg: 'starting',
    version: buildInfo.version,
    commit: await buildInfo.commit(),
  })
  const sandbox = `http://127.0.0.1:${settings.SANDBOX_PORT}/_sandbox/info`
  expect((await fetch(sandbox).catch(() => undefined))?.ok ?? false).toBe(false)
  // Said once it is ready, which may be after its first answer.
  await expect
    .poll(() => running.stdout(), { timeout: 20_000 })
    .toContain('MP_WEBHOOK_SECRETS is not set')
  expect(running.stdout()).not.toContain('canary-client-secret')

  // A body that never comes keeps the stop waiting for seconds; a second signal does not.
  const stuck = connect(Number(settings.PORT), '127.0.0.1')
  stuck.write(
    `POST /api-keys HTTP/1.1\r\nhost: a\r\nx-api-token: ${await adminTokenOf(folder)}\r\n` +
      'content-type: application/json\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n',
  )
  await once(stuck, 'data')
  running.child.kill('SIGTERM')
  await expect.poll(() => running.stdout()).toContain('"stopping"')
  expect(running.child.exitCode).toBe(null)
  const secondAt = performance.now()
  running.child.kill('SIGTERM')
  expect(await running.ended).toBe(1)
  // The exit code differs from that of a finished stop, and the time from a stop that used its 20 s.
  expect(performance.now() - secondAt).toBeLessThan(10_000)
  stuck.destroy()

  const busy = createServer().listen(Number(settings.PORT), '127.0.0.1')
  const refused = spawnService(settings)
  expect(await refused.ended).toBe(1)
  expect(refused.stderr()).toContain(`cannot listen on 127.0.0.1:${settings.PORT}`)
  busy.close()

  const [PORT, SANDBOX_PORT] = [String(await freePort()), String(await freePort())]
  const other = spawnService({ ...env, DATA_DIR: folder, PORT, SANDBOX_PORT })
  expect(await other.ended).toBe(1)
  expect(other.stderr()).toContain('belongs to PROVIDER=mercadopago')
  await rm(folder, { recursive: true, force: true })
}, 180_000)

test('a running service has none of its own secrets in its environment, which drivers of flows read', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-environment-'))
  const list = join(folder, 'names.json')
  const probe = join(folder, 'probe.mjs')
  await writeFile(
    probe,
    `import { renameSync, writeFileSync } from 'node:fs'
    process.on('SIGUSR2', () => {
      writeFileSync(${JSON.stringify(`${list}.new`)}, JSON.stringify(Object.keys(process.env)))
      renameSync(${JSON.stringify(`${list}.new`)}, ${JSON.stringify(list)})
    })`,
  )
  const running = await start({
    ...env,
    ADMIN_TOKEN: 'canary-administrator-0123456789abcdef',
    SYNC_TOKEN: 'canary-synchronization-0123456789abcdef',
    ...{ PGPASSWORD: 'canary-password', PGPASSFILE: '/nowhere', ERP_TOKEN: 'of a flow' },
    NODE_OPTIONS: `--import=${probe}`,
  })
  running.child.kill('SIGUSR2')
  const names = await eventually(async () => JSON.parse(await readFile(list, 'utf8')) as string[])
  expect(names).toContain('ERP_TOKEN')
  expect(names.filter((name) => /^PG|TOKEN$/.test(name))).toEqual(['ERP_TOKEN'])
  running.child.kill('SIGKILL')
  await running.ended
  await rm(folder, { recursive: true })
})
