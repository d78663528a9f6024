import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Sandbox } from '../../sandbox/server.ts'
import {
  call,
  connect,
  createClock,
  createOrder,
  getOrder,
  openShop,
  type Shop,
  startTestSandbox,
} from './support.ts'

let clock: ReturnType<typeof createClock>
let sandbox: Sandbox
let shop: Shop

beforeEach(async () => {
  clock = createClock()
  sandbox = await startTestSandbox({ now: clock.now })
  shop = await openShop(sandbox)
})
afterEach(() => sandbox.close())

function simulate(id: string, body: unknown, token = shop.token) {
  return call(sandbox, 'POST', `/v1/orders/${id}/events`, { token, body })
}

it.each([
  [{ status: 'processed', status_detail: 'accredited' }, 'processed', 'accredited', 'accredited'],
  [{ status: 'failed', status_detail: 'high_risk' }, 'failed', 'failed', 'high_risk'],
  [{ status: 'canceled' }, 'canceled', 'canceled', 'canceled_on_terminal'],
  [{ status: 'expired' }, 'expired', 'expired', 'expired'],
  [{ status: 'action_required' }, 'action_required', 'action_required', 'check_on_terminal'],
])('%o happens at once without a pace', async (event, status, detail, payment) => {
  const { body } = await createOrder(sandbox, shop)
  const answer = await simulate(body.id, event)
  expect(answer).toMatchObject({ status: 204, body: '' })
  const read = (await getOrder(sandbox, shop, body.id)).body
  expect(read).toMatchObject({ status, status_detail: detail })
  expect(read.transactions.payments[0].status_detail).toBe(payment)
})

it('pays with the method asked for, and refunds what is paid', async () => {
  const { body } = await createOrder(sandbox, shop)
  await simulate(body.id, {
    status: 'processed',
    payment_method_type: 'credit_card',
    payment_method_id: 'amex',
    installments: 6,
  })
  const paid = (await getOrder(sandbox, shop, body.id)).body.transactions.payments[0]
  expect(paid.payment_method).toEqual({ type: 'credit_card', id: 'amex', installments: 6 })
  expect(paid.card).toEqual({ first_digits: '371180', last_digits: '8431' })
  expect((await simulate(body.id, { status: 'refunded' })).status).toBe(204)
  expect((await getOrder(sandbox, shop, body.id)).body.status).toBe('refunded')
})

it('passes through at_terminal at the set pace, four times slower to action_required', async () => {
  await call(sandbox, 'PUT', '/_sandbox/pace', { body: { event_ms: 10_000 } })
  const status = async (id: string) => (await getOrder(sandbox, shop, id)).body.status
  const first = (await createOrder(sandbox, shop)).body.id
  await simulate(first, { status: 'processed' })
  expect(await status(first)).toBe('created')
  clock.advance(5000)
  expect(await status(first)).toBe('at_terminal')
  clock.advance(5000)
  expect(await status(first)).toBe('processed')
  const second = (await createOrder(sandbox, shop)).body.id
  await simulate(second, { status: 'action_required' })
  clock.advance(39_999)
  expect(await status(second)).toBe('at_terminal')
  clock.advance(1)
  expect(await status(second)).toBe('action_required')
})

it('takes only the first of two simulated ends', async () => {
  await call(sandbox, 'PUT', '/_sandbox/pace', { body: { event_ms: 1000 } })
  const { id } = (await createOrder(sandbox, shop)).body
  await simulate(id, { status: 'failed' })
  await simulate(id, { status: 'processed' })
  clock.advance(1000)
  expect((await getOrder(sandbox, shop, id)).body.status).toBe('failed')
  expect(sandbox.ledger().charges).toBe(0)
})

it.each([
  [{ status: 'paid' }, 'status'],
  [{}, 'status'],
  [[], 'object'],
  [{ status: 'refunded' }, 'created cannot become refunded'],
  [{ status: 'canceled', payment_method_type: 'credit_card' }, 'payment_method_type'],
  [{ status: 'processed', payment_method_type: 'cash' }, 'payment_method_type'],
  [{ status: 'processed', payment_method_type: 'debit_card', installments: 2 }, 'installments'],
  [{ status: 'processed', status_detail: 'high_risk' }, 'status_detail'],
  [{ status: 'failed', payment_method_id: 'diners' }, 'payment_method_id'],
  [{ status: 'processed', amount: '1.00' }, 'amount'],
])('refuses %o', async (event, word) => {
  const { body } = await createOrder(sandbox, shop)
  const answer = await simulate(body.id, event)
  expect(answer).toMatchObject({ status: 400, body: { errors: [{ code: 'bad_request' }] } })
  expect(answer.body.errors[0].message).toContain(word)
  expect((await getOrder(sandbox, shop, body.id)).body.status).toBe('created')
})

it('finds neither orders of other sellers nor production orders, and answers bad_request to a bad id', async () => {
  const { body } = await createOrder(sandbox, shop)
  const other = await connect(sandbox, 5001)
  expect((await simulate(body.id, { status: 'processed' }, other.token)).status).toBe(404)
  expect((await simulate('x', { status: 'processed' })).body.errors[0].code).toBe('bad_request')
  await call(sandbox, 'POST', '/_sandbox/users', { body: { id: 7001, live_mode: true } })
  const live = await openShop(sandbox, 7001)
  const order = await createOrder(sandbox, live)
  expect(order.body.id).toMatch(/^ORD(?!TST).{26}$/)
  const answer = await simulate(order.body.id, { status: 'processed' }, live.token)
  expect(answer).toMatchObject({ status: 404, body: { errors: [{ code: 'order_not_found' }] } })
})
