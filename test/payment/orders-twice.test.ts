import { afterAll, beforeAll, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { findIdempotencyKey } from '../../src/repositories/orders/idempotency-keys.ts'
import {
  cancel,
  clearFaults,
  creation,
  forgetRequests,
  openOwnShop,
  orderRow,
  ordersAtProvider,
  providerRequests,
  reading,
  refund,
  sandboxRefund,
  setFaults,
  simulate,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  createStore,
  enrol,
  openShop,
  pairTerminal,
  payByCard,
  readOrder,
  type Till,
} from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

const keyed = (key: string) => ({ 'idempotency-key': key })

test('the same Idempotency-Key and content return the first order again, in its current state', async () => {
  const till = await openOwnShop(service, 'key-replay')
  const send = () => charge(service, till, { reference: 'K-1', headers: keyed('k1') })
  const first = await send()
  expect(first.statusCode).toBe(201)
  const again = await send()
  expect([again.statusCode, again.headers['idempotent-replayed']]).toEqual([200, 'true'])
  expect(again.json()).toMatchObject({ order_id: first.json().order_id, status: 'created' })

  await act(service, first.json().order_id, payByCard)
  const paid = await send()
  expect([paid.statusCode, paid.json().status, paid.json().outcome]).toEqual([
    200,
    'processed',
    'charged',
  ])
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test('the same Idempotency-Key with other content is a conflict and makes no order', async () => {
  const till = await openOwnShop(service, 'key-conflict')
  const body = { caja_id: 'CAJA-1', external_reference: 'K-2', amount: '5,00' }
  const send = (fields: object) =>
    call(service, {
      url: '/orders',
      token: till.key,
      headers: keyed('k2'),
      body: { ...body, ...fields },
    })
  expect((await send({})).statusCode).toBe(201)
  for (const fields of [
    { amount: '5,01' },
    { external_reference: 'K-3' },
    { description: 'x' },
    { ticket_number: '1' },
    { print_ticket: true },
    { payment_method: 'qr' },
    { expiration_minutes: 17 },
  ]) {
    const response = await send(fields)
    expect(response.statusCode).toBe(409)
    expect(response.json()).toMatchObject({ code: 'IDEMPOTENCY_CONFLICT', retry_safe: false })
  }
  // The same content in another notation is the same content.
  expect((await send({ amount: '5,0', expiration_minutes: 16, description: '' })).statusCode).toBe(
    200,
  )
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test('T34: two clients may use the same Idempotency-Key, and each gets its own order', async () => {
  const tills = [await openOwnShop(service, 'key-one'), await openOwnShop(service, 'key-two')]
  const send = (till: Till) => charge(service, till, { reference: 'K-4', headers: keyed('shared') })
  const made: string[] = []
  for (const till of tills) {
    const answer = await send(till)
    expect(answer.statusCode, answer.body).toBe(201)
    made.push(answer.json().order_id)
  }
  expect(new Set(made).size).toBe(2)
  for (const [index, till] of tills.entries()) {
    const again = await send(till)
    expect([again.statusCode, again.json().order_id]).toEqual([200, made[index]])
    await act(service, made[index] ?? '', payByCard)
    await readOrder(service, till, made[index] ?? '')
  }
  // A key belongs to a route too: the charge has already used this one.
  for (const times of [1, 2]) {
    for (const [index, till] of tills.entries()) {
      const answer = await refund(service, till, made[index] ?? '', undefined, 'shared')
      expect([answer.statusCode, answer.json().order_id, times]).toEqual([200, made[index], times])
    }
  }
  for (const till of tills) {
    expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'refunded' }])
  }
})

test('T34: a key that a refund has used is free for a charge', async () => {
  const till = await openOwnShop(service, 'key-of-refund')
  const { order_id: sold } = (await charge(service, till, { reference: 'K-5' })).json()
  await act(service, sold, payByCard)
  await readOrder(service, till, sold)
  expect((await refund(service, till, sold, undefined, 'refund-first')).statusCode).toBe(200)
  const headers = keyed('refund-first')
  const answer = await charge(service, till, { reference: 'K-6', headers })
  expect([answer.statusCode, answer.json().order_id !== sold]).toEqual([201, true])
  const { db } = service.database
  const kept = await db
    .selectFrom('idempotency_keys')
    .selectAll()
    .where('client', '=', asClientName(till.client))
    .execute()
  expect(kept.length).toBeGreaterThan(0)
  for (const { client, key } of kept) {
    expect(await findIdempotencyKey(db, { client, route: 'another route', key })).toBeUndefined()
  }
})

test('T34: equal requests of two clients are two sales, and neither client reads the other’s', async () => {
  const tills = [await openOwnShop(service, 'bare-one'), await openOwnShop(service, 'bare-two')]
  const made: string[] = []
  for (const till of tills) {
    const answer = await charge(service, till, { reference: 'B-4' })
    expect(answer.statusCode, answer.body).toBe(201)
    made.push(answer.json().order_id)
    // The reference has no suffix: for this client it is the first.
    expect(ordersAtProvider(service, till)).toMatchObject([{ external_reference: 'B-4' }])
  }
  for (const [index, till] of tills.entries()) {
    const again = await charge(service, till, { reference: 'B-4' })
    expect([again.statusCode, again.json().order_id]).toEqual([200, made[index]])
  }
})

test('a key whose charge was refused is free again, also for other content', async () => {
  const till = await openOwnShop(service, 'key-free')
  const blocker = (await charge(service, till, { reference: 'K-5' })).json()
  const refused = await charge(service, till, { reference: 'K-6', headers: keyed('k6') })
  expect(refused.json().code).toBe('TERMINAL_BUSY')
  await cancel(service, till, blocker.order_id)
  const free = await charge(service, till, { reference: 'K-7', headers: keyed('k6') })
  expect(free.statusCode).toBe(201)
})

test('a key is stored for 30 days', async () => {
  const till = await openOwnShop(service, 'key-days')
  const send = () => charge(service, till, { reference: 'K-8', headers: keyed('k8') })
  const { order_id } = (await send()).json()
  await cancel(service, till, order_id)
  service.clock.advance(29 * 24 * 3600_000)
  await service.sweeper.sweepOnce()
  expect((await send()).json()).toMatchObject({ order_id, status: 'canceled' })
  service.clock.advance(2 * 24 * 3600_000)
  await service.sweeper.sweepOnce()
  const fresh = await send()
  expect(fresh.statusCode).toBe(201)
  expect(fresh.json().order_id).not.toBe(order_id)
})

test('one key sent for two boxes at once makes one order', { tags: ['long'] }, async () => {
  const till = await openOwnShop(service, 'key-boxes')
  await createStore(service, till, { id: 'SUC-2', boxes: ['CAJA-2'] })
  await pairTerminal(service, till, 'CAJA-2')
  for (let round = 0; round < 10; round += 1) {
    const headers = keyed(`race-${round}`)
    const before = ordersAtProvider(service, till).length
    const answers = await Promise.all(
      ['CAJA-1', 'CAJA-2'].map((box) =>
        charge(service, till, { reference: `KB-${round}`, box, headers }),
      ),
    )
    expect(answers.map((answer) => answer.statusCode).sort()).toEqual([201, 409])
    expect(answers.map((answer) => answer.json().code)).toContain('IDEMPOTENCY_CONFLICT')
    expect(ordersAtProvider(service, till)).toHaveLength(before + 1)
    for (const answer of answers) {
      if (answer.statusCode === 201) await cancel(service, till, answer.json().order_id)
    }
  }
})

test('a duplicate request without a key returns the open order', async () => {
  const till = await openOwnShop(service, 'guard-open')
  const first = await charge(service, till, { reference: 'G-1', amount: '10,00' })
  const again = await charge(service, till, { reference: 'G-1', amount: '10,0' })
  expect([again.statusCode, again.headers['idempotent-replayed']]).toEqual([200, 'true'])
  expect(again.json().order_id).toBe(first.json().order_id)

  await act(service, first.json().order_id, { do: 'fetch' })
  const shown = await charge(service, till, { reference: 'G-1', amount: '10,00' })
  expect(shown.json()).toMatchObject({ order_id: first.json().order_id, status: 'at_terminal' })
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test('a duplicate request for a paid order is 409 as charged, even before the payment was read', async () => {
  const till = await openOwnShop(service, 'guard-paid')
  const { order_id } = (await charge(service, till, { reference: 'G-2' })).json()
  await act(service, order_id, payByCard)
  for (let asked = 0; asked < 2; asked += 1) {
    const response = await charge(service, till, { reference: 'G-2' })
    expect(response.statusCode).toBe(409)
    expect(response.json()).toMatchObject({
      code: 'ORDER_ALREADY_PAID',
      outcome: 'charged',
      retry_safe: false,
      order_id,
      status: 'processed',
    })
  }
  await refund(service, till, order_id, '1,00')
  const partly = await charge(service, till, { reference: 'G-2' })
  expect(partly.json()).toMatchObject({ code: 'ORDER_ALREADY_PAID', status: 'partially_refunded' })
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test.each([
  [
    'canceled here',
    async (id: string, till: { key: string }) => void (await cancel(service, till, id)),
  ],
  ['canceled at the terminal', (id: string) => act(service, id, { do: 'cancel' })],
  ['declined', (id: string) => act(service, id, { do: 'decline' })],
  ['expired', (id: string) => act(service, id, { do: 'expire' })],
  [
    'paid and refunded',
    async (id: string, till: { key: string }) => {
      await act(service, id, payByCard)
      await refund(service, till, id)
    },
  ],
])('after an order was %s the same request makes a new order', async (name, end) => {
  const till = await openOwnShop(service, `guard ${name}`)
  const { order_id } = (await charge(service, till, { reference: 'G-3' })).json()
  await end(order_id, till)
  const response = await charge(service, till, { reference: 'G-3' })
  expect(response.statusCode, response.body).toBe(201)
  expect(response.json().order_id).not.toBe(order_id)
  expect(ordersAtProvider(service, till).map((order) => order.external_reference)).toEqual([
    'G-3',
    'G-3-2',
  ])
})

test('an order that was refunded in the provider’s panel no longer refuses an equal charge', async () => {
  const till = await openOwnShop(service, 'guard-panel')
  const { order_id } = (await charge(service, till, { reference: 'G-9' })).json()
  await act(service, order_id, payByCard)
  expect((await readOrder(service, till, order_id)).json().status).toBe('processed')
  const [providerOrder] = ordersAtProvider(service, till)
  if (!providerOrder) throw new Error('the provider has no order')
  await sandboxRefund(service, providerOrder, '1.00')
  const partly = await charge(service, till, { reference: 'G-9' })
  expect(partly.json()).toMatchObject({ code: 'ORDER_ALREADY_PAID', status: 'partially_refunded' })

  await sandboxRefund(service, providerOrder)
  // While the provider cannot be read, the stored state decides.
  await setFaults(service, { ...reading, kind: '500' })
  const blind = await charge(service, till, { reference: 'G-9' })
  expect([blind.statusCode, blind.json().code]).toEqual([409, 'ORDER_ALREADY_PAID'])
  await clearFaults(service)
  const again = await charge(service, till, { reference: 'G-9' })
  expect([again.statusCode, again.json().order_id === order_id]).toEqual([201, false])
})

test('another amount or another box for the same ticket is a split payment, a new order', async () => {
  const till = await openOwnShop(service, 'guard-split')
  await createStore(service, till, { id: 'SUC-2', boxes: ['CAJA-2'] })
  await pairTerminal(service, till, 'CAJA-2')
  const half = (await charge(service, till, { reference: 'G-4', amount: '5,00' })).json()
  await act(service, half.order_id, payByCard)
  await readOrder(service, till, half.order_id)
  const rest = await charge(service, till, { reference: 'G-4', amount: '6,00' })
  const elsewhere = await charge(service, till, { reference: 'G-4', amount: '5,00', box: 'CAJA-2' })
  expect([rest.statusCode, elsewhere.statusCode]).toEqual([201, 201])
})

test('20 duplicate requests at once make one order at the provider', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'guard-race')
  for (let round = 0; round < 5; round += 1) {
    await forgetRequests(service)
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => charge(service, till, { reference: `G-R${round}` })),
    )
    const statuses = answers.map((answer) => answer.statusCode).sort()
    expect(statuses).toEqual([...Array(19).fill(200), 201])
    expect(new Set(answers.map((answer) => answer.json().order_id)).size).toBe(1)
    expect(await providerRequests(service, creation)).toHaveLength(1)
    await cancel(service, till, answers[0]?.json().order_id)
  }
  expect(ordersAtProvider(service, till)).toHaveLength(5)
})

test('20 requests under one key at once make one order at the provider', async () => {
  const till = await openOwnShop(service, 'key-race')
  const answers = await Promise.all(
    Array.from({ length: 20 }, () =>
      charge(service, till, { reference: 'K-R', headers: keyed('race') }),
    ),
  )
  expect(answers.map((answer) => answer.statusCode).sort()).toEqual([...Array(19).fill(200), 201])
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test('duplicate requests that come while the first is being made all get its order', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'guard-straggle')
  for (let round = 0; round < 5; round += 1) {
    const answers = await Promise.all(
      Array.from({ length: 12 }, async (_, index) => {
        await new Promise((resolve) => setTimeout(resolve, index * 3))
        return charge(service, till, { reference: `G-S${round}` })
      }),
    )
    expect(answers.filter((answer) => answer.statusCode === 201)).toHaveLength(1)
    for (const answer of answers) expect(answer.statusCode, answer.body).toBeLessThan(300)
    await cancel(service, till, answers[0]?.json().order_id)
  }
})

test('a request that fails while an equal one succeeds gets the order of that one', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'guard-overtaken')
  const listing = { path: '^/terminals', method: 'GET', count: 1 }
  // Requests of earlier tests would end the poll below too early, and the quick request would meet the fault.
  await forgetRequests(service)
  await setFaults(
    service,
    { ...listing, kind: 'latency', delay_ms: 300 },
    { ...listing, kind: 'status', status: 403, code: 'forbidden' },
  )
  const slow = charge(service, till, { reference: 'G-9' })
  await expect
    .poll(async () => (await providerRequests(service, listing)).length, {
      interval: 5,
      timeout: 10_000,
    })
    .toBeGreaterThanOrEqual(1)
  const quick = await charge(service, till, { reference: 'G-9' })
  expect(quick.statusCode).toBe(201)
  // "Not charged" would be wrong: the customer may be paying now.
  const { statusCode, body } = await slow
  expect([statusCode, JSON.parse(body).order_id]).toEqual([200, quick.json().order_id])
  await clearFaults(service)
})

