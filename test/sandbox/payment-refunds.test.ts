import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Sandbox } from '../../sandbox/server.ts'
import { call, createClock, openShop, type Shop, startTestSandbox } from './support.ts'

const clock = createClock()
let sandbox: Sandbox
let shop: Shop
beforeAll(async () => {
  sandbox = await startTestSandbox({ now: clock.now })
  shop = await openShop(sandbox)
})
afterAll(() => sandbox.close())

let keys = 0

/** A payment of 100,00 without an order. */
async function typed(): Promise<number> {
  const { body } = await call(sandbox, 'POST', '/_sandbox/payments', {
    body: { user_id: shop.userId, pos_id: shop.posId, amount: '100.00' },
  })
  return body.payments[0].id
}

function refund(payment: number, amount?: number) {
  keys += 1
  return call(sandbox, 'POST', `/v1/payments/${payment}/refunds`, {
    token: shop.token,
    key: `refund-${keys}`,
    ...(amount !== undefined && { body: { amount } }),
  })
}

const read = async (payment: number) =>
  (await call(sandbox, 'GET', `/v1/payments/${payment}`, { token: shop.token })).body

const slowly = (rule: object = {}) =>
  call(sandbox, 'PUT', '/_sandbox/faults', {
    body: [{ path: '/refunds$', kind: 'refund_processing', count: 1, ...rule }],
  })

test('a refund of a payment is in process until an act ends it', async () => {
  const payment = await typed()
  await slowly()
  expect((await refund(payment, 30)).body).toMatchObject({ status: 'in_process', amount: 30 })
  expect(await read(payment)).toMatchObject({
    status: 'approved',
    transaction_amount_refunded: 0,
    refunds: [{ status: 'in_process' }],
  })
  // The amount of a refund in process cannot be refunded again.
  expect((await refund(payment, 80)).status).toBe(400)
  const act = (body: object) => call(sandbox, 'POST', `/_sandbox/payments/${payment}/act`, { body })
  expect((await act({ do: 'end_refund', as: 'rejected' })).body).toMatchObject({
    status: 'rejected',
  })
  expect(await read(payment)).toMatchObject({
    status: 'approved',
    transaction_amount_refunded: 0,
    refunds: [{ status: 'rejected' }],
  })
  expect((await act({ do: 'end_refund', as: 'approved' })).status).toBe(409)
  expect((await act({ do: 'end_refund', as: 'perhaps' })).status).toBe(400)
  expect((await refund(payment)).body).toMatchObject({ status: 'approved', amount: 100 })
})

test.each([
  ['processed', { status: 'refunded', refunds: [{ status: 'approved' }] }],
  ['failed', { status: 'approved', refunds: [{ status: 'rejected' }] }],
])('a refund of a payment ends by itself as %s', async (ends, after) => {
  const payment = await typed()
  await slowly({ delay_ms: 60_000, ends })
  await refund(payment)
  expect(await read(payment)).toMatchObject({ refunds: [{ status: 'in_process' }] })
  clock.advance(60_000)
  expect(await read(payment)).toMatchObject(after)
})
