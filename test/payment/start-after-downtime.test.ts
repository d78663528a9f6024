import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  cancel,
  clearFaults,
  creation,
  openOwnShop,
  operationsOf,
  orderRow,
  ordersAtProvider,
  refund,
  refunding,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, charge, payByCard, readOrder, sandboxCall, type Till } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

type Shop = { till: Till; orderId: string }
type Scenario = {
  name: string
  /** What happens before the service stops. */
  before(till: Till): Promise<string>
  /** What happens while it is stopped; no webhook arrives. */
  during?(shop: Shop): Promise<void>
  status: string
  outcome: string
  /** No attempt reached the provider, and the charge was not repeated. */
  neverMade?: true
}

const amount = '1234,50'
const sell = async (till: Till) =>
  (await charge(service, till, { reference: 'S-1', amount })).json().order_id as string
const paid = async (till: Till) => {
  const orderId = await sell(till)
  await act(service, orderId, payByCard)
  await readOrder(service, till, orderId)
  return orderId
}
const lose = async (kind: string, till: Till) => {
  await setFaults(service, { ...creation, kind })
  const orderId = await sell(till)
  await clearFaults(service)
  return orderId
}
const actThere = async ({ till }: Shop, action: object) => {
  const [order] = ordersAtProvider(service, till)
  await sandboxCall(service, 'POST', `/_sandbox/orders/${order?.id}/act`, action)
}

const scenarios: Scenario[] = [
  {
    name: 'paid meanwhile',
    before: sell,
    during: (shop) => actThere(shop, payByCard),
    status: 'processed',
    outcome: 'charged',
  },
  {
    name: 'declined meanwhile',
    before: sell,
    during: (shop) => actThere(shop, { do: 'decline' }),
    status: 'failed',
    outcome: 'not_charged',
  },
  { name: 'not paid', before: sell, status: 'expired', outcome: 'not_charged' },
  {
    name: 'unknown, paid meanwhile',
    before: (till) => lose('drop_after', till),
    during: (shop) => actThere(shop, payByCard),
    status: 'processed',
    outcome: 'charged',
  },
  {
    name: 'unknown, never arrived',
    before: (till) => lose('drop_before', till),
    status: 'failed',
    outcome: 'not_charged',
    neverMade: true,
  },
  {
    name: 'unknown, canceled',
    async before(till) {
      await setFaults(service, { ...creation, kind: 'drop_after' })
      const orderId = await sell(till)
      await setFaults(service, { path: '^/v1/orders$', kind: 'drop_after' })
      await cancel(service, till, orderId)
      await clearFaults(service)
      return orderId
    },
    status: 'expired',
    outcome: 'not_charged',
  },
  {
    name: 'refund whose answer was lost',
    async before(till) {
      const orderId = await paid(till)
      await setFaults(service, { ...refunding, kind: 'drop_after' })
      await refund(service, till, orderId, '34,50')
      await clearFaults(service)
      return orderId
    },
    status: 'partially_refunded',
    outcome: 'charged',
  },
  {
    name: 'refund that never arrived',
    async before(till) {
      const orderId = await paid(till)
      await setFaults(service, { ...refunding, kind: 'drop_before' })
      await refund(service, till, orderId)
      await clearFaults(service)
      return orderId
    },
    status: 'refunded',
    outcome: 'not_charged',
  },
]

test('after a stop of an hour every order has its right state within a minute of the start, without webhooks', {
  tags: ['long'],
}, async () => {
  const shops: (Shop & { scenario: Scenario })[] = []
  for (const scenario of scenarios) {
    const till = await openOwnShop(service, scenario.name)
    shops.push({ scenario, till, orderId: await scenario.before(till) })
  }
  for (const shop of shops) await shop.scenario.during?.(shop)
  service.clock.advance(3_600_000)

  const restarted = await startTestService({ twinOf: service })
  // The sweeps of a minute, two seconds apart as a running sweeper makes them.
  for (let round = 0; round < 30; round += 1) await sweepAfter(restarted, 2_000)

  for (const { scenario, till, orderId } of shops) {
    const { status, creation: found } = await orderRow(service, orderId)
    expect({ status, found }, scenario.name).toEqual({
      status: scenario.status,
      found: scenario.neverMade ? 'refused' : 'confirmed',
    })
    const operations = await operationsOf(service, orderId)
    expect(operations.map(({ state }) => state).filter((state) => state !== 'done')).toEqual([])
    expect((await readOrder(restarted, till, orderId)).json(), scenario.name).toMatchObject({
      status: scenario.status,
      outcome: scenario.outcome,
    })
    const orders = ordersAtProvider(service, till)
    expect(orders, scenario.name).toHaveLength(scenario.neverMade ? 0 : 1)
    const refunds = orders.flatMap((order) => order.refunds)
    expect(refunds.length, scenario.name).toBe(scenario.name.startsWith('refund') ? 1 : 0)
  }
  await restarted.stop()
})
