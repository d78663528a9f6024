import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  clearFaults,
  creation,
  openOwnShop,
  orderRow,
  ordersAtProvider,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { type ProviderProxy, startProviderProxy } from '../support/provider-proxy.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  call,
  charge,
  createStore,
  payByCard,
  readOrder,
  sandboxCall,
  type Till,
} from '../support/till.ts'

let proxy: ProviderProxy
let service: TestService
beforeAll(async () => {
  proxy = await startProviderProxy()
  service = await startTestService({
    env: { PROVIDER_TIMEOUT_MS: '500' },
    hangsAreShort: true,
    provider: { apiUrl: proxy.url },
  })
  proxy.target = service.sandbox.url
})
afterEach(() => {
  proxy.alter = undefined
})
afterAll(async () => {
  await service.stop()
  await proxy.close()
})

test('a terminal that cannot be parsed hides no other', async () => {
  const till = await openOwnShop(service, 'odd terminals')
  proxy.alter = ({ status, body }, { path }) => {
    if (!path.startsWith('/terminals/v1/list')) return undefined
    const { terminals } = body.data as { terminals: unknown[] }
    return { status, body: { ...body, data: { terminals: [null, { id: 7 }, ...terminals] } } }
  }
  const { statusCode, body } = await charge(service, till, { reference: 'A-1' })
  expect(statusCode, body).toBe(201)
  const listed = await call(service, { url: '/terminals', token: till.key })
  expect([listed.statusCode, listed.json().terminals.length]).toEqual([200, 1])
})

test('stores and boxes that cannot be parsed hide no others', async () => {
  const till = await openOwnShop(service, 'odd stores')
  proxy.alter = ({ status, body: { results, ...rest } }, { path }) => {
    if (!Array.isArray(results)) return undefined
    const odd = path.includes('/stores/search') ? [null, { id: 'x', external_id: 5 }] : [null]
    return { status, body: { ...rest, results: [...odd, ...results] } }
  }
  // The answers to both creations are lost, so the service searches for both.
  await setFaults(
    service,
    { path: '/stores$', method: 'POST', kind: 'drop_after', count: 1 },
    { path: '/pos$', method: 'POST', kind: 'drop_after', count: 1 },
  )
  await createStore(service, till, { id: 'SUC-2', boxes: ['CAJA-2'] })
  await clearFaults(service)
  const again = await createStore(service, till, { id: 'SUC-2', boxes: ['CAJA-2'] })
  expect([again.statusCode < 500, again.body]).toEqual([true, again.body])
  const stores = await call(service, { url: '/stores', token: till.key })
  expect(stores.body).toContain('CAJA-2')
})

async function lose(till: Till, reference: string, kind: string): Promise<string> {
  await setFaults(service, { ...creation, kind })
  const { order_id } = (await charge(service, till, { reference })).json()
  await clearFaults(service)
  return order_id
}

const pastItsTimeMs = 16 * 60_000

test('an odd order in a search hides no other: the lost charge is found beside it', async () => {
  const till = await openOwnShop(service, 'odd search')
  const odd = await charge(service, till, { reference: 'ODD-1' })
  const [bad] = ordersAtProvider(service, till)
  await sandboxCall(service, 'POST', `/_sandbox/orders/${bad?.id}/act`, { do: 'fetch' })
  await sandboxCall(service, 'POST', `/_sandbox/orders/${bad?.id}/act`, payByCard)
  await readOrder(service, till, odd.json().order_id)
  const lost = await lose(till, 'LOST-1', 'drop_after')
  const { mp_external_reference: reference } = await orderRow(service, lost)
  // The search shows it under the reference of the lost charge, with an amount that cannot be parsed.
  await sandboxCall(service, 'PUT', `/_sandbox/orders/${bad?.id}/shown`, {
    external_reference: reference,
    total_amount: '10.125',
  })
  service.clock.advance(pastItsTimeMs)
  await sweepAfter(service, 60_000)
  expect((await orderRow(service, lost)).creation).toBe('confirmed')
})

test('a search with a row that cannot be parsed does not prove that a charge was never made', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'unreadable duplicate')
  const lost = await lose(till, 'LOST-1', 'drop_after')
  const [made] = ordersAtProvider(service, till)
  await sandboxCall(service, 'PUT', `/_sandbox/orders/${made?.id}/shown`, {
    total_amount: '10.125',
  })
  service.clock.advance(pastItsTimeMs)
  for (let round = 0; round < 3; round += 1) await sweepAfter(service, 5 * 60_000)
  expect((await readOrder(service, till, lost)).json()).toMatchObject({ outcome: 'unknown' })
  await sandboxCall(service, 'PUT', `/_sandbox/orders/${made?.id}/shown`, null)
  await sweepAfter(service, 30 * 60_000)
  expect((await orderRow(service, lost)).creation).toBe('confirmed')
})
