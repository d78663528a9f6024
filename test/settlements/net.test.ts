import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { openOwnShop, refund } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  payByCard,
  readOrder,
  sandboxCall,
  type Till,
} from '../support/till.ts'

const classes = () => service.database.db.selectFrom('charge_classes').selectAll().execute()

let service: TestService
let classesAtStart: Awaited<ReturnType<typeof classes>>
beforeAll(async () => {
  service = await startTestService()
  classesAtStart = await classes()
})
// The rules for charges apply to every shop.
afterEach(async () => {
  const { db } = service.database
  await db.deleteFrom('charge_classes').execute()
  await db.insertInto('charge_classes').values(classesAtStart).execute()
})
afterAll(() => service.stop())

async function pay(till: Till, reference: string, how: object = payByCard): Promise<string> {
  const { order_id } = (await charge(service, till, { reference, amount: '1000,00' })).json()
  await act(service, order_id, { ...how })
  await readOrder(service, till, order_id)
  return order_id
}
async function netOf(till: Till, orderId: string) {
  return (await readOrder(service, till, orderId)).json().net
}
async function watch() {
  service.clock.advance(4 * 60_000)
  await service.paymentWatch.watchOnce()
}
const sirtac = {
  name: 'tax_withholding_sirtac-caba',
  detail: 'tax_withholding_sirtac-caba',
  entity: 'caba',
  amount: '10.00',
}

test('the net of a charge is estimated from the fees of its payment, once the payment is read', async () => {
  const till = await openOwnShop(service, 'estimated')
  const orderId = await pay(till, 'E-1')
  expect(await netOf(till, orderId)).toBeNull()
  await watch()
  const net = await netOf(till, orderId)
  expect(net).toEqual({
    state: 'estimated',
    gross: '1000.00',
    fee: '43.90',
    financing: '0.00',
    taxes: [
      sirtac,
      {
        name: 'tax_withholding_collector-debitos_creditos',
        detail: 'tax_withholding_collector-debitos_creditos',
        entity: 'debitos_creditos',
        amount: '6.00',
      },
    ],
    not_classed: [],
    unexplained: '0.00',
    net: '940.10',
    release_on: expect.stringMatching(/^\d{4}-\d{2}-\d{2}$/),
    expected: null,
    charged_back: null,
  })
  const list = await call(service, { url: '/orders', token: till.key })
  expect(list.json().orders).toMatchObject([{ order_id: orderId, net }])
})

test('the cost of instalments is separate from the fee', async () => {
  const till = await openOwnShop(service, 'instalments')
  const orderId = await pay(till, 'I-1', { ...payByCard, installments: 3 })
  await watch()
  expect(await netOf(till, orderId)).toMatchObject({ financing: '90.00', net: '850.10' })
})

test('the net is null while the payment has no fees yet', async () => {
  const till = await openOwnShop(service, 'later')
  await sandboxCall(service, 'PUT', '/_sandbox/index', { charges_after_ms: 3_600_000 })
  const orderId = await pay(till, 'L-1')
  await watch()
  expect(await netOf(till, orderId)).toBeNull()
  await sandboxCall(service, 'PUT', '/_sandbox/index', {})
})

test('a refund does not change the net of the charge', async () => {
  const till = await openOwnShop(service, 'refunded')
  const orderId = await pay(till, 'R-1')
  await watch()
  const before = await netOf(till, orderId)
  await refund(service, till, orderId, '250,00')
  await watch()
  expect(await netOf(till, orderId)).toEqual(before)
})

