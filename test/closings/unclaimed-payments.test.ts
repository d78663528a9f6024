import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { createSettlementFeed } from '../../src/payments/settlements/settlement-feed.ts'
import {
  auditOf,
  clearFaults,
  forgetRequests,
  openOwnShop,
  providerRequests,
  retireShops,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { startWithOddPayments } from '../support/odd-payments.ts'
import type { TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, readOrder, sandboxCall, type Till } from '../support/till.ts'
import { close, openClosing, readClosing, sell, typeCharge, watchAfter } from './shop-day.ts'

let started: Awaited<ReturnType<typeof startWithOddPayments>>
let service: TestService
beforeAll(async () => {
  started = await startWithOddPayments()
  service = started.service
})
beforeEach(async () => {
  await clearFaults(service)
  await sandboxCall(service, 'PUT', '/_sandbox/index', {})
})
afterEach(() => retireShops(service))
afterAll(() => started.stop())

const refunding = { path: '^/v1/payments/[0-9]+/refunds$', method: 'POST' }

async function orphansOf(till: Till) {
  return (await call(service, { url: '/orphans', token: till.key })).json()
}

function settle(till: Till, id: string, how: string, body: object = {}) {
  return call(service, {
    url: `/orphans/${id}/${how}`,
    token: till.key,
    body: { reason: 'por prueba', ...body },
  })
}

/** A shop with a charge that was typed into its terminal and found within ten minutes. */
async function withOrphan(client: string) {
  const till = await openOwnShop(service, client)
  await sell(service, till, 'A-1')
  const paymentId = await typeCharge(service, till)
  await watchAfter(service, 5 * 60_000)
  const [orphan] = (await orphansOf(till)).orphans
  return { till, paymentId, id: orphan.id as string }
}

test('an unclaimed payment is found within ten minutes and audited once; an online sale is not one', async () => {
  const till = await openOwnShop(service, 'found')
  await sell(service, till, 'A-1')
  await service.paymentWatch.watchOnce()
  const paymentId = await typeCharge(service, till)
  await typeCharge(service, till, { pos_id: undefined })
  for (let minute = 0; minute < 9; minute += 1) await watchAfter(service, 60_000)
  expect(await orphansOf(till)).toMatchObject({
    total: 1,
    orphans: [{ state: 'open', payment_id: paymentId, caja_id: 'CAJA-1', amount: '77.50' }],
  })
  await watchAfter(service, 60 * 60_000)
  const url = `/admin/activity?client=${encodeURIComponent(till.client)}&action=orphan.found`
  expect((await asAdmin(service, { url })).json().logs).toHaveLength(1)
})

test('a closing that cannot be read yet delays no unclaimed payment', async () => {
  const till = await openOwnShop(service, 'beside a closing')
  await sell(service, till, 'A-1')
  await service.paymentWatch.watchOnce()
  const paymentId = await typeCharge(service, till)
  await openClosing(service, till)
  await setFaults(service, {
    path: '^/v1/payments/search$',
    kind: '500',
    user_id: till.mpUserId,
    // All attempts at the first page, which is that of the closing.
    count: 3,
  })
  await watchAfter(service, 5 * 60_000)
  expect(await orphansOf(till)).toMatchObject({ total: 1, orphans: [{ payment_id: paymentId }] })
})

test('a payment whose order is not yet known to be paid is not unclaimed', async () => {
  const till = await openOwnShop(service, 'not yet')
  const { order_id } = (await charge(service, till, { reference: 'A-1' })).json()
  await act(service, order_id, { do: 'pay' })
  await watchAfter(service, 5 * 60_000)
  expect((await orphansOf(till)).total).toBe(0)
})

test('an adopted payment is an order of its box, and its day agrees', async () => {
  const { till, id } = await withOrphan('adopted')
  const adopted = await settle(till, id, 'adopt', { external_reference: 'B-7' })
  expect(adopted.json()).toMatchObject({ id, state: 'adopted', reason: 'por prueba' })
  const { order_id } = adopted.json()
  expect((await settle(till, id, 'adopt')).json()).toEqual(adopted.json())
  const read = await readOrder(service, till, order_id)
  expect(read.json()).toMatchObject({
    external_reference: 'B-7',
    caja_id: 'CAJA-1',
    amount: '77.50',
    status: 'processed',
    outcome: 'charged',
    stale: false,
  })
  expect((await close(service, till)).state).toBe('agreed')
})

test('the refund of an unclaimed payment is made once, however often it is requested', async () => {
  const { till, id, paymentId } = await withOrphan('refunded')
  await forgetRequests(service)
  await setFaults(service, { ...refunding, kind: 'drop_after', count: 3 })
  const lost = await settle(till, id, 'refund')
  expect([lost.statusCode, lost.json().outcome]).toEqual([504, 'unknown'])
  await clearFaults(service)
  expect((await settle(till, id, 'refund')).json()).toMatchObject({ state: 'refunded' })
  expect((await settle(till, id, 'refund')).json()).toMatchObject({ state: 'refunded' })
  const keys = (await providerRequests(service, refunding)).map(
    ({ headers }) => headers['x-idempotency-key'],
  )
  expect(new Set(keys).size).toBe(1)
  const { order_id } = (await orphansOf(till)).orphans[0]
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    status: 'refunded',
    outcome: 'not_charged',
    refunds: [{ amount: '77.50', type: 'total' }],
  })
  await watchAfter(service, 5 * 60_000)
  const { refunded_cents } = await service.database.db
    .selectFrom('provider_payments')
    .select('refunded_cents')
    .where('payment_id', '=', paymentId)
    .executeTakeFirstOrThrow()
  expect(refunded_cents).toBe(7_750)
})

