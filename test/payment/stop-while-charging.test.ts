import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  clearFaults,
  creation,
  ordersAtProvider,
  refund,
  refunding,
  setFaults,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, charge, enrol, openShop, payByCard, readOrder } from '../support/till.ts'

let stopping: TestService
let next: TestService
beforeAll(async () => {
  stopping = await startTestService()
  next = await startTestService({ twinOf: stopping })
})
afterAll(async () => {
  await next?.stop()
  await stopping?.stop()
})

test('requests that wait for the provider at a stop are answered as unknown at once, and the next process settles them', async () => {
  const [shop, other] = [await openShop(stopping, 'acme'), await openShop(stopping, 'beta', '77')]
  const paid = await charge(stopping, other, { reference: 'T-1', amount: '10,00' })
  await act(stopping, paid.json().order_id, payByCard)
  await readOrder(stopping, other, paid.json().order_id)
  const hangs = { kind: 'hang_after', count: 1 }
  await setFaults(stopping, { ...creation, ...hangs }, { ...refunding, ...hangs })

  const charging = charge(stopping, shop, { reference: 'T-2', amount: '20,00' })
  const givingBack = refund(stopping, other, paid.json().order_id, '4,00', 'once')
  await expect.poll(() => ordersAtProvider(stopping, shop).length).toBe(1)
  await expect.poll(() => ordersAtProvider(stopping, other)[0]?.refunds.length).toBe(1)
  const cutAt = performance.now()
  stopping.cutShort()
  for (const answer of [await charging, await givingBack]) {
    expect(answer.statusCode).toBe(504)
    expect(answer.json()).toMatchObject({ outcome: 'unknown', retry_safe: true })
  }
  expect(performance.now() - cutAt).toBeLessThan(3_000)

  await clearFaults(stopping)
  const again = await charge(next, shop, { reference: 'T-2', amount: '20,00' })
  expect(again.json().order_id).toBe((await charging).json().order_id)
  expect(again.headers['idempotent-replayed']).toBe('true')
  expect((await refund(next, other, paid.json().order_id, '4,00', 'once')).statusCode).toBe(200)
  expect(ordersAtProvider(next, shop)).toHaveLength(1)
  expect(ordersAtProvider(next, other)[0]?.refunds).toHaveLength(1)

  // Calls for tokens are not aborted: an answer with the only valid refresh token must not be lost.
  await enrol(stopping, 'gamma', '78')
})