test('two clients on one account use one reference at once, and each gets its order', async () => {
  const account = String(8_800_001)
  const one = await openShop(service, 'duplicate-one', account)
  // Equal store and box ids would collide at the provider.
  const two = await openSecondClient('duplicate-two', account)
  const answers = await Promise.all([
    charge(service, one, { reference: 'SHARED' }),
    charge(service, two, { reference: 'SHARED', box: 'CAJA-B' }),
  ])
  expect(answers.map((answer) => answer.statusCode)).toEqual([201, 201])
  const made = ordersAtProvider(service, one).map((order) => order.external_reference)
  expect(made.sort()).toEqual(['SHARED', 'SHARED-2'])
})

async function openSecondClient(client: string, account: string) {
  const till = await enrol(service, client, account)
  await createStore(service, till, { id: 'SUC-B', boxes: ['CAJA-B'] })
  return { ...till, terminalId: await pairTerminal(service, till, 'CAJA-B') }
}

test('a late payment refuses an equal request until it is refunded', async () => {
  const till = await openOwnShop(service, 'guard-late')
  const { order_id } = (await charge(service, till, { reference: 'G-5' })).json()
  await cancel(service, till, order_id)
  await service.database.db
    .updateTable('orders')
    .set({ paid_after_close: true, paid_cents: 123_450 })
    .where('id', '=', order_id)
    .execute()
  const response = await charge(service, till, { reference: 'G-5' })
  expect(response.json()).toMatchObject({
    code: 'ORDER_ALREADY_PAID',
    outcome: 'charged',
    order_id,
  })
  await service.database.db
    .updateTable('orders')
    .set({ refunded_cents: 123_450 })
    .where('id', '=', order_id)
    .execute()
  expect((await charge(service, till, { reference: 'G-5' })).statusCode).toBe(201)
})

