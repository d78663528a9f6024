import { spawn } from 'node:child_process'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Sandbox } from '../../sandbox/server.ts'
import {
  act,
  approve,
  call,
  createClock,
  createOrder,
  exchange,
  getOrder,
  openShop,
  orderBody,
  paidOrder,
  refund,
  startReceiver,
  startTestSandbox,
  token,
} from './support.ts'

let dataDir: string
let running: Sandbox[] = []
const clock = createClock()

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'sandbox-'))
})
afterEach(async () => {
  for (const sandbox of running) await sandbox.close()
  running = []
  rmSync(dataDir, { recursive: true })
})

async function start(options: Parameters<typeof startTestSandbox>[0] = {}) {
  const sandbox = await startTestSandbox({ dataDir, now: clock.now, ...options })
  running.push(sandbox)
  return sandbox
}

async function restart(sandbox: Sandbox, options: Parameters<typeof startTestSandbox>[0] = {}) {
  await sandbox.close()
  running = running.filter((each) => each !== sandbox)
  return start(options)
}

const file = () => join(dataDir, 'ledger.ndjson')

it('has all data after a restart', async () => {
  let sandbox = await start()
  const { info } = sandbox
  const shop = await openShop(sandbox)
  const { id, paymentId } = await paidOrder(sandbox, shop, '100.00')
  const part = { body: { transactions: [{ id: paymentId, amount: '40.00' }] }, key: 'r1' }
  const made = await refund(sandbox, shop, id, part)
  const open = await call(sandbox, 'POST', '/v1/orders', {
    token: shop.token,
    key: 'o1',
    body: orderBody(shop),
  })
  const code = await approve(sandbox)
  const before = sandbox.ledger()

  sandbox = await restart(sandbox)
  expect(sandbox.info).toEqual(info)
  expect(sandbox.ledger()).toEqual(before)
  expect((await getOrder(sandbox, shop, id)).body.status_detail).toBe('partially_refunded')
  expect((await refund(sandbox, shop, id, part)).body).toEqual(made.body)
  expect((await createOrder(sandbox, shop)).body.errors[0].code).toBe(
    'already_queued_order_on_terminal',
  )
  const again = await call(sandbox, 'POST', '/v1/orders', {
    token: shop.token,
    key: 'o1',
    body: orderBody(shop),
  })
  expect(again.body.id).toBe(open.body.id)
  expect((await exchange(sandbox, code)).status).toBe(200)
  const renewed = await token(sandbox, {
    grant_type: 'refresh_token',
    refresh_token: shop.refreshToken,
  })
  expect(renewed.status).toBe(200)
  sandbox = await restart(sandbox)
  const twice = await token(sandbox, {
    grant_type: 'refresh_token',
    refresh_token: shop.refreshToken,
  })
  expect(twice.body.error).toBe('invalid_grant')
})

it('sends webhooks that were not delivered before the restart', async () => {
  const down = await startReceiver([503])
  let sandbox = await start({ webhookUrl: down.url })
  const shop = await openShop(sandbox)
  const { id } = await paidOrder(sandbox, shop)
  await down.until(1)
  await down.close()
  clock.advance(15 * 60_000)
  const up = await startReceiver()
  sandbox = await restart(sandbox, { webhookUrl: up.url })
  const [hook] = await up.until(1)
  expect(hook?.body.data.id).toBe(id)
  await up.close()
})

it('completes simulated events and expiry after a restart', async () => {
  let sandbox = await start({ pace: { fetchMs: 0, eventMs: 1000 } })
  const shop = await openShop(sandbox)
  const { id } = (await createOrder(sandbox, shop)).body
  await call(sandbox, 'POST', `/v1/orders/${id}/events`, {
    token: shop.token,
    body: { status: 'processed' },
  })
  clock.advance(1000)
  sandbox = await restart(sandbox)
  expect((await getOrder(sandbox, shop, id)).body.status).toBe('processed')
})

it('has each effect in the file before it answers or drops', async () => {
  const sandbox = await start()
  const shop = await openShop(sandbox)
  await call(sandbox, 'PUT', '/_sandbox/faults', {
    body: [{ path: '/v1/orders', kind: 'drop_after', count: 1 }],
  })
  await expect(createOrder(sandbox, shop)).rejects.toThrow()
  const lines = readFileSync(file(), 'utf8').trimEnd().split('\n')
  expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ seq: lines.length, kind: 'order.created' })
})

it('writes an order, its idempotency key and its webhook as one line', async () => {
  const receiver = await startReceiver([500])
  const sandbox = await start({ webhookUrl: receiver.url })
  const shop = await openShop(sandbox)
  const { id } = await paidOrder(sandbox, shop)
  await refund(sandbox, shop, id)
  const lines = readFileSync(file(), 'utf8').trimEnd().split('\n')
  const line = lines.map((text) => JSON.parse(text)).find(({ kind }) => kind === 'order.refunded')
  expect(Object.keys(line.change).sort()).toEqual(['memory', 'orders', 'webhooks'])
  await receiver.close()
})

it('cuts off a torn last line and refuses a damaged file', async () => {
  let sandbox = await start()
  const shop = await openShop(sandbox)
  const before = sandbox.ledger()
  await sandbox.close()
  running = []
  appendFileSync(file(), '{"seq":99,"at":"2026')
  sandbox = await start()
  expect(sandbox.ledger()).toEqual(before)
  const { id } = (await createOrder(sandbox, shop)).body
  sandbox = await restart(sandbox)
  expect((await act(sandbox, id, { do: 'pay' })).status).toBe(200)
  await sandbox.close()
  running = []
  const text = readFileSync(file(), 'utf8').split('\n')
  writeFileSync(file(), ['garbage', ...text].join('\n'))
  await expect(start()).rejects.toThrow('line 1')
})

it('refuses a second sandbox on the same folder', async () => {
  await start()
  await expect(start()).rejects.toThrow('another sandbox is running')
})

it('runs as its own process, prints the settings of a service, and ends cleanly', {
  tags: ['long'],
}, async () => {
  const child = spawn(process.execPath, ['src/commands/run-sandbox.ts'], {
    env: {
      ...process.env,
      SANDBOX_PORT: '0',
      DATA_DIR: dataDir,
      PUBLIC_URL: 'http://127.0.0.1:3999/',
    },
  })
  const exited = new Promise<number | null>((resolve) => child.on('exit', resolve))
  let printed = ''
  await new Promise<void>((resolve) => {
    child.stdout.on('data', (chunk) => {
      printed += chunk
      if (printed.includes('PUBLIC_URL=')) resolve()
    })
  })
  const url = /MP_API_URL=(\S+)/.exec(printed)?.[1]
  const read = async (path: string) => JSON.parse(await (await fetch(`${url}${path}`)).text())
  const info = await read('/_sandbox/info')
  expect(printed).toContain(`MP_AUTH_URL=${url}`)
  expect(printed).toContain(`MP_CLIENT_ID=${info.client_id}`)
  expect(printed).toContain(`MP_WEBHOOK_SECRETS=${info.webhook_secrets[0]}`)
  const hooks = await read('/_sandbox/webhooks')
  expect(hooks.url).toBe('http://127.0.0.1:3999/webhooks')
  child.kill('SIGTERM')
  expect(await exited).toBe(0)
})
