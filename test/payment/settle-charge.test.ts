import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { readPaymentFigures } from '../../src/repositories/metrics/metric-figures.ts'
import {
  auditOf,
  clearFaults,
  creation,
  openOwnShop,
  orderRow,
  ordersAtProvider,
  reading,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, payByCard, readOrder, type Till } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService({ env: { PROVIDER_TIMEOUT_MS: '500' }, hangsAreShort: true })
})
afterAll(() => service.stop())
afterEach(() => clearFaults(service))

/** A charge whose answer was lost, while the provider cannot be read either. */
async function loseCharge(till: Till, kind: 'drop_before' | 'drop_after', reference: string) {
  await setFaults(service, { ...creation, kind }, { ...reading, kind: '503' })
  const answer = await charge(service, till, { reference })
  expect(answer.json(), answer.body).toMatchObject({ outcome: 'unknown' })
  return String(answer.json().order_id)
}

const settle = (
  till: Till,
  orderId: string,
  as: 'paid' | 'not_paid',
  reason = 'Ana checked',
  replaces?: string,
) =>
  call(service, {
    url: `/orders/${orderId}/settle`,
    token: till.key,
    body: { as, reason, ...(replaces !== undefined && { replaces }) },
  })

const ask = (till: Till, orderId: string) =>
  call(service, { method: 'POST', url: `/orders/${orderId}/ask`, token: till.key })

async function causeOfBox(till: Till): Promise<string | null> {
  const answer = await call(service, { url: '/health/fleet', token: till.key })
  return answer.json().boxes[0].cause
}

