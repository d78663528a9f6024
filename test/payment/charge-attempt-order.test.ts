import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  cancel,
  clearFaults,
  creation,
  deliver,
  type FaultRule,
  forgetRequests,
  openOwnShop,
  orderRow,
  ordersAtProvider,
  providerRequests,
  reading,
  readResolved,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
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

/** Cases in which one attempt outlives another. A mistake in each would charge twice, lose a charge, or report a wrong outcome. */
let service: TestService
let duplicate: TestService
const timeoutMs = 500
/** How long an attempt without an answer may still reach the provider. */
const lateArrivalMs = 6 * timeoutMs
beforeAll(async () => {
  const env = { PROVIDER_TIMEOUT_MS: String(timeoutMs) }
  service = await startTestService({ env })
  duplicate = await startTestService({ twinOf: service, env })
})
afterAll(async () => {
  await duplicate.stop()
  await service.stop()
})
afterEach(() => clearFaults(service))

const actThere = (id: string | undefined, action: object) =>
  sandboxCall(service, 'POST', `/_sandbox/orders/${id}/act`, action)

/** An order of another application occupies the terminal. */
async function occupyTerminal(terminalId: string): Promise<string> {
  const order = (await sandboxCall(service, 'POST', '/_sandbox/orders', {
    type: 'point',
    external_reference: `FOREIGN-${terminalId}`,
    transactions: { payments: [{ amount: '1.00' }] },
    config: { point: { terminal_id: terminalId } },
  })) as { id: string }
  return order.id
}

/** The provider's orders of a till after all delayed requests have arrived. */
async function arrived(till: Till, afterMs: number) {
  service.clock.advance(afterMs)
  await sandboxCall(service, 'GET', '/_sandbox/requests?last=1')
  return ordersAtProvider(service, till)
}

test('a refusal of the second attempt does not settle the first, which arrives later and is found', async () => {
  const till = await openOwnShop(service, 'overtaken')
  await setFaults(service, {
    ...creation,
    kind: 'arrive_late',
    delay_ms: 7_000,
    count: 1,
  })
  const foreign = await occupyTerminal(till.terminalId)
  const answer = await charge(service, till, { reference: 'A-1' })
  expect([answer.statusCode, answer.json().outcome]).toEqual([504, 'unknown'])
  const { order_id } = answer.json()
  await actThere(foreign, { do: 'pay' })
  // The gateway delivers the first attempt.
  service.clock.advance(7_000)
  expect((await readResolved(service, till, order_id)).json()).toMatchObject({
    status: 'created',
    mp_order_id: ordersAtProvider(service, till).at(-1)?.id,
  })
  await act(service, order_id, payByCard)
  const again = await charge(service, till, { reference: 'A-1' })
  expect(again.json()).toMatchObject({ code: 'ORDER_ALREADY_PAID', order_id })
})

test('when no attempt can arrive any more, a refusal after a search without a result ends the charge', async () => {
  const till = await openOwnShop(service, 'nothing came')
  await setFaults(service, { ...creation, kind: 'drop_before', count: 1 })
  await occupyTerminal(till.terminalId)
  const { order_id } = (await charge(service, till, { reference: 'A-2' })).json()
  await sweepAfter(service, lateArrivalMs - 1_000)
  expect((await orderRow(service, order_id)).creation).toBe('unknown')
  await sweepAfter(service, 4_000)
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    status: 'failed',
    status_detail: 'not_created',
    outcome: 'not_charged',
  })
})

const refusals: (Pick<FaultRule, 'status' | 'code'> & { form: 'html' | 'bare' | 'provider' })[] = [
  { status: 403, form: 'html' },
  { status: 404, form: 'html' },
  { status: 400, form: 'html' },
  { status: 401, form: 'html' },
  { status: 429, form: 'html' },
  { status: 405, form: 'bare' },
  { status: 409, form: 'bare' },
  { status: 422, form: 'bare' },
  { status: 404, form: 'provider', code: 'order_not_found' },
  { status: 403, form: 'provider', code: 'blocked_by_gateway' },
  { status: 401, form: 'provider', code: 'forbidden' },
]
test.each(refusals)(
  'a charge that was made and answered with $status ($form $code) is unknown, and found',
  async (refusal) => {
    const name = `refused ${refusal.status} ${refusal.form} ${refusal.code}`
    const till = await openOwnShop(service, name)
    await setFaults(service, { ...creation, kind: 'status_after', count: 1, ...refusal })
    const answer = await charge(service, till, { reference: 'A-3' })
    expect(answer.json().outcome).toBe('unknown')
    const [made] = ordersAtProvider(service, till)
    await actThere(made?.id, payByCard)
    const again = await charge(service, till, { reference: 'A-3' })
    expect(again.json()).toMatchObject({
      outcome: 'charged',
      order_id: answer.json().order_id,
    })
    expect(ordersAtProvider(service, till)).toHaveLength(1)
  },
)

