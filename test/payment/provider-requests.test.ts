import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  cancel,
  canceling,
  creation,
  forgetRequests,
  ordersAtProvider,
  providerRequests,
  refund,
  refunding,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, openShop, payByCard, type Till } from '../support/till.ts'

let service: TestService
let till: Till & { terminalId: string }
beforeAll(async () => {
  service = await startTestService()
  till = await openShop(service, 'wire')
})
afterAll(() => service.stop())
beforeEach(() => forgetRequests(service))

let ticket = 0
/** Charges with these fields, frees the terminal again, and returns the request that the provider got. */
async function sentFor(fields: Record<string, unknown>, shop = till, on = service) {
  ticket += 1
  const response = await call(on, {
    url: '/orders',
    token: shop.key,
    body: { caja_id: 'CAJA-1', external_reference: `W-${ticket}`, amount: '1,00', ...fields },
  })
  expect(response.statusCode, response.body).toBe(201)
  const { order_id } = response.json()
  const sent = await providerRequests(on, creation)
  await cancel(on, shop, order_id)
  expect(sent).toHaveLength(1)
  return { orderId: order_id as string, ...sent[0], body: sent[0]?.body }
}

function configOf(body: Record<string, unknown> | null | undefined) {
  return body?.config as { point: object; payment_method?: object }
}

test('a plain charge is sent with its own id as key and without optional fields', async () => {
  const { orderId, headers, body } = await sentFor({ external_reference: 'W-plain' })
  expect(headers).toMatchObject({
    'x-idempotency-key': orderId,
    'content-type': 'application/json',
    authorization: '***',
  })
  expect(headers).not.toHaveProperty('x-allow-cancelable-status')
  expect(body).toEqual({
    type: 'point',
    external_reference: 'W-plain',
    expiration_time: 'PT16M',
    transactions: { payments: [{ amount: '1.00' }] },
    config: { point: { terminal_id: till.terminalId, print_on_terminal: 'no_ticket' } },
  })
})

test('every optional field reaches the provider in its format', async () => {
  const { body } = await sentFor({
    external_reference: 'W-full',
    amount: '1234,5',
    description: 'Venta mostrador ñandú',
    ticket_number: 'B-0001-00004711',
    print_ticket: true,
    payment_method: 'credit_card',
    expiration_minutes: 180,
  })
  expect(body).toEqual({
    type: 'point',
    external_reference: 'W-full',
    description: 'Venta mostrador ñandú',
    expiration_time: 'PT180M',
    transactions: { payments: [{ amount: '1234.50' }] },
    config: {
      point: {
        terminal_id: till.terminalId,
        print_on_terminal: 'seller_ticket',
        ticket_number: 'B-0001-00004711',
      },
      payment_method: { default_type: 'credit_card' },
    },
  })
})

test.each([
  ['all', undefined],
  ['debit_card', { default_type: 'debit_card' }],
  ['credit_card', { default_type: 'credit_card' }],
  ['qr', { default_type: 'qr' }],
])('payment_method %s is sent as %j', async (method, sent) => {
  const { body } = await sentFor({ payment_method: method })
  expect(configOf(body).payment_method).toEqual(sent)
})

test('empty texts count as absent', async () => {
  const { body } = await sentFor({ description: '', ticket_number: '' })
  expect(body).not.toHaveProperty('description')
  expect(configOf(body).point).not.toHaveProperty('ticket_number')
})

test.each([
  ['100,5', '100.50'],
  ['0,01', '0.01'],
  ['999999999999,99', '999999999999.99'],
  ['000000000007,5', '7.50'],
])('%s is sent as %s', async (amount, sent) => {
  const { body } = await sentFor({ amount })
  expect(body?.transactions).toEqual({ payments: [{ amount: sent }] })
})

