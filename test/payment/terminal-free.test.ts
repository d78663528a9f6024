import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  auditOf,
  canceling,
  clearFaults,
  creation,
  forgetRequests,
  openOwnShop,
  ordersAtProvider,
  providerRequests,
  reading,
  setFaults,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, charge, payByCard } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService({
    env: { PROVIDER_TIMEOUT_MS: '500' },
    hangsAreShort: true,
  })
})
afterAll(() => service.stop())
afterEach(() => clearFaults(service))

type Shop = Awaited<ReturnType<typeof openOwnShop>>

async function free(shop: Pick<Shop, 'client' | 'terminalId'>, dryRun?: boolean) {
  const response = await asAdmin(service, {
    url: `/admin/terminals/${shop.terminalId}/free`,
    body: {
      client: shop.client,
      reason: 'Box 1 is stuck',
      ...(dryRun !== undefined && { dry_run: dryRun }),
    },
  })
  expect(response.statusCode, response.body).toBe(200)
  return response.json()
}

/** A shop whose terminal has an open order, and the id of that order. */
async function openBusyShop(client: string) {
  const shop = await openOwnShop(service, client)
  const orderId = String((await charge(service, shop, { reference: 'T-1' })).json().order_id)
  await forgetRequests(service)
  return { shop, orderId }
}

test('a dry run, which is the default, names the order at the terminal and changes nothing', async () => {
  const { shop, orderId } = await openBusyShop('dry')
  service.clock.advance(60_000)
  for (const dryRun of [undefined, true]) {
    expect(await free(shop, dryRun)).toMatchObject({
      verdict: 'would_be_freed',
      client: shop.client,
      terminal_id: shop.terminalId,
      dry_run: true,
      orders: [
        {
          order_id: orderId,
          mp_order_id: ordersAtProvider(service, shop)[0]?.id,
          client: shop.client,
          caja_id: 'CAJA-1',
          external_reference: 'T-1',
          amount: '1234.50',
          status: 'created',
          action: 'cancel',
          done: false,
        },
      ],
    })
  }
  expect((await free(shop)).orders[0].age_seconds).toBeGreaterThanOrEqual(60)
  expect(ordersAtProvider(service, shop)[0]?.status).toBe('created')
  expect((await providerRequests(service)).every(({ method }) => method === 'GET')).toBe(true)
  expect(await auditOf(service, shop.client, 'terminal.freed')).toEqual([])
})

test('an order in status created is canceled at the provider with both audit entries, and the next charge succeeds', async () => {
  const { shop, orderId } = await openBusyShop('real')
  expect(await free(shop, false)).toMatchObject({
    verdict: 'freed',
    dry_run: false,
    orders: [{ order_id: orderId, status: 'canceled', action: 'cancel', done: true }],
  })
  expect(ordersAtProvider(service, shop)[0]?.status).toBe('canceled')
  expect(await auditOf(service, shop.client, 'order.canceled')).toMatchObject([
    { resource_id: orderId },
  ])
  expect(await auditOf(service, shop.client, 'terminal.freed')).toMatchObject([
    {
      resource_type: 'terminal',
      resource_id: shop.terminalId,
      status: 'success',
      metadata: {
        reason: 'Box 1 is stuck',
        verdict: 'freed',
        orders: [{ order_id: orderId, action: 'cancel', done: true }],
      },
    },
  ])
  expect((await charge(service, shop, { reference: 'T-2' })).statusCode).toBe(201)
})

test('an order that the device shows is canceled by request, and is named as requested until it ends', async () => {
  const { shop, orderId } = await openBusyShop('shown')
  await act(service, orderId, { do: 'fetch' })
  expect(await free(shop, true)).toMatchObject({
    verdict: 'held',
    orders: [{ status: 'at_terminal', action: 'ask_device', done: false }],
  })
  expect(await providerRequests(service, canceling)).toEqual([])
  for (const dryRun of [false, true]) {
    const freed = await free(shop, dryRun)
    expect(freed).toMatchObject({
      verdict: 'held',
      orders: [{ status: 'at_terminal', action: 'cancel_requested', done: false }],
    })
    expect(freed.orders[0].message).toContain('may still take the money')
  }
  expect(await providerRequests(service, canceling)).toHaveLength(1)
  await act(service, orderId, { do: 'cancel' })
  expect(await free(shop, true)).toMatchObject({ verdict: 'clear' })
})

