import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  auditOf,
  cancel,
  canceling,
  clearFaults,
  forgetRequests,
  openOwnShop,
  operationsOf,
  ordersAtProvider,
  providerRequests,
  reading,
  retireShops,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, charge, payByCard, readOrder } from '../support/till.ts'

/* The provider answers the cancel of an order at the terminal with 202: from then on the terminal decides how it ends. */

let service: TestService
beforeAll(async () => {
  service = await startTestService({ env: { PROVIDER_TIMEOUT_MS: '500' }, hangsAreShort: true })
})
afterAll(() => service.stop())
afterEach(async () => {
  await clearFaults(service)
  await retireShops(service)
})

async function orderAtTerminal(client: string) {
  const till = await openOwnShop(service, client)
  const { order_id } = (await charge(service, till, { reference: 'T-1' })).json()
  await act(service, order_id, { do: 'fetch' })
  return { till, orderId: order_id as string }
}

const requested = {
  status: 'at_terminal',
  status_detail: 'cancellation_requested',
  outcome: 'unknown',
  retry_safe: false,
}
const states = async (orderId: string) =>
  (await operationsOf(service, orderId)).map(({ state }) => state)

test('a cancel that the terminal has not carried out is answered as requested, never as canceled', async () => {
  const { till, orderId } = await orderAtTerminal('requested')
  await forgetRequests(service)
  const answer = await cancel(service, till, orderId)
  expect([answer.statusCode, answer.json()]).toEqual([
    202,
    {
      message: 'The cancel is requested; the terminal may still take the money',
      order_id: orderId,
      ...requested,
      cashier: {
        action: 'wait',
        message: expect.stringContaining('todavía puede cobrarlo'),
        retry_safe: false,
      },
    },
  ])
  const [sent] = await providerRequests(service, canceling)
  expect(sent?.headers['x-allow-cancelable-status']).toBe('at_terminal')
  // A repeated cancel gives the same answer, and is not sent to the provider again.
  expect((await cancel(service, till, orderId)).statusCode).toBe(202)
  expect(await providerRequests(service, canceling)).toHaveLength(1)
  await sweepAfter(service, 60_000)
  expect((await readOrder(service, till, orderId)).json()).toMatchObject(requested)
  // An equal sale is the same order as long as the terminal may take the money.
  const again = (await charge(service, till, { reference: 'T-1' })).json()
  expect([again.order_id, again.cashier.action]).toEqual([orderId, 'wait'])
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test('a requested cancel ends as canceled when the terminal carries it out', async () => {
  const { till, orderId } = await orderAtTerminal('carried out')
  expect((await cancel(service, till, orderId)).statusCode).toBe(202)
  await act(service, orderId, { do: 'cancel' })
  await sweepAfter(service, 60_000)
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'canceled',
    outcome: 'not_charged',
    retry_safe: true,
  })
  expect(await states(orderId)).toEqual(['done'])
  const entries = await auditOf(service, till.client, 'order.canceled')
  expect(entries.map(({ status }) => status)).toEqual(['success'])
  expect((await cancel(service, till, orderId)).statusCode).toBe(200)
})

test('a requested cancel ends as paid when the terminal continues and takes the money', async () => {
  const { till, orderId } = await orderAtTerminal('paid first')
  expect((await cancel(service, till, orderId)).statusCode).toBe(202)
  await act(service, orderId, payByCard)
  await sweepAfter(service, 60_000)
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'processed',
    outcome: 'charged',
    retry_safe: false,
    cashier: { action: 'give_receipt' },
  })
  expect(await states(orderId)).toEqual(['refused'])
  expect((await cancel(service, till, orderId)).json().code).toBe('ORDER_NOT_CANCELABLE')
})

test('concurrent cancels of an order at the terminal have one key at the provider, so they are one cancel', async () => {
  const { till, orderId } = await orderAtTerminal('at once')
  await forgetRequests(service)
  const answers = await Promise.all([1, 2, 3].map(() => cancel(service, till, orderId)))
  expect(answers.map(({ statusCode }) => statusCode)).toEqual([202, 202, 202])
  // One that begins when another has ended, and reads the order as it was before, sends the same once more.
  const sent = await providerRequests(service, canceling)
  const keys = new Set(sent.map(({ headers }) => headers['x-idempotency-key']))
  expect([...keys]).toEqual([expect.stringMatching(/./)])
})