test('an order that counted as refused and appears is canceled at the provider', async () => {
  const till = await openOwnShop(service, 'shows up')
  await setFaults(service, { ...creation, kind: 'arrive_late', delay_ms: 60_000, count: 9 })
  const { order_id } = (await charge(service, till, { reference: 'A-4' })).json()
  await clearFaults(service)
  await cancel(service, till, order_id)
  await sweepAfter(service, lateArrivalMs + 2_000)
  expect((await orderRow(service, order_id)).creation).toBe('refused')
  const [lateOrder] = await arrived(till, 60_000)
  await deliver(service, { dataId: String(lateOrder?.id), body: { user_id: till.mpUserId } })
  await sweepAfter(service, 3_000)
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'canceled' }])
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    status: 'canceled',
    outcome: 'not_charged',
    mp_order_id: lateOrder?.id,
  })
})

test('an order that counted as refused and was paid is flagged, found by the search alone', async () => {
  const till = await openOwnShop(service, 'shows up paid')
  await setFaults(service, { ...creation, kind: 'arrive_late', delay_ms: 60_000, count: 9 })
  const { order_id } = (await charge(service, till, { reference: 'A-5' })).json()
  await clearFaults(service)
  await cancel(service, till, order_id)
  await sweepAfter(service, lateArrivalMs + 2_000)
  const [lateOrder] = await arrived(till, 60_000)
  await actThere(lateOrder?.id, payByCard)
  await sweepAfter(service, 5 * 60_000)
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    outcome: 'charged',
    paid_after_close: true,
    cashier: { action: 'call_supervisor' },
  })
})

test('a process suspended between intent and call sends nothing after another process took over', async () => {
  const till = await openOwnShop(service, 'stood still')
  const foreign = await occupyTerminal(till.terminalId)
  const { deps } = service
  const { create } = deps.provider.orders
  let stalled = false
  deps.provider.orders.create = async (...call) => {
    deps.provider.orders.create = create
    stalled = true
    // The lease of this process expires; the other process takes over and gets a definite refusal.
    service.clock.advance(6_500)
    await duplicate.sweeper.sweepOnce()
    await actThere(foreign, { do: 'pay' })
    return create(...call)
  }
  const answer = await charge(service, till, { reference: 'A-6' })
  expect(stalled).toBe(true)
  expect(answer.json()).toMatchObject({ outcome: 'not_charged', retry_safe: true })
  expect(
    ordersAtProvider(service, till).filter(
      ({ external_reference }) => external_reference === 'A-6',
    ),
  ).toEqual([])
  expect((await charge(service, till, { reference: 'A-6' })).statusCode).toBe(201)
})

describe('a charge that waits for its terminal while a later one of its box is refused', () => {
  const listing = { path: '^/terminals', method: 'GET' }

  /** Delays the next charge until `meanwhile` has ended. */
  function delayCharge(meanwhile: () => Promise<unknown>) {
    const { terminals } = service.deps.provider
    const { list } = terminals
    terminals.list = async (...call) => {
      terminals.list = list
      await meanwhile()
      return list(...call)
    }
  }

  test.each([
    ['by its key', 'key-1'],
    ['by its content', undefined],
  ])('is not made any more (the same sale %s)', async (name, key) => {
    const till = await openOwnShop(service, `refused meanwhile ${name}`)
    const sale = { reference: 'A-30', headers: key ? { 'idempotency-key': key } : {} }
    let refusal: Awaited<ReturnType<typeof charge>> | undefined
    delayCharge(async () => {
      await setFaults(service, { ...listing, kind: 'status', status: 409, code: 'conflict' })
      refusal = await charge(duplicate, till, sale)
      await clearFaults(service)
    })
    const first = await charge(service, till, sale)
    expect(refusal?.json()).toMatchObject({ outcome: 'not_charged', retry_safe: true })
    expect([first.statusCode, first.json()]).toMatchObject([
      503,
      { code: 'SERVICE_UNAVAILABLE', outcome: 'not_charged', retry_safe: true },
    ])
    expect(ordersAtProvider(service, till)).toEqual([])
    expect((await charge(service, till, sale)).statusCode).toBe(201)
  })

  test('both requests get the order when it was made before the refusal', async () => {
    const till = await openOwnShop(service, 'made before the refusal')
    let first: Awaited<ReturnType<typeof charge>> | undefined
    delayCharge(async () => {
      first = await charge(duplicate, till, { reference: 'A-31' })
      await setFaults(service, { ...listing, kind: 'status', status: 409, code: 'conflict' })
    })
    const second = await charge(service, till, { reference: 'A-31' })
    expect(second.json().order_id).toBe(first?.json().order_id)
    expect(ordersAtProvider(service, till)).toHaveLength(1)
  })
})

