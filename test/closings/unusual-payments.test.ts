import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { openHttpReceiver } from '../notifications/receivers.ts'
import { openOwnShop, retireShops } from '../support/money.ts'
import { startWithOddPayments } from '../support/odd-payments.ts'
import type { TestService } from '../support/service.ts'
import { asAdmin, call, type Till } from '../support/till.ts'
import { close, readClosing, sell, typeCharge, untilMorning, watchAfter } from './shop-day.ts'

type Started = Awaited<ReturnType<typeof startWithOddPayments>>

let started: Started
let service: TestService
beforeAll(async () => {
  started = await startWithOddPayments()
  service = started.service
})
beforeEach(() => untilMorning(service))
afterEach(() => retireShops(service))
afterAll(() => started.stop())

const dayMs = 86_400_000

/** A typed charge that the provider shows with other members. */
async function typeOdd(
  till: Till,
  members: Record<string, unknown>,
  fields: Record<string, unknown> = {},
  { service: at, shownAs }: Started = started,
): Promise<string> {
  const id = await typeCharge(at, till, fields)
  shownAs.set(id, members)
  return id
}

async function paymentsOf(till: Till) {
  return service.database.db
    .selectFrom('provider_payments')
    .selectAll()
    .where('client', '=', asClientName(till.client))
    .orderBy('sold_at')
    .orderBy('payment_id')
    .execute()
}

const unreadable: [string, Record<string, unknown>, string][] = [
  ['no status', { status: null }, 'status'],
  ['a status that is not a text', { status: { word: 'approved' } }, 'status'],
  ['no date at all', { date_created: null, date_approved: null }, 'date_created'],
  ['no id', { id: null }, 'id'],
  [
    'an invalid refunded sum',
    { transaction_amount_refunded: 10.125 },
    'transaction_amount_refunded',
  ],
  ['an invalid refund', { refunds: [{ id: 1, amount: '10.125' }] }, 'refunds.amount'],
]

test.each(unreadable)(
  'a row with %s leaves the other rows of its page, and its closing is unverified',
  async (name, odd, why) => {
    const till = await openOwnShop(service, `odd ${name}`)
    await sell(service, till, 'A-1')
    await typeOdd(till, odd)
    await sell(service, till, 'A-2')
    const closing = await close(service, till)
    expect(closing).toMatchObject({
      state: 'unverified',
      reason: 'payment_unreadable',
      lines: [{ kind: 'pending', there: { status: 'unreadable' } }],
      totals: { here: { count: 2 }, there: { count: 2 } },
    })
    const rows = await paymentsOf(till)
    expect(rows.map(({ status, status_detail }) => [status, status_detail])).toContainEqual([
      'unreadable',
      why,
    ])
  },
)

test.each([
  ['a NUL in a text', { status_detail: 'a\u0000b' }],
  ['half a character in a charge', { charges_details: [{ name: 'fee \ud83d' }] }],
  ['more instalments than an integer holds', { installments: 3_000_000_000 }],
  ['a date that no database holds', { money_release_date: '-200000-01-01T00:00:00Z' }],
  ['an amount of a tenth of a cent', { transaction_amount: 10.125 }],
])('a row with %s is stored, and its page with it', async (name, odd) => {
  const till = await openOwnShop(service, `stored ${name}`)
  await sell(service, till, 'A-1')
  const paymentId = await typeOdd(till, odd)
  const { state, lines, totals } = await close(service, till)
  expect([state, totals.there.count]).toEqual(['differs', 2])
  expect(lines).toMatchObject([{ kind: 'missing_here', payment_id: paymentId }])
})

test('a payment that a page contains twice is counted once', async () => {
  const till = await openOwnShop(service, 'twice')
  await sell(service, till, 'A-1')
  const paymentId = await typeCharge(service, till)
  await typeOdd(till, { id: Number(paymentId) })
  const { state, lines, totals } = await close(service, till)
  expect([state, totals.there.count]).toEqual(['differs', 2])
  expect(lines).toMatchObject([{ kind: 'missing_here', payment_id: paymentId }])
})

test('a rejected payment without a date makes no difference', async () => {
  const till = await openOwnShop(service, 'rejected')
  await sell(service, till, 'A-1')
  await typeOdd(till, { date_created: null, date_approved: null }, { status: 'rejected' })
  expect(await close(service, till)).toMatchObject({ state: 'agreed', lines: [] })
})

