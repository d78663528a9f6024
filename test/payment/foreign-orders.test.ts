import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { encodeReference } from '../../src/domain/provider-names.ts'
import {
  clearFaults,
  creation,
  deliver,
  openOwnShop,
  orderRow,
  ordersAtProvider,
  readResolved,
  refund,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, charge, payByCard, readOrder, sandboxCall, type Till } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService({
    env: { PROVIDER_TIMEOUT_MS: '500' },
    hangsAreShort: true,
  })
})
afterAll(() => service.stop())
afterEach(() => clearFaults(service))

/** After the expiry of the order, while the provider still has its key: the order is only searched for. */
const pastItsTimeMs = 16 * 60_000

/** A charge whose answer was lost; `isMade` tells whether the provider has its order. */
async function lostCharge(till: Till, reference: string, isMade: boolean): Promise<string> {
  await setFaults(service, { ...creation, kind: isMade ? 'drop_after' : 'drop_before' })
  const { order_id } = (await charge(service, till, { reference })).json()
  await clearFaults(service)
  return order_id
}

async function pay(id: string): Promise<void> {
  await sandboxCall(service, 'POST', `/_sandbox/orders/${id}/act`, { do: 'fetch' })
  await sandboxCall(service, 'POST', `/_sandbox/orders/${id}/act`, payByCard)
}

const dateOf = (ms: number) => new Date(ms).toISOString()

async function show(id: string, shown: object | null): Promise<void> {
  await sandboxCall(service, 'PUT', `/_sandbox/orders/${id}/shown`, shown)
}

/** The lost charge is in doubt, and its conflict names the order at the provider. */
async function expectDoubt(till: Till, orderId: string, mpOrderId: string): Promise<void> {
  expect((await readResolved(service, till, orderId)).json()).toMatchObject({
    order_id: orderId,
    status: 'created',
    outcome: 'unknown',
    mp_order_id: null,
    cashier: { action: 'call_supervisor' },
  })
  const { conflict } = await orderRow(service, orderId)
  expect(conflict).toContain(mpOrderId)
  expect(conflict).toContain(orderId)
}

test('an equal order of another application is not taken for the charge whose answer was lost', async () => {
  const till = await openOwnShop(service, 'another application')
  const orderId = await lostCharge(till, 'W-1', false)
  const { id } = (await sandboxCall(service, 'POST', '/_sandbox/orders', {
    type: 'point',
    external_reference: encodeReference('W-1', 1),
    transactions: { payments: [{ amount: '1234.50' }] },
    config: { point: { terminal_id: till.terminalId } },
  })) as { id: string }
  await pay(id)
  service.clock.advance(pastItsTimeMs)
  await expectDoubt(till, orderId, id)
  expect((await refund(service, till, orderId)).json()).toMatchObject({ outcome: 'unknown' })
  expect(ordersAtProvider(service, till)).toMatchObject([{ id, status: 'processed' }])
})

test.each([
  ['whose application is not named', () => ({ integration_data: null })],
  ['of another type', () => ({ type: 'online' })],
  ['made before the charge', (ms: number) => ({ created_date: dateOf(ms - 3 * 60_000) })],
  ['made after the order expired', (ms: number) => ({ created_date: dateOf(ms + 18 * 60_000) })],
])(
  'an equal order %s is not proven to be the charge whose answer was lost',
  async (name, fieldsAt) => {
    const till = await openOwnShop(service, name)
    const reference = `W-${name.length}`
    const orderId = await lostCharge(till, reference, true)
    const id = ordersAtProvider(service, till)[0]?.id as string
    await pay(id)
    await show(id, fieldsAt(service.clock.now().getTime()))
    // A read by the provider's id does not adopt it either.
    expect((await readOrder(service, till, id)).statusCode).toBe(404)
    service.clock.advance(pastItsTimeMs)
    await expectDoubt(till, orderId, id)
    // The missing proof ends the doubt.
    await show(id, null)
    expect((await readResolved(service, till, orderId)).json()).toMatchObject({
      outcome: 'charged',
      mp_order_id: id,
    })
    expect((await orderRow(service, orderId)).conflict).toBeNull()
  },
)