test('after a cancel was requested nothing is sent that could charge', async () => {
  const till = await openOwnShop(service, 'cancel requested')
  await setFaults(service, { ...creation, kind: 'drop_before' })
  const { order_id } = (await charge(service, till, { reference: 'A-7' })).json()
  await clearFaults(service)
  await forgetRequests(service)
  const canceled = await cancel(service, till, order_id)
  expect([canceled.statusCode, canceled.json().outcome]).toEqual([504, 'unknown'])
  await readOrder(service, till, order_id)
  await charge(service, till, { reference: 'A-7' })
  await sweepAfter(service, 2_000)
  expect(await providerRequests(service, creation)).toEqual([])
  await sweepAfter(service, lateArrivalMs)
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    outcome: 'not_charged',
    retry_safe: true,
  })
  expect(await providerRequests(service, creation)).toEqual([])
  expect((await charge(service, till, { reference: 'A-7' })).statusCode).toBe(201)
})

test('a cancel between two attempts of one call stops the second attempt', async () => {
  const till = await openOwnShop(service, 'canceled between')
  await setFaults(service, { ...creation, kind: 'drop_before', count: 1 })
  let orderId = ''
  let canceling: Promise<unknown> | undefined
  service.onSleep.current = async () => {
    service.onSleep.current = undefined
    const [row] = (await call(service, { url: '/orders', token: till.key })).json().orders
    orderId = row.order_id
    canceling = cancel(duplicate, till, orderId)
    const requestedAt = async () => (await orderRow(service, orderId)).cancel_requested_at
    await expect.poll(requestedAt).not.toBeNull()
  }
  await charge(service, till, { reference: 'A-8' })
  await canceling
  // The first attempt may still arrive.
  expect((await orderRow(service, orderId)).creation).toBe('unknown')
  expect((await providerRequests(service, creation)).filter(isOf(till.mpUserId))).toHaveLength(1)
  expect(ordersAtProvider(service, till)).toEqual([])
})

const isOf =
  (mpUserId: number) =>
  ({ user_id }: { user_id: number | null }) =>
    user_id === mpUserId

test.each([
  ['an unknown state', { status: 'under_review' }, 'wait'],
  [
    'another amount',
    {
      total_amount: '9.99',
      transactions: { payments: [{ id: 'P1', amount: '9.99', status: 'created' }] },
    },
    'call_supervisor',
  ],
])(
  'an order that the provider shows with %s does not block its box, and the terminal counts as free',
  async (name, shown, action) => {
    const till = await openOwnShop(service, `strange ${name}`)
    const { order_id } = (await charge(service, till, { reference: 'A-9' })).json()
    const [made] = ordersAtProvider(service, till)
    await act(service, order_id, { do: 'fetch' })
    await act(service, order_id, { do: 'expire' })
    await sandboxCall(service, 'PUT', `/_sandbox/orders/${made?.id}/shown`, shown)
    const freed = await asAdmin(service, {
      url: `/admin/terminals/${till.terminalId}/free`,
      body: { client: till.client, reason: 'checked', dry_run: true },
    })
    expect(freed.json()).toMatchObject({ verdict: 'clear' })
    expect((await charge(service, till, { reference: 'A-10' })).statusCode).toBe(201)
    expect((await readOrder(service, till, order_id)).json()).toMatchObject({
      outcome: 'unknown',
      cashier: { action },
    })
  },
)

