import { afterAll, beforeAll, expect, test } from 'vitest'
import { netWithDisputes } from '../../src/domain/net-amount.ts'
import { openOwnShop, orderRow } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, payByCard, readOrder, sandboxCall, type Till } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

/** A sale whose payment was read; returns its payment id too. */
async function sold(client: string): Promise<{ till: Till; orderId: string; payment: string }> {
  const till = await openOwnShop(service, client)
  const { order_id: orderId } = (
    await charge(service, till, { reference: 'N-1', amount: '1000,00' })
  ).json()
  await act(service, orderId, { ...payByCard })
  await readOrder(service, till, orderId)
  service.clock.advance(4 * 60_000)
  await service.paymentWatch.watchOnce()
  const { payments } = await orderRow(service, orderId)
  return { till, orderId, payment: String(payments[0]?.referenceId) }
}

const header =
  'SOURCE_ID,TRANSACTION_TYPE,TRANSACTION_DATE,TRANSACTION_AMOUNT,FEE_AMOUNT,TAXES_AMOUNT,SETTLEMENT_NET_AMOUNT'
const sale = 'SETTLEMENT,2026-11-21,1000.00,-43.90,-16.00,940.10'
const taken = 'CHARGEBACK,2026-12-01,-1000.00,43.90,16.00,-940.10'
const won = 'CHARGEBACK_CANCEL,2027-02-01,1000.00,-43.90,-16.00,940.10'

async function netAfter(client: string, ...movements: string[]) {
  const { till, orderId, payment } = await sold(client)
  for (const movement of movements) {
    const answer = await call(service, {
      url: '/settlements/files',
      token: till.key,
      body: { content: `${header}\n${payment},${movement}\n` },
    })
    expect(answer.json(), answer.body).toMatchObject({ added: 1, without_order: 0 })
  }
  const { net } = (await readOrder(service, till, orderId)).json()
  const span = `from=${new Date(service.clock.now().getTime() - 86_400_000).toISOString()}`
  const month = (await call(service, { url: `/settlements/net?${span}`, token: till.key })).json()
  return { net, month }
}

test.each([
  ['only the sale', [sale], null],
  ['a charge-back', [sale, taken], { taken: '940.10', returned: '0.00' }],
  ['a dispute that was won', [sale, taken, won], { taken: '940.10', returned: '940.10' }],
  [
    'a dispute that was won, with its movements in another order',
    [won, taken, sale],
    { taken: '940.10', returned: '940.10' },
  ],
  ['a charge-back without the sale', [taken], { taken: '940.10', returned: '0.00' }],
  ['a cancel without its charge-back, beside the sale', [sale, won], null],
  ['only a cancel, which reports the charge again', [won], null],
])(
  'of %s the net of the charge stays, and the dispute is shown beside it',
  { tags: ['long'] },
  async (name, movements, charged_back) => {
    const { net, month } = await netAfter(name, ...movements)
    const isReported = movements.length > 1 || movements[0] !== taken
    expect(net).toMatchObject({
      state: isReported ? 'settled' : 'estimated',
      gross: '1000.00',
      fee: '43.90',
      unexplained: '0.00',
      net: '940.10',
      charged_back,
    })
    expect(month).toMatchObject({
      orders: 1,
      net: '940.10',
      charged_back: charged_back ?? { taken: '0.00', returned: '0.00' },
    })
  },
)

test('the reports of the sandbox have both movements of a dispute, and they add up', async () => {
  const { till, orderId } = await sold('sandbox reports')
  const { mp_order_id } = await orderRow(service, orderId)
  const beganAt = service.clock.now()
  const { id } = (await sandboxCall(service, 'POST', '/_sandbox/chargebacks', {
    order_id: mp_order_id,
  })) as { id: string }
  service.clock.advance(3_600_000)
  await sandboxCall(service, 'POST', `/_sandbox/chargebacks/${id}/act`, { do: 'win' })
  service.clock.advance(3 * 86_400_000)
  await sandboxCall(service, 'PUT', '/_sandbox/reports', {
    user_id: till.mpUserId,
    kind: 'settlement',
    config: {},
  })
  const dayOf = (date: Date) => new Date(date.getTime() - 4 * 3_600_000).toISOString().slice(0, 10)
  const wanted = await call(service, {
    url: '/settlements/fetches',
    token: till.key,
    body: {
      report: 'settlement',
      from: dayOf(beganAt),
      to: dayOf(new Date(beganAt.getTime() + 86_400_000)),
    },
  })
  expect(wanted.statusCode, wanted.body).toBe(202)
  for (let round = 0; round < 5; round += 1) {
    await service.settlementJobs.workOnce()
    service.clock.advance(61_000)
  }
  const rows = await service.database.db
    .selectFrom('settlement_rows')
    .select(['type', 'gross_cents', 'net_cents'])
    .where('order_id', '=', orderId)
    .orderBy('at')
    .execute()
  expect(rows).toEqual([
    { type: 'SETTLEMENT', gross_cents: 100_000, net_cents: 94_010 },
    { type: 'CHARGEBACK', gross_cents: -100_000, net_cents: -94_010 },
    { type: 'CHARGEBACK_CANCEL', gross_cents: 100_000, net_cents: 94_010 },
  ])
  expect((await readOrder(service, till, orderId)).json().net).toMatchObject({
    state: 'settled',
    net: '940.10',
    charged_back: { taken: '940.10', returned: '940.10' },
  })
})

test('no more is returned than was taken, and an unknown net stays unknown', () => {
  const net = { grossCents: 100, netCents: 90 } as Parameters<typeof netWithDisputes>[0]
  const movement = (type: string, netCents: number) => ({ type, netCents })
  expect(
    netWithDisputes(net, [movement('CHARGEBACK', -90), movement('CHARGEBACK_CANCEL', 95)]),
  ).toEqual({
    ...net,
    chargedBack: { takenCents: 90, returnedCents: 90 },
  })
  expect(netWithDisputes(net, [movement('CHARGEBACK_CANCEL', 90)])).toEqual(net)
  expect(netWithDisputes(null, [movement('CHARGEBACK', -90)])).toBeNull()
})
