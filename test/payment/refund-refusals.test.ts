import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { typeCharge, watchAfter } from '../closings/shop-day.ts'
import { figureOf, samplesOf } from '../support/metrics.ts'
import {
  clearFaults,
  forgetRequests,
  openOwnShop,
  operationsOf,
  providerRequests,
  refund,
  refunding,
  retireShops,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, payByCard, readOrder, type Till } from '../support/till.ts'

/** A definite refusal of the provider ends a refund at once; nothing that may have had an effect does. */

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterEach(async () => {
  await retireShops(service)
  await clearFaults(service)
})
afterAll(() => service.stop())

const ofPayment = { path: '/refunds$', method: 'POST' } as const

/** A paid order of 100,00. */
async function paid(name: string): Promise<{ till: Till; orderId: string }> {
  const till = await openOwnShop(service, name)
  const { order_id } = (await charge(service, till, { reference: 'R', amount: '100,00' })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  return { till, orderId: order_id }
}

/** A charge of 77,50 that was typed into the terminal, adopted as an order. */
async function typedAndAdopted(name: string): Promise<{ till: Till; orderId: string }> {
  const till = await openOwnShop(service, name)
  await typeCharge(service, till)
  await watchAfter(service, 5 * 60_000)
  const [orphan] = (await call(service, { url: '/orphans', token: till.key })).json().orphans
  const adopted = await call(service, {
    url: `/orphans/${orphan.id}/adopt`,
    token: till.key,
    body: { reason: 'venta' },
  })
  expect(adopted.statusCode, adopted.body).toBe(200)
  return { till, orderId: adopted.json().order_id }
}

const renewals = () => providerRequests(service, { method: 'POST', path: '/oauth/token$' })

test.each([
  [400, 'in_store_payment_refund_order', 409, 'ORDER_NOT_REFUNDABLE'],
  [400, 'invalid_order_owner', 409, 'ACCOUNT_MISMATCH'],
  [401, 'user_not_authorized', 409, 'ACCOUNT_MISMATCH'],
  [409, 'refund_period_exceeded', 409, 'ORDER_NOT_REFUNDABLE'],
])(
  'a refund of an order that is refused with %i %s is refused at once, and sent once',
  async (status, code, answered, ourCode) => {
    const { till, orderId } = await paid(`order ${code}`)
    await setFaults(service, { ...refunding, kind: 'status', status, code })
    await forgetRequests(service)
    const response = await refund(service, till, orderId)
    expect(response.json()).toMatchObject({ code: ourCode, outcome: 'charged', retry_safe: false })
    expect(response.statusCode).toBe(answered)
    expect(response.json().error).toContain(code)
    expect(await operationsOf(service, orderId)).toMatchObject([{ state: 'refused' }])
    expect(await providerRequests(service, refunding)).toHaveLength(1)
    expect(await renewals()).toEqual([])
    // The next refund is a new one, and is not held up by the refused one.
    await clearFaults(service)
    expect((await refund(service, till, orderId)).statusCode).toBe(200)
  },
)

test.each([
  [404, 'not_found', 2024, 'ORDER_NOT_REFUNDABLE', false],
  [404, 'not_found', 15016, 'ORDER_NOT_REFUNDABLE', false],
  [400, 'bad_request', 2063, 'ORDER_NOT_REFUNDABLE', false],
  [400, 'bad_request', 2018, 'ORDER_NOT_REFUNDABLE', false],
  [404, 'not_found', 2000, 'ORDER_NOT_REFUNDABLE', false],
  [404, 'not_found', 2032, 'ORDER_NOT_REFUNDABLE', false],
  [404, 'not_found', 3024, 'PARTIAL_REFUND_NOT_SUPPORTED', false],
  [400, 'bad_request', 2017, 'REFUND_AMOUNT_EXCEEDS', false],
  [400, 'bad_request', 2030, 'PROVIDER_REJECTED', true],
])(
  'a refund of a payment that is refused with %i %s and cause %i is refused at once',
  async (status, code, cause, ourCode, retrySafe) => {
    const { till, orderId } = await typedAndAdopted(`payment ${cause}`)
    await setFaults(service, { ...ofPayment, kind: 'status', status, code, cause })
    await forgetRequests(service)
    const response = await refund(service, till, orderId)
    expect(response.json()).toMatchObject({
      code: ourCode,
      outcome: 'charged',
      retry_safe: retrySafe,
    })
    expect(await operationsOf(service, orderId)).toMatchObject([
      { state: 'refused', provider_code: String(cause) },
    ])
    expect(await providerRequests(service, ofPayment)).toHaveLength(1)
  },
)

test('a refusal of unknown cause leaves the refund unknown, and is counted', async () => {
  const { till, orderId } = await typedAndAdopted('unknown cause')
  const rule = { ...ofPayment, kind: 'status', status: 400, code: 'bad_request', cause: 9_876 }
  await setFaults(service, rule)
  const series = async () => {
    const { body } = await asAdmin(service, { url: '/metrics' })
    const labels = { operation: 'order.refund' }
    return figureOf(samplesOf(body), 'tillbridge_provider_unknown_codes_total', labels) ?? 0
  }
  const before = await series()
  const response = await refund(service, till, orderId)
  expect(response.json()).toMatchObject({ code: 'PROVIDER_TIMEOUT', outcome: 'unknown' })
  expect(await operationsOf(service, orderId)).toMatchObject([{ state: 'unknown' }])
  expect((await series()) - before).toBe(1)
})

test('a state that our own lost refund may have caused is checked before the refund counts as refused', async () => {
  const { till, orderId } = await typedAndAdopted('own refund')
  await setFaults(
    service,
    { ...ofPayment, kind: 'drop_after', count: 1 },
    {
      ...ofPayment,
      kind: 'status',
      status: 400,
      code: 'bad_request',
      cause: 2063,
    },
  )
  await refund(service, till, orderId, undefined, 'K')
  await sweepAfter(service, 3_600_000)
  expect(await operationsOf(service, orderId)).toMatchObject([{ state: 'done' }])
  expect((await readOrder(service, till, orderId)).json()).toMatchObject({ status: 'refunded' })
})

test('the provider’s stand-in refuses refunds of payments by the documented causes', async () => {
  const { till, orderId } = await typedAndAdopted('stand-in')
  service.clock.advance(181 * 86_400_000)
  const late = await refund(service, till, orderId)
  expect(late.json()).toMatchObject({ code: 'ORDER_NOT_REFUNDABLE', outcome: 'charged' })
  expect(await operationsOf(service, orderId)).toMatchObject([{ provider_code: '2024' }])
})