test('a second payment entry after a failed first one belongs to the same order', async () => {
  const till = await openOwnShop(service, 'second card')
  const { order_id } = (await charge(service, till, { reference: 'A-11' })).json()
  await act(service, order_id, payByCard)
  const [made] = ordersAtProvider(service, till)
  const entry = {
    id: made?.payments[0]?.id,
    amount: '1234.50',
    paid_amount: '1234.50',
    status: 'processed',
  }
  await sandboxCall(service, 'PUT', `/_sandbox/orders/${made?.id}/shown`, {
    total_amount: null,
    transactions: { payments: [{ id: 'PAYFIRST', amount: '1234.50', status: 'failed' }, entry] },
  })
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    status: 'processed',
    outcome: 'charged',
  })
  expect((await orderRow(service, order_id)).conflict).toBe(null)
})

test('an order in action_required stops answering equal requests after a cancel, or after a day', async () => {
  const till = await openOwnShop(service, 'on hold')
  const { order_id } = (await charge(service, till, { reference: 'A-12' })).json()
  await act(service, order_id, { do: 'hold' })
  await readOrder(service, till, order_id)
  expect((await charge(service, till, { reference: 'A-12' })).json().order_id).toBe(order_id)
  const given = await cancel(service, till, order_id)
  expect([given.statusCode, given.json().outcome]).toEqual([409, 'unknown'])
  const anew = await charge(service, till, { reference: 'A-12' })
  expect(anew.statusCode).toBe(201)
  // The old order is paid after all: the payment must be shown.
  await actThere(ordersAtProvider(service, till)[0]?.id, { do: 'pay', force: true })
  await deliver(service, { dataId: String(ordersAtProvider(service, till)[0]?.id) })
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    outcome: 'charged',
    paid_after_close: true,
  })

  const other = await openOwnShop(service, 'on hold for long')
  const { order_id: old } = (await charge(service, other, { reference: 'A-13' })).json()
  await act(service, old, { do: 'hold' })
  await readOrder(service, other, old)
  service.clock.advance(25 * 3600_000)
  expect((await charge(service, other, { reference: 'A-13' })).statusCode).toBe(201)
})

test('the duplicate guard finds the charged order behind any number of newer equal ones', async () => {
  const till = await openOwnShop(service, 'many equal')
  const { order_id } = (await charge(service, till, { reference: 'A-14' })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  const { id, mp_order_id, mp_external_reference, payments, refunds, standing, ...row } =
    await orderRow(service, order_id)
  for (let attempt = 2; attempt <= 61; attempt += 1) {
    await service.database.db
      .insertInto('orders')
      .values({
        ...row,
        net: null,
        id: `00000000-0000-4000-8000-${String(attempt).padStart(12, '0')}`,
        mp_external_reference: `A-14-${attempt}`,
        reference_attempt: attempt,
        creation: 'refused',
        status: 'failed',
        paid_cents: 0,
        created_at: new Date(row.created_at.getTime() + attempt * 1000),
      })
      .execute()
  }
  expect((await charge(service, till, { reference: 'A-14' })).json()).toMatchObject({
    code: 'ORDER_ALREADY_PAID',
    order_id,
  })
})

test('a paid order that the provider later shows as canceled is flagged', async () => {
  const till = await openOwnShop(service, 'voided')
  const { order_id } = (await charge(service, till, { reference: 'A-15' })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  const [made] = ordersAtProvider(service, till)
  await sandboxCall(service, 'PUT', `/_sandbox/orders/${made?.id}/shown`, { status: 'canceled' })
  expect((await readOrder(service, till, order_id)).json()).toMatchObject({
    status: 'processed',
    outcome: 'unknown',
    cashier: { action: 'call_supervisor' },
  })
})

test('the sweeper of another process continues a charge that its process left unfinished within ten seconds', async () => {
  const till = await openOwnShop(service, 'left behind')
  const { deps } = service
  const { create } = deps.provider.orders
  deps.provider.orders.create = () => {
    deps.provider.orders.create = create
    // As when a process crashes right after the intent.
    return Promise.reject(new Error('crashed'))
  }
  const lost = await charge(service, till, { reference: 'A-16' })
  expect([lost.statusCode, lost.json().outcome]).toEqual([500, 'unknown'])
  await sweepAfter(duplicate, 7_000)
  expect(await orderRow(service, lost.json().order_id)).toMatchObject({ creation: 'confirmed' })
})

test('TERMINAL_BUSY is answered only after the open order was read at the provider', async () => {
  const till = await openOwnShop(service, 'asked first')
  await charge(service, till, { reference: 'A-17' })
  await forgetRequests(service)
  expect((await charge(service, till, { reference: 'A-18' })).json().code).toBe('TERMINAL_BUSY')
  expect(await providerRequests(service, reading)).toHaveLength(1)
})