test('settling an order in doubt is audited with its reason and frees box and sale; its outcome stays unknown', async () => {
  const till = await openOwnShop(service, 'Dudosa')
  const orderId = await loseCharge(till, 'drop_before', 'in doubt')
  service.clock.advance(16 * 60_000)
  expect(await causeOfBox(till)).toBe('in_doubt')

  const settled = await settle(till, orderId, 'not_paid', 'the terminal shows no sale')
  expect(settled.statusCode, settled.body).toBe(200)
  expect(settled.json()).toMatchObject({
    order_id: orderId,
    outcome: 'unknown',
    retry_safe: false,
    settled: { as: 'not_paid', at: expect.any(String), reason: 'the terminal shows no sale' },
    cashier: { action: 'charge_again' },
  })
  expect(await causeOfBox(till)).not.toBe('in_doubt')
  const [entry] = await auditOf(service, till.client, 'order.settled')
  expect(entry).toMatchObject({
    resource_id: orderId,
    status: 'success',
    metadata: { as: 'not_paid', reason: 'the terminal shows no sale' },
  })

  // The equal sale begins anew, and the settled one is never sent again.
  await clearFaults(service)
  const again = await charge(service, till, { reference: 'in doubt' })
  expect(again.statusCode, again.body).toBe(201)
  expect(again.json().order_id).not.toBe(orderId)
  await act(service, again.json().order_id, payByCard)
  await sweepAfter(service, 5_000)
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test('an order in doubt is counted in the statistics until it is settled, and no longer as open then', async () => {
  const till = await openOwnShop(service, 'Contada')
  const orderId = await loseCharge(till, 'drop_before', 'counted')
  service.clock.advance(60_000)
  const statistics = async () => {
    const from = new Date(service.clock.now().getTime() - 3_600_000).toISOString()
    return (await call(service, { url: `/statistics?from=${from}`, token: till.key })).json()
  }
  const monitored = async () => {
    const { open, unknown } = await readPaymentFigures(service.database.db, service.clock.now())
    return { open: Object.values(open).reduce((sum, count) => sum + count, 0), unknown }
  }
  const monitoredBefore = await monitored()
  const before = await statistics()
  expect(before).toMatchObject({
    open: 1,
    in_doubt: [{ order_id: orderId, external_reference: 'counted', caja_id: expect.any(String) }],
    orphans: 0,
    boxes: [{ open: 1, open_order: { order_id: orderId }, store_name: expect.any(String) }],
  })
  expect((await settle(till, orderId, 'paid')).statusCode).toBe(200)
  expect(await statistics()).toMatchObject({
    open: 0,
    action_required: 0,
    in_doubt: [],
    boxes: [{ open: 0, open_order: null }],
  })
  // The metrics count the same.
  expect(await monitored()).toEqual({
    open: monitoredBefore.open - 1,
    unknown: monitoredBefore.unknown - 1,
  })
})

test('a payment that the provider shows later overrides the settlement and is flagged', async () => {
  const till = await openOwnShop(service, 'Creida')
  const orderId = await loseCharge(till, 'drop_after', 'was there')
  await settle(till, orderId, 'not_paid')
  await clearFaults(service)
  const [made] = ordersAtProvider(service, till)
  await service.database.db
    .updateTable('orders')
    .set({ mp_order_id: (made as { id: string }).id })
    .where('id', '=', orderId)
    .execute()
  await act(service, orderId, payByCard)
  const read = await ask(till, orderId)
  expect(read.json(), read.body).toMatchObject({
    status: 'processed',
    outcome: 'charged',
    stale: false,
    settled: { as: 'not_paid' },
  })
  // The failure of the provider meanwhile is another cause, and has ended by then.
  service.clock.advance(16 * 60_000)
  expect(await causeOfBox(till)).toBe('paid_late')
  expect(await auditOf(service, till.client, 'order.asked')).toHaveLength(1)
})

test('POST /orders/:id/ask reads at the provider at once, and marks the answer as stale when that fails', async () => {
  const till = await openOwnShop(service, 'Curiosa')
  const orderId = await loseCharge(till, 'drop_after', 'asked')
  expect((await ask(till, orderId)).json()).toMatchObject({ stale: true, outcome: 'unknown' })
  await clearFaults(service)
  expect((await ask(till, orderId)).json()).toMatchObject({ stale: false, status: 'created' })
  expect((await orderRow(service, orderId)).creation).toBe('confirmed')
})

test('of two people who decide at once one counts, and the other gets 409', async () => {
  const till = await openOwnShop(service, 'A la vez')
  const orderId = await loseCharge(till, 'drop_before', 'at once')
  const both = await Promise.all([
    settle(till, orderId, 'paid', 'Ana'),
    settle(till, orderId, 'not_paid', 'Luis'),
  ])
  expect(both.map(({ statusCode }) => statusCode).toSorted()).toEqual([200, 409])
  const [taken] = both.filter(({ statusCode }) => statusCode === 200)
  const [other] = both.filter(({ statusCode }) => statusCode === 409)
  expect((await readOrder(service, till, orderId)).json().settled).toEqual(taken?.json().settled)
  expect(other?.json()).toMatchObject({ code: 'CONFLICT' })
  expect(other?.json().error).toContain(taken?.json().settled.at)
  const audit = await auditOf(service, till.client, 'order.settled')
  expect(audit.filter(({ status }) => status === 'success')).toHaveLength(1)
})

test('a decision is replaced only by a request that names it', async () => {
  const till = await openOwnShop(service, 'Cambiada')
  const orderId = await loseCharge(till, 'drop_before', 'changed')
  const early = await settle(till, orderId, 'paid', 'Ana', service.clock.now().toISOString())
  expect([early.statusCode, early.json().code]).toEqual([409, 'CONFLICT'])
  const first = (await settle(till, orderId, 'paid')).json().settled
  service.clock.advance(1_000)
  // The same decision again is a repetition, such as after a lost answer.
  const repeated = await settle(till, orderId, 'paid', 'Ana again')
  expect([repeated.statusCode, repeated.json().settled]).toEqual([200, first])
  for (const replaces of [undefined, service.clock.now().toISOString()]) {
    const refused = await settle(till, orderId, 'not_paid', 'Luis', replaces)
    expect([refused.statusCode, refused.json().code]).toEqual([409, 'CONFLICT'])
  }
  const replaced = await settle(till, orderId, 'not_paid', 'Luis', first.at)
  expect(replaced.json(), replaced.body).toMatchObject({
    settled: { as: 'not_paid', reason: 'Luis' },
  })
  const stale = await settle(till, orderId, 'paid', 'Ana', first.at)
  expect([stale.statusCode, stale.json().code]).toEqual([409, 'CONFLICT'])
  const audit = await auditOf(service, till.client, 'order.settled')
  expect(
    audit.filter(({ status }) => status === 'success').map(({ metadata }) => metadata),
  ).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ as: 'not_paid', replaces: { as: 'paid', at: first.at } }),
    ]),
  )
})

test('settling is 409 for an order that is not in doubt, and 404 for an order of another client', async () => {
  const till = await openOwnShop(service, 'Segura')
  const other = await openOwnShop(service, 'Ajena')
  const { order_id: orderId } = (await charge(service, till, { reference: 'plain' })).json()
  expect((await settle(till, orderId, 'paid')).statusCode).toBe(409)
  await act(service, orderId, payByCard)
  await readOrder(service, till, orderId)
  expect((await settle(till, orderId, 'not_paid')).json()).toMatchObject({ code: 'CONFLICT' })
  expect((await readOrder(service, till, orderId)).json().settled).toBeNull()

  const doubtful = await loseCharge(till, 'drop_before', 'mine')
  expect((await settle(other, doubtful, 'paid')).statusCode).toBe(404)
  expect((await ask(other, doubtful)).statusCode).toBe(404)
  const url = `/orders/${doubtful}/settle?client=Segura`
  const byAdmin = await asAdmin(service, { url, body: { as: 'paid', reason: 'in the account' } })
  expect(byAdmin.json()).toMatchObject({ settled: { as: 'paid' }, outcome: 'unknown' })
})