const slowly = { ...refunding, kind: 'refund_processing' }

async function endRefund(paymentId: string, as: 'approved' | 'rejected') {
  const body = { do: 'end_refund', as }
  await sandboxCall(service, 'POST', `/_sandbox/payments/${paymentId}/act`, body)
  for (let minute = 0; minute < 6; minute += 1) {
    await sweepAfter(service, 60_000)
    await service.paymentWatch.watchOnce()
  }
}

test('a payment whose refund is in process stays adopted until the refund is done', {
  tags: ['long'],
}, async () => {
  const { till, id, paymentId } = await withOrphan('slowly refunded')
  await setFaults(service, slowly)
  const asked = await settle(till, id, 'refund')
  expect([asked.statusCode, asked.json()]).toMatchObject([
    200,
    { state: 'adopted', outcome: 'unknown', retry_safe: false },
  ])
  expect((await settle(till, id, 'refund')).json()).toMatchObject({ state: 'adopted' })
  await sweepAfter(service, 60_000)
  await service.paymentWatch.watchOnce()
  expect((await orphansOf(till)).orphans).toMatchObject([{ state: 'adopted' }])
  await endRefund(paymentId, 'approved')
  expect((await orphansOf(till)).orphans).toMatchObject([
    { state: 'refunded', reason: 'por prueba' },
  ])
  expect(await auditOf(service, till.client, 'orphan.refunded')).toHaveLength(1)
  expect((await settle(till, id, 'refund')).json()).toMatchObject({
    state: 'refunded',
    outcome: 'not_charged',
  })
})

test('a payment whose refund is rejected stays adopted, and may be refunded again', {
  tags: ['long'],
}, async () => {
  const { till, id, paymentId } = await withOrphan('refund rejected')
  await setFaults(service, slowly)
  await settle(till, id, 'refund')
  await clearFaults(service)
  await endRefund(paymentId, 'rejected')
  const [orphan] = (await orphansOf(till)).orphans
  expect(orphan).toMatchObject({ state: 'adopted' })
  expect((await readOrder(service, till, orphan.order_id)).json()).toMatchObject({
    status: 'processed',
    outcome: 'charged',
    refunds: [{ status: 'rejected' }],
  })
  expect(await auditOf(service, till.client, 'orphan.refunded')).toHaveLength(0)
  expect((await settle(till, id, 'refund')).json()).toMatchObject({
    state: 'refunded',
    outcome: 'not_charged',
  })
})