test('a report that agrees with the payment settles the net; one that does not makes it differ', async () => {
  const till = await openOwnShop(service, 'reported')
  const orderId = await pay(till, 'P-1')
  await watch()
  const payment = await service.database.db
    .selectFrom('provider_payments')
    .select('payment_id')
    .where('order_id', '=', orderId)
    .executeTakeFirstOrThrow()
  const upload = (net: string) =>
    call(service, {
      url: '/settlements/files',
      token: till.key,
      // Found by its payment: no order, no reference.
      body: {
        content: `SOURCE_ID,TRANSACTION_TYPE,TRANSACTION_DATE,TRANSACTION_AMOUNT,FEE_AMOUNT,TAXES_AMOUNT,SETTLEMENT_NET_AMOUNT\n${payment.payment_id},SETTLEMENT,2026-11-21,1000.00,-43.90,-16.00,${net}\n`,
      },
    })
  expect((await upload('940.10')).json()).toMatchObject({ added: 1, without_order: 0 })
  expect(await netOf(till, orderId)).toMatchObject({
    state: 'settled',
    taxes: [sirtac, { amount: '6.00' }],
    net: '940.10',
  })
  await upload('930.10')
  expect(await netOf(till, orderId)).toMatchObject({
    state: 'differs',
    net: '930.10',
    unexplained: '10.00',
    expected: { gross: '1000.00', net: '940.10' },
  })
})

test('an unknown fee is not classed until the operator sets its class, also for earlier charges', async () => {
  const till = await openOwnShop(service, 'unknown fee')
  const orderId = await pay(till, 'U-1')
  await watch()
  const set = (body: object) =>
    asAdmin(service, { method: 'PUT', url: '/admin/charge-classes', body })
  const name = 'tax_withholding_sirtac-*'
  await service.database.db
    .deleteFrom('charge_classes')
    .where('name', 'like', 'tax_with%')
    .execute()
  expect((await set({ name: 'levy', class: 'fee' })).json()).toMatchObject({ applied: true })
  expect(await netOf(till, orderId)).toMatchObject({
    taxes: [],
    not_classed: [sirtac, { amount: '6.00' }],
    unexplained: '16.00',
    net: '940.10',
  })
  const listed = (await asAdmin(service, { url: '/admin/charge-classes' })).json()
  expect(listed.not_classed).toContainEqual({
    name: sirtac.name,
    entity: 'caba',
    orders: expect.any(Number),
    amount: expect.any(String),
  })
  const answer = await set({ name, class: 'tax' })
  expect(answer.json()).toEqual({
    message: 'The rule for charges of this name is stored',
    name,
    entity: null,
    class: 'tax',
    applied: true,
  })
  expect(await netOf(till, orderId)).toMatchObject({
    taxes: [sirtac],
    not_classed: [{ amount: '6.00' }],
    unexplained: '6.00',
  })
  const { logs } = (
    await asAdmin(service, { url: '/admin/activity?action=charge_class.set&limit=1' })
  ).json()
  expect(logs).toMatchObject([
    { resource_id: name, status: 'success', metadata: { class: 'tax', entity: null } },
  ])
  const client = await call(service, { url: '/admin/charge-classes', token: till.key })
  expect(client.statusCode).toBe(403)
})

test('a rule that was not applied to every net when its process ended is applied by the next one', async () => {
  const till = await openOwnShop(service, 'not applied')
  const orderId = await pay(till, 'W-1')
  await watch()
  await service.database.db
    .insertInto('charge_classes')
    .values({
      name: 'mp_processing_fee',
      entity: '',
      class: 'financing',
      updated_at: service.clock.now(),
      applied: false,
    })
    .onConflict((conflict) =>
      conflict.columns(['name', 'entity']).doUpdateSet({ class: 'financing', applied: false }),
    )
    .execute()
  expect(await netOf(till, orderId)).toMatchObject({ fee: '43.90', financing: '0.00' })
  await service.settlementJobs.workOnce()
  expect(await netOf(till, orderId)).toMatchObject({ fee: '0.00', financing: '43.90' })
  const { classes } = (await asAdmin(service, { url: '/admin/charge-classes' })).json()
  expect(classes.filter(({ applied }: { applied: boolean }) => !applied)).toEqual([])
})
