import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { openOwnShop, sweepAfter } from '../support/money.ts'
import { type ProviderProxy, startProviderProxy } from '../support/provider-proxy.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, charge, payByCard, readOrder } from '../support/till.ts'

let service: TestService
let proxy: ProviderProxy
beforeAll(async () => {
  proxy = await startProviderProxy()
  service = await startTestService({ provider: { apiUrl: proxy.url } })
  proxy.target = service.sandbox.url
})
afterAll(async () => {
  await service.stop()
  await proxy.close()
})
afterEach(() => {
  proxy.alter = undefined
})

async function openOrder(client: string) {
  const till = await openOwnShop(service, client)
  const { order_id } = (await charge(service, till, { reference: 'W-1' })).json()
  return { till, orderId: order_id as string }
}

type Shown = Record<string, unknown>

/** What reads of an order show instead of the truth. */
function show(change: (body: Shown, payment: Shown) => Shown) {
  proxy.alter = ({ status, body }, { method, path }) => {
    if (method !== 'GET' || !path.startsWith('/v1/orders/')) return undefined
    const order = body as Shown & { transactions: { payments: Shown[] } }
    return { status, body: { ...order, ...change(order, order.transactions.payments[0] ?? {}) } }
  }
}

const contradicted = { outcome: 'unknown', cashier: { action: 'call_supervisor' } }

test.each<[string, (payment: Shown) => Shown[]]>([
  ['whose only payment failed', (payment) => [{ ...payment, status: 'failed' }]],
  ['without a payment', () => []],
])('an order shown as processed %s is not charged: somebody looks', async (name, payments) => {
  const { till, orderId } = await openOrder(`unpaid ${name}`)
  show((_order, payment) => ({
    status: 'processed',
    status_detail: 'accredited',
    transactions: { payments: payments(payment) },
  }))
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'created',
    ...contradicted,
  })
  proxy.alter = undefined
  await act(service, orderId, payByCard)
  await sweepAfter(service, 5_000)
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({ outcome: 'charged' })
})