test('with DUPLICATE_ORDER_GUARD=off only a key makes requests equal', {
  tags: ['long'],
}, async () => {
  const open = await startTestService({ env: { DUPLICATE_ORDER_GUARD: 'off' } })
  try {
    const till = await openShop(open, 'unguarded')
    const first = await charge(open, till, { reference: 'U-1', headers: keyed('u1') })
    await act(open, first.json().order_id, payByCard)
    const replay = await charge(open, till, { reference: 'U-1', headers: keyed('u1') })
    expect([replay.statusCode, replay.json().order_id]).toEqual([200, first.json().order_id])
    await readOrder(open, till, first.json().order_id)
    const second = await charge(open, till, { reference: 'U-1' })
    expect(second.statusCode).toBe(201)
    const busy = await charge(open, till, { reference: 'U-1' })
    expect(busy.json().code).toBe('TERMINAL_BUSY')
  } finally {
    await open.stop()
  }
})

test('the administrator’s duplicate request for a client returns the open order', async () => {
  const till = await openOwnShop(service, 'guard-admin')
  const { order_id } = (await charge(service, till, { reference: 'G-6' })).json()
  const again = await asAdmin(service, {
    url: '/orders?client=guard-admin',
    body: { caja_id: 'CAJA-1', external_reference: 'G-6', amount: '1234,50' },
  })
  expect([again.statusCode, again.json().order_id]).toEqual([200, order_id])
  await simulate(service, order_id, { status: 'processed' })
  await readOrder(service, till, order_id)
  expect((await orderRow(service, order_id)).status).toBe('processed')
})