test('a row that becomes readable is read again, and the closing gets its result', async () => {
  const till = await openOwnShop(service, 'readable later')
  await sell(service, till, 'A-1')
  const at = service.clock.now().toISOString()
  const id = Number(await typeOdd(till, { status: null }, { at }))
  const closing = await close(service, till)
  expect(closing.reason).toBe('payment_unreadable')
  started.shownAs.delete(String(id))
  await typeCharge(service, till, { at, id })
  await watchAfter(service, 4 * 60_000)
  const rows = await paymentsOf(till)
  expect(rows.map(({ status }) => status)).toEqual(['approved', 'approved'])
  expect(await readClosing(service, till, closing.id)).toMatchObject({
    state: 'differs',
    reason: null,
    lines: [{ kind: 'missing_here', payment_id: String(id) }],
  })
})

test('a row without an id that is later shown with its id does not keep its closing unverified', async () => {
  const till = await openOwnShop(service, 'named later')
  await sell(service, till, 'A-1')
  const at = service.clock.now().toISOString()
  const id = Number(await typeOdd(till, { id: null }, { at }))
  const closing = await close(service, till)
  expect(closing.reason).toBe('payment_unreadable')
  started.shownAs.delete(String(id))
  await typeCharge(service, till, { at, id })
  await watchAfter(service, 4 * 60_000)
  expect(await readClosing(service, till, closing.id)).toMatchObject({
    state: 'differs',
    reason: null,
    lines: [{ kind: 'missing_here', payment_id: String(id) }],
  })
  expect((await paymentsOf(till)).map(({ status }) => status)).toEqual(['approved', 'approved'])
})

test('a row without an id stays beside another payment of its box', async () => {
  const till = await openOwnShop(service, 'two of a box')
  await typeOdd(till, { id: null })
  service.clock.advance(1_000)
  await typeCharge(service, till)
  await watchAfter(service, 90_000)
  await watchAfter(service, 4 * 60_000)
  expect((await paymentsOf(till)).map(({ status }) => status)).toEqual(['unreadable', 'approved'])
})

const metricsToken = 'metrics-token-for-tests-0123456789ab'

test('an unreadable payment is counted, shown and notified until it can be read', {
  tags: ['long'],
}, async () => {
  const hook = await openHttpReceiver()
  const own = await startWithOddPayments({
    env: {
      ALERT_WEBHOOK_URL: hook.url,
      ALERT_PRIVATE_NETWORK: 'true',
      METRICS_TOKEN: metricsToken,
    },
  })
  const notifying = own.service
  try {
    notifying.clock.advance(
      12 * 3_600_000 - (notifying.clock.now().getTime() % (24 * 3_600_000)) + dayMs,
    )
    const till = await openOwnShop(notifying, 'notifying')
    const at = notifying.clock.now().toISOString()
    const id = Number(await typeOdd(till, { status: null }, { at }, own))
    const notified = () =>
      hook
        .bodies()
        .filter((body: { data: { cause?: string } }) => body.data.cause === 'payments_unreadable')
    const pass = async (minutes: number) => {
      for (let minute = 0; minute < minutes; minute += 1) {
        await watchAfter(notifying, 60_000)
        await notifying.deps.fleet.tick()
        await notifying.notifications.checkOnce()
      }
    }
    await pass(6)
    expect(notified()).toHaveLength(1)
    const health = await asAdmin(notifying, { url: '/health/fleet' })
    expect(health.json().connections).toContainEqual(
      expect.objectContaining({
        client: till.client,
        cause: 'payments_unreadable',
        message: expect.stringContaining('(1)'),
      }),
    )
    const { body } = await call(notifying, { url: '/metrics', token: metricsToken })
    expect(body).toContain('tillbridge_payments_unreadable 1')
    own.shownAs.delete(String(id))
    await typeCharge(notifying, till, { id })
    await pass(8)
    expect((await call(notifying, { url: '/metrics', token: metricsToken })).body).toContain(
      'tillbridge_payments_unreadable 0',
    )
    expect(notified()).toHaveLength(2)
  } finally {
    await own.stop()
    await hook.close()
  }
})