test('a refund whose answer was lost is completed without another request', {
  tags: ['long'],
}, async () => {
  const { till, id } = await withOrphan('lost refund')
  await setFaults(service, { ...refunding, kind: 'drop_after', count: 3 })
  expect((await settle(till, id, 'refund')).statusCode).toBe(504)
  await clearFaults(service)
  for (let minute = 0; minute < 6; minute += 1) {
    await sweepAfter(service, 60_000)
    await service.paymentWatch.watchOnce()
  }
  expect((await orphansOf(till)).orphans).toMatchObject([{ state: 'refunded' }])
  expect(await auditOf(service, till.client, 'orphan.refunded')).toHaveLength(1)
})

test('a refund that two people request together is audited once', async () => {
  const { till, id } = await withOrphan('asked for twice')
  const both = await Promise.all([settle(till, id, 'refund'), settle(till, id, 'refund')])
  for (const answer of both) expect(answer.json()).toMatchObject({ state: 'refunded' })
  expect(await auditOf(service, till.client, 'orphan.refunded')).toHaveLength(1)
})

test('a dismissed payment stays dismissed, with its reason in the audit log', async () => {
  const { till, id } = await withOrphan('dismissed')
  expect((await settle(till, id, 'dismiss')).json()).toMatchObject({ state: 'dismissed' })
  for (const how of ['adopt', 'refund']) {
    const refused = await settle(till, id, how)
    expect([refused.statusCode, refused.json().code], how).toEqual([409, 'ORPHAN_SETTLED'])
  }
  const url = `/admin/activity?client=${encodeURIComponent(till.client)}&action=orphan.dismissed`
  expect((await asAdmin(service, { url })).json().logs).toMatchObject([
    { metadata: { reason: 'por prueba' } },
  ])
  await watchAfter(service, 5 * 60_000)
  expect((await orphansOf(till)).total).toBe(1)
})

test('a dismissed payment is an explained line of its closing, which agrees', {
  tags: ['long'],
}, async () => {
  const { till, paymentId, id } = await withOrphan('explained')
  const before = await close(service, till)
  expect([before.state, before.lines[0].kind]).toEqual(['differs', 'missing_here'])
  await settle(till, id, 'dismiss')
  await service.paymentWatch.watchOnce()
  const after = await readClosing(service, till, before.id)
  expect(after).toMatchObject({ state: 'agreed', next_check_at: null })
  expect(after.lines).toMatchObject([
    {
      kind: 'dismissed',
      payment_id: paymentId,
      action: 'none',
      dismissed: { by: { kind: 'key' }, reason: 'por prueba' },
      message: expect.stringContaining('por prueba'),
    },
  ])
  const { closings } = (await call(service, { url: '/closings', token: till.key })).json()
  expect(closings).toMatchObject([{ id: before.id, differences: 0 }])
  const signed = await call(service, {
    method: 'POST',
    url: `/closings/${before.id}/sign`,
    token: till.key,
  })
  expect(signed.json()).toMatchObject({ state: 'signed', result: 'agreed' })
})

test('of two people who settle one payment together one succeeds', async () => {
  const { till, id } = await withOrphan('together')
  const answers = await Promise.all(
    ['adopt', 'dismiss', 'adopt'].map((how) => settle(till, id, how)),
  )
  const states = answers.flatMap((answer) => answer.json().state ?? [])
  expect(new Set(states).size).toBe(1)
})

test.each([
  ['adopt', 'refund'],
  ['refund', 'adopt'],
])(
  'of two people of whom one decides to %s and the other to %s one succeeds',
  async (one, other) => {
    for (const isAtOnce of [true, false]) {
      const { till, id } = await withOrphan(`${one} ${isAtOnce ? 'with' : 'before'} ${other}`)
      const first = settle(till, id, one)
      if (!isAtOnce) await first
      const answers = await Promise.all([first, settle(till, id, other)])
      expect(answers.map(({ statusCode }) => statusCode).toSorted()).toEqual([200, 409])
      const refused = answers.find(({ statusCode }) => statusCode === 409)
      expect(refused?.json().code).toBe('ORPHAN_SETTLED')
      const taken = answers[0]?.statusCode === 200 ? one : other
      const state = taken === 'adopt' ? 'adopted' : 'refunded'
      expect((await orphansOf(till)).orphans).toMatchObject([{ id, state }])
    }
  },
)