test('with MP_SEND_TICKET_NUMBER=false the ticket number is not sent', {
  tags: ['long'],
}, async () => {
  const withoutTicket = await startTestService({ env: { MP_SEND_TICKET_NUMBER: 'false' } })
  try {
    const shop = await openShop(withoutTicket, 'withoutTicket')
    await forgetRequests(withoutTicket)
    const { orderId, body } = await sentFor({ ticket_number: 'B-7' }, shop, withoutTicket)
    expect(configOf(body).point).not.toHaveProperty('ticket_number')
    const read = await call(withoutTicket, { url: `/orders/${orderId}`, token: shop.key })
    expect(read.json().ticket_number).toBe('B-7')
  } finally {
    await withoutTicket.stop()
  }
})

const texts = [
  'T 1/1',
  'Factura B Nº 0001-00004711',
  'ñandú áéíóú',
  '🧾🧾🧾',
  'é'.repeat(64),
  'a'.repeat(64),
  '..',
  '-',
  '%2e',
  "'; drop table orders; --",
  '日本語',
  'W_x0123456789abcdef0123456789abcdef',
]

test.each(texts)(
  'the reference %j is sent encoded and comes back as the ERP wrote it',
  async (text) => {
    const first = await sentFor({ external_reference: text, amount: '2,00' })
    expect(first.body?.external_reference).toMatch(/^[A-Za-z0-9_-]{1,64}$/)
    const read = await call(service, { url: `/orders/${first.orderId}`, token: till.key })
    expect(read.json().external_reference).toBe(text)

    await forgetRequests(service)
    const second = await sentFor({ external_reference: text, amount: '2,00' })
    expect(second.orderId).not.toBe(first.orderId)
    expect(second.body?.external_reference).toMatch(/^[A-Za-z0-9_-]{1,62}-2$/)
    const again = await call(service, { url: `/orders/${second.orderId}`, token: till.key })
    expect(again.json().external_reference).toBe(text)
    const listed = await call(service, {
      url: `/orders?external_reference=${encodeURIComponent(text)}`,
      token: till.key,
    })
    expect(listed.json().total).toBe(2)
  },
)

test('the third order of one reference ends in -3, and an equal reference of the ERP gets another suffix', async () => {
  for (const ending of ['', '-2', '-3']) {
    await forgetRequests(service)
    const { body } = await sentFor({ external_reference: 'SPLIT' })
    expect(body?.external_reference).toBe(`SPLIT${ending}`)
  }
  await forgetRequests(service)
  const { body } = await sentFor({ external_reference: 'SPLIT-2' })
  expect(body?.external_reference).toBe('SPLIT-2-2')
  const references = ordersAtProvider(service, till).map((order) => order.external_reference)
  expect(new Set(references).size).toBe(references.length)
})

test('cancel and total refund send a key of their own and no body', async () => {
  const created = (await charge(service, till, { reference: 'W-cancel' })).json()
  await cancel(service, till, created.order_id)
  const canceled = await providerRequests(service, canceling)
  expect(canceled).toHaveLength(1)
  expect(canceled[0]?.body).toBeNull()
  expect(canceled[0]?.headers['x-allow-cancelable-status']).toBe('at_terminal')
  const cancelKey = canceled[0]?.headers['x-idempotency-key']

  const paid = (await charge(service, till, { reference: 'W-refund' })).json()
  await act(service, paid.order_id, payByCard)
  await refund(service, till, paid.order_id, '34,50')
  await refund(service, till, paid.order_id)
  const [part, rest] = await providerRequests(service, refunding)
  const payment = ordersAtProvider(service, till).at(-1)?.payments[0]
  expect(part?.body).toEqual({ transactions: [{ id: payment?.id, amount: '34.50' }] })
  expect(rest?.body).toBeNull()
  const keys = [created.order_id, cancelKey, paid.order_id]
    .concat([part, rest].map((request) => request?.headers['x-idempotency-key']))
    .map(String)
  expect(new Set(keys).size).toBe(5)
  for (const key of keys) expect(key).toMatch(/^[0-9a-f-]{36}$/)
})