test('a cancel whose answer was lost is found by a status check, or repeated under its key', async () => {
  const { till, orderId } = await orderAtTerminal('lost answer')
  await setFaults(service, { ...canceling, kind: 'drop_after' })
  expect((await cancel(service, till, orderId)).statusCode).toBe(202)

  const other = await orderAtTerminal('lost request')
  await setFaults(service, { ...canceling, kind: 'drop_before' })
  const lost = await cancel(service, other.till, other.orderId)
  expect([lost.statusCode, lost.json()]).toMatchObject([
    504,
    { code: 'PROVIDER_TIMEOUT', outcome: 'unknown', retry_safe: true, status: 'at_terminal' },
  ])
  // The terminal may still charge this one, so an equal sale makes no second order.
  const again = (await charge(service, other.till, { reference: 'T-1' })).json()
  expect(again.order_id).toBe(other.orderId)
  await clearFaults(service)
  await forgetRequests(service)
  await sweepAfter(service, 60_000)
  expect(await providerRequests(service, canceling)).toHaveLength(1)
  expect((await readOrder(service, other.till, other.orderId)).json()).toMatchObject(requested)
})

test('a 202 of the provider counts even while the order cannot be read', async () => {
  const { till, orderId } = await orderAtTerminal('unread')
  await setFaults(service, { ...reading, kind: '500' })
  const answer = await cancel(service, till, orderId)
  expect([answer.statusCode, answer.json()]).toMatchObject([202, requested])
})

test('an order that the provider reports as already canceled is read again and counts as canceled', async () => {
  const { till, orderId } = await orderAtTerminal('already')
  await setFaults(service, { ...reading, kind: '500' })
  await act(service, orderId, { do: 'cancel' })
  await setFaults(service, { ...reading, kind: '500', count: 3 })
  const answer = await cancel(service, till, orderId)
  expect([answer.statusCode, answer.json().status]).toEqual([200, 'canceled'])
})

test('a device that does not support it leaves the cancel to the terminal', async () => {
  const { till, orderId } = await orderAtTerminal('old device')
  await setFaults(service, {
    ...canceling,
    kind: 'status',
    status: 409,
    code: 'cannot_cancel_order',
  })
  const answer = await cancel(service, till, orderId)
  expect([answer.statusCode, answer.json()]).toMatchObject([
    409,
    {
      code: 'ORDER_AT_TERMINAL',
      error: expect.stringContaining('canceled from the terminal'),
      outcome: 'unknown',
      retry_safe: false,
      status: 'at_terminal',
    },
  ])
  expect(await states(orderId)).toEqual(['refused'])
  expect((await readOrder(service, till, orderId)).json().status_detail).toBe('at_terminal')
})

test('a requested cancel that the terminal drops is repeated at growing intervals', {
  tags: ['long'],
}, async () => {
  const { till, orderId } = await orderAtTerminal('dropped')
  expect((await cancel(service, till, orderId)).statusCode).toBe(202)
  await act(service, orderId, { do: 'refuse_cancel' })
  await forgetRequests(service)
  for (let second = 0; second < 600; second += 5) await sweepAfter(service, 5_000)
  expect((await providerRequests(service, canceling)).length).toBeLessThanOrEqual(16)
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({
    status: 'at_terminal',
    outcome: 'unknown',
  })
  await act(service, orderId, payByCard)
  await sweepAfter(service, 60_000)
  expect(await states(orderId)).toEqual(['refused'])
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({ outcome: 'charged' })
})

test('the cashier message says that an order on the terminal can be canceled from the till', async () => {
  const { till, orderId } = await orderAtTerminal('message')
  const { cashier } = (await readOrder(service, till, orderId)).json()
  expect(cashier.message).toContain('pedilo desde la caja')
})