test('an ERP that reads the changes of movements gets the order of an adopted payment', async () => {
  const { till, paymentId, id } = await withOrphan('movements of an adopted payment')
  const content = `SOURCE_ID,TRANSACTION_TYPE,TRANSACTION_AMOUNT,SETTLEMENT_NET_AMOUNT\r\n${paymentId},SETTLEMENT,77.50,70.10\r\n`
  await call(service, { url: '/settlements/files', token: till.key, body: { content } })
  const feed = createSettlementFeed(service.database.db)
  const seen = await feed({ client: till.client, after: null, limit: 100 })
  expect(seen.rows).toMatchObject([{ source_id: paymentId, order_id: null }])
  service.clock.advance(60_000)
  const { order_id } = (await settle(till, id, 'adopt')).json()
  const { rows } = await feed({ client: till.client, after: seen.next, limit: 100 })
  expect(rows).toMatchObject([{ source_id: paymentId, order_id }])
})

test('a payment that is refunded in the panel before it is found needs no decision', async () => {
  const till = await openOwnShop(service, 'refunded before')
  await sell(service, till, 'A-1')
  await typeCharge(service, till)
  const { payments } = service.deps.provider
  const { get } = payments
  onTestFinished(() => {
    payments.get = get
  })
  payments.get = async (...args) => {
    const shown = await get(...args)
    return shown && { ...shown, status: 'refunded', refunded: shown.amount }
  }
  await watchAfter(service, 5 * 60_000)
  await watchAfter(service, 5 * 60_000)
  expect((await orphansOf(till)).total).toBe(0)
})

test('a charge that the search shows a day late is found by the daily read', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'late shown')
  await sell(service, till, 'A-1')
  await watchAfter(service, 5 * 60_000)
  const id = await typeCharge(service, till)
  started.shownAs.set(id, null)
  for (let hour = 0; hour < 25; hour += 1) await watchAfter(service, 3_600_000)
  expect((await orphansOf(till)).total).toBe(0)
  started.shownAs.delete(id)
  for (let hour = 0; hour < 25; hour += 1) await watchAfter(service, 3_600_000)
  expect((await orphansOf(till)).total).toBe(1)
})

test('a charge without box and store is unclaimed at the box of its terminal', async () => {
  const till = await openOwnShop(service, 'serial')
  const orderId = await sell(service, till, 'A-1')
  const { terminal_id: terminalId } = (await readOrder(service, till, orderId)).json()
  const [, serial] = String(terminalId).split('__')
  const nowhere = { pos_id: null, store_id: null }
  for (const members of [
    { point_of_interaction: { type: 'POINT', device: { serial_number: serial } } },
    { additional_info: { poi_id: serial } },
    { point_of_interaction: { type: 'POINT', device: { serial_number: 'of another shop' } } },
  ]) {
    started.shownAs.set(await typeCharge(service, till), { ...nowhere, ...members })
  }
  await watchAfter(service, 5 * 60_000)
  const { orphans } = await orphansOf(till)
  expect(orphans.map((one: { caja_id: string }) => one.caja_id)).toEqual(['CAJA-1', 'CAJA-1'])
})

test('a page of payments that is too large is asked for again with fewer of them', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'large rows')
  await sell(service, till, 'A-1')
  // 40 of them are 2.4 MB, and an answer is read up to 1 MiB.
  for (let count = 0; count < 40; count += 1) {
    const id = await typeCharge(service, till)
    started.shownAs.set(id, { description: 'x'.repeat(60_000) })
  }
  await watchAfter(service, 5 * 60_000)
  expect((await orphansOf(till)).total).toBe(40)
  await typeCharge(service, till)
  await watchAfter(service, 5 * 60_000)
  expect((await orphansOf(till)).total).toBe(41)
})