test('a reference of our own form proves an order whose application is not named', async () => {
  const till = await openOwnShop(service, 'own reference')
  const orderId = await lostCharge(till, 'W 9', true)
  const id = ordersAtProvider(service, till)[0]?.id as string
  await pay(id)
  await show(id, { integration_data: null })
  service.clock.advance(pastItsTimeMs)
  expect((await readResolved(service, till, orderId)).json()).toMatchObject({
    outcome: 'charged',
    mp_order_id: id,
  })
})

test('an attempt that arrives late is our order as long as the order has not expired', async () => {
  const till = await openOwnShop(service, 'late attempt')
  const orderId = await lostCharge(till, 'W-10', true)
  const id = ordersAtProvider(service, till)[0]?.id as string
  await pay(id)
  await show(id, { created_date: dateOf(service.clock.now().getTime() + 10 * 60_000) })
  service.clock.advance(pastItsTimeMs)
  expect((await readResolved(service, till, orderId)).json()).toMatchObject({
    outcome: 'charged',
    mp_order_id: id,
  })
})

/** An order of another application for the same sale on the same terminal. */
async function orderElsewhere(till: Till & { terminalId: string }, reference: string) {
  const { id } = (await sandboxCall(service, 'POST', '/_sandbox/orders', {
    type: 'point',
    external_reference: encodeReference(reference, 1),
    transactions: { payments: [{ amount: '1234.50' }] },
    config: { point: { terminal_id: till.terminalId } },
  })) as { id: string }
  await pay(id)
  return id
}

/** The refused charge is in doubt with both ids, until a person settles it. */
async function expectDoubtOfRefused(till: Till, orderId: string, mpOrderId: string) {
  const { conflict, creation: made } = await orderRow(service, orderId)
  expect([made, conflict]).toEqual(['refused', expect.stringContaining(mpOrderId)])
  expect(conflict).toContain(orderId)
  expect((await readResolved(service, till, orderId)).json()).toMatchObject({
    status: 'failed',
    outcome: 'unknown',
    standing: 'in_doubt',
    mp_order_id: null,
  })
  const settled = await call(service, {
    url: `/orders/${orderId}/settle`,
    token: till.key,
    body: { as: 'not_paid', reason: 'Ana: it is the sale of the other program' },
  })
  expect(settled.json(), settled.body).toMatchObject({ standing: 'not_paid' })
}

test('a charge that counts as never made is in doubt when a search finds an equal order without proof', async () => {
  const till = await openOwnShop(service, 'refused and searched')
  const orderId = await lostCharge(till, 'W-11', false)
  service.clock.advance(pastItsTimeMs)
  await readResolved(service, till, orderId)
  expect(await orderRow(service, orderId)).toMatchObject({ creation: 'refused', conflict: null })
  const id = await orderElsewhere(till, 'W-11')
  await show(id, { created_date: dateOf(service.clock.now().getTime() - 3_600_000) })
  await sweepAfter(service, 6 * 60_000)
  await expectDoubtOfRefused(till, orderId, id)
})

test('a refused charge is in doubt when a webhook names an equal order without proof', async () => {
  const till = await openOwnShop(service, 'refused and named')
  await setFaults(service, {
    ...creation,
    kind: 'status',
    status: 400,
    code: 'property_value',
  })
  const { order_id: orderId } = (await charge(service, till, { reference: 'W-12' })).json()
  await clearFaults(service)
  expect(await orderRow(service, orderId)).toMatchObject({ creation: 'refused', conflict: null })
  const id = await orderElsewhere(till, 'W-12')
  await show(id, { integration_data: null })
  await deliver(service, { dataId: id, body: { user_id: String(till.mpUserId), data: { id } } })
  await expectDoubtOfRefused(till, orderId, id)
})
