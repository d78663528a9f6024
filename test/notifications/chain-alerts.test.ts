/** @module-tag long */

import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { clearFaults, setFaults } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  createStore,
  enrol,
  pairTerminal,
  payByCard,
  sandboxCall,
  type Till,
} from '../support/till.ts'
import { openHttpReceiver } from './receivers.ts'

/**
 * From end to end: problems of a shop, the provider and a flow, which only charges and deliveries show, and the messages that
 * the operator's receiver gets.
 */
let service: TestService
let flows: TestFlows
let target: TestTarget
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
let shop: Till
let sales = 0

beforeAll(async () => {
  hook = await openHttpReceiver()
  service = await startTestService({
    env: { ALERT_WEBHOOK_URL: hook.url, ALERT_PRIVATE_NETWORK: 'true' },
  })
  target = await startTarget()
  const breaker = { failures: 3, within: '1m', openFor: '10m' }
  const retry = { attempts: 50, initial: '10m', max: '10m', jitter: 0 }
  const flow = jsonFlow('articles', target.url, { startPaused: false }) as {
    destinations: object[]
  }
  flows = await startTestFlows({
    service,
    files: {
      'articles.json': [],
      'articles.flow.yaml': {
        ...flow,
        destinations: flow.destinations.map((one) => ({ ...one, retry, breaker })),
      },
    },
  })
  shop = await enrol(service, 'Sabado')
  const boxes = ['CAJA-1', 'CAJA-2', 'CAJA-3', 'CAJA-4']
  await createStore(service, shop, { id: 'SUC-1', boxes })
})
afterAll(async () => {
  await flows.stop()
  await service.stop()
  await target.close()
  await hook.close()
})

async function sell(box: string): Promise<string | undefined> {
  sales += 1
  return (await charge(service, shop, { box, reference: `S-${sales}` })).json().order_id
}
async function sellAndPay(box: string): Promise<void> {
  const orderId = await sell(box)
  await act(service, String(orderId), payByCard)
  await call(service, { url: `/orders/${orderId}`, token: shop.key })
}

/** Runs the fleet and the check as often as the service does. */
async function pass(seconds: number): Promise<void> {
  for (let passed = 0; passed < seconds; passed += 2) {
    service.clock.advance(2_000)
    await service.deps.fleet.tick()
    await service.notifications.checkOnce()
  }
}
type Event = { type: string; data: { cause: string } }
const received = () =>
  hook.calls
    .map(({ body }) => JSON.parse(body) as Event)
    .map(({ type, data }) => `${type} ${data.cause}`)
    .sort()

test('three boxes with three causes, the provider and a destination make one message each within a minute; a recovery is notified once', async () => {
  await pairTerminal(service, shop, 'CAJA-1', 'STANDALONE')
  const busy = await pairTerminal(service, shop, 'CAJA-3')
  await pairTerminal(service, shop, 'CAJA-4')
  await sellAndPay('CAJA-4')
  await pass(20)
  expect(received()).toEqual([])

  await sandboxCall(service, 'POST', '/_sandbox/orders', {
    type: 'point',
    external_reference: 'from-the-panel',
    transactions: { payments: [{ amount: '10.00' }] },
    config: { point: { terminal_id: busy } },
  })
  for (const box of ['CAJA-1', 'CAJA-2', 'CAJA-3']) await sell(box)
  target.answer(503)
  await flows.write(
    'articles.json',
    JSON.stringify(Array.from({ length: 20 }, (_, id) => ({ id: String(id) }))),
  )
  await flows.call('POST', '/sync/articles?force=true')
  await expect
    .poll(async () => (await flows.call('GET', '/flows')).body, { timeout: 20_000, interval: 50 })
    .toContain('"state":"open"')
  await pass(60)
  const problems = (await asAdmin(service, { url: '/health/fleet?only=problems' })).json()
  expect(problems.boxes.map(({ cause }: { cause: string }) => cause)).toEqual([
    'terminal_standalone',
    'terminal_missing',
    'terminal_busy',
  ])
  expect(received()).toEqual([
    'fleet.trouble destination_failing',
    'fleet.trouble terminal_busy',
    'fleet.trouble terminal_missing',
    'fleet.trouble terminal_standalone',
  ])

  hook.reset()
  await setFaults(service, { path: '/v1/orders', method: 'POST', kind: 'status', status: 503 })
  await sell('CAJA-4')
  await sell('CAJA-4')
  await pass(60)
  expect(received().filter((one) => one.endsWith('provider_failing'))).toEqual([
    'fleet.trouble provider_failing',
  ])
  await clearFaults(service)

  hook.reset()
  await pairTerminal(service, shop, 'CAJA-2')
  // First the problem of the failing provider ends.
  await pass(360)
  hook.reset()
  for (let times = 0; times < 10; times += 1) await sellAndPay('CAJA-2')
  await service.deps.fleet.flush()
  await pass(60)
  expect(received().filter((one) => one.endsWith('terminal_missing'))).toEqual([
    'fleet.recovered terminal_missing',
  ])
}, 120_000)