test('an order that the device does not let us cancel is left, and the message names the way to cancel it', async () => {
  const { shop, orderId } = await openBusyShop('old device')
  await act(service, orderId, { do: 'fetch' })
  const refusal = { ...canceling, kind: 'status', status: 409, code: 'cannot_cancel_order' }
  await setFaults(service, refusal)
  const freed = await free(shop, false)
  expect(freed).toMatchObject({
    verdict: 'held',
    orders: [{ status: 'at_terminal', action: 'cancel_on_device', done: false }],
  })
  expect(freed.orders[0].message).toContain('only the device can cancel it')
})

test('freeing settles an order of unknown creation under its own key before the cancel; a dry run does not', async () => {
  const shop = await openOwnShop(service, 'unknown')
  await setFaults(service, { ...creation, kind: 'drop_after' })
  const { order_id } = (await charge(service, shop, { reference: 'T-1' })).json()
  await clearFaults(service)
  await forgetRequests(service)
  expect(await free(shop, true)).toMatchObject({
    verdict: 'would_be_freed',
    orders: [{ order_id, mp_order_id: null, action: 'resolve', done: false }],
  })
  expect(await providerRequests(service)).toEqual([])
  expect(await free(shop, false)).toMatchObject({
    verdict: 'freed',
    orders: [{ order_id, action: 'resolve', done: true, status: 'canceled' }],
  })
  expect(ordersAtProvider(service, shop)).toMatchObject([{ status: 'canceled' }])
})

test('nothing is done while the provider does not answer, and a refused cancel is reported', async () => {
  const { shop } = await openBusyShop('silent')
  await setFaults(service, { ...reading, kind: '500' })
  expect(await free(shop, false)).toMatchObject({
    verdict: 'held',
    orders: [{ action: 'wait', done: false }],
  })
  expect(await providerRequests(service, canceling)).toEqual([])
  await setFaults(service, {
    ...canceling,
    kind: 'status',
    status: 409,
    code: 'cannot_cancel_order',
  })
  const refused = await free(shop, false)
  expect(refused).toMatchObject({ verdict: 'held', orders: [{ action: 'cancel', done: false }] })
  expect(refused.orders[0].message).toMatch(/^It could not be canceled: /)
})

test('nothing is canceled when the order was paid without the service having read it', async () => {
  const { shop, orderId } = await openBusyShop('paid')
  await act(service, orderId, payByCard)
  expect(await free(shop, false)).toMatchObject({
    verdict: 'clear',
    orders: [{ status: 'processed', action: 'none', done: false }],
  })
  const again = await free(shop, false)
  expect(again).toMatchObject({ verdict: 'clear', orders: [] })
  expect(again.message).toContain('somewhere else')
  expect(await providerRequests(service, canceling)).toEqual([])
})

test('an order of another client is shown and not changed; an unknown terminal or client is 404', async () => {
  const { shop, orderId } = await openBusyShop('owner')
  const other = await openOwnShop(service, 'neighbour')
  expect(await free({ client: other.client, terminalId: shop.terminalId }, false)).toMatchObject({
    verdict: 'held',
    orders: [{ order_id: orderId, client: 'owner', action: 'other_client', done: false }],
  })
  expect(ordersAtProvider(service, shop)[0]?.status).toBe('created')
  for (const [terminalId, client, code] of [
    ['NO_SUCH__TERMINAL', 'owner', 'TERMINAL_NOT_FOUND'],
    [shop.terminalId, 'nobody', 'NOT_FOUND'],
  ]) {
    const response = await asAdmin(service, {
      url: `/admin/terminals/${terminalId}/free`,
      body: { client, reason: 'x' },
    })
    expect([response.statusCode, response.json().code]).toEqual([404, code])
  }
})

test.each([
  [{ client: 'acme' }, 'reason'],
  [{ client: 'acme', reason: '' }, 'reason'],
  [{ reason: 'x' }, 'client'],
  [{ client: 'acme', reason: 'x', dry_run: 'no' }, 'dry_run'],
])('the body %j is refused and the error names the field', async (body, path) => {
  const response = await asAdmin(service, { url: '/admin/terminals/SBX/free', body })
  expect([response.statusCode, response.json().details[0].path]).toEqual([422, path])
})
