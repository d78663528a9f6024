import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import {
  cancel,
  clearFaults,
  creation,
  forgetRequests,
  newAccount,
  openOwnShop,
  orderRow,
  ordersAtProvider,
  providerRequests,
  reading,
  setFaults,
  sweepAfter,
} from '../support/money.ts'
import { rounds } from '../support/rounds.ts'
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
  sandboxCall,
} from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService({
    env: { PROVIDER_TIMEOUT_MS: '500' },
    hangsAreShort: true,
  })
})
afterAll(() => service.stop())
afterEach(() => clearFaults(service))

/** A client whose box has these terminals, in this order. */
async function shopWith(client: string, modes: ('PDV' | 'STANDALONE')[]) {
  const till = await enrol(service, client, newAccount())
  await createStore(service, till, { id: 'SUC-1', boxes: ['CAJA-1'] })
  const terminals: string[] = []
  for (const mode of modes) terminals.push(await pairTerminal(service, till, 'CAJA-1', mode))
  return { till, terminals }
}

test('a charge is 404 for a box without a terminal, and 409 if no terminal is in PDV mode', async () => {
  for (const [modes, status, code] of [
    [[], 404, 'TERMINAL_NOT_FOUND'],
    [['STANDALONE', 'STANDALONE'], 409, 'TERMINAL_NOT_PDV'],
  ] as const) {
    const { till } = await shopWith(`no terminal ${status}`, [...modes])
    await forgetRequests(service)
    const response = await charge(service, till, { reference: 'T-1' })
    expect(response.statusCode).toBe(status)
    expect(response.json()).toMatchObject({ code, outcome: 'not_charged', retry_safe: true })
    expect(await providerRequests(service, creation)).toEqual([])
    expect((await call(service, { url: '/orders', token: till.key })).json().total).toBe(0)
  }
})

test('the terminal in PDV mode takes the charge, whatever other terminals the box has', async () => {
  const { till, terminals } = await shopWith('mixed', ['STANDALONE', 'PDV'])
  const { order_id } = (await charge(service, till, { reference: 'T-2' })).json()
  expect((await readOrder(service, till, order_id)).json().terminal_id).toBe(terminals[1])
})

test('a terminal with an open order is busy, and the error names the order', async () => {
  const till = await openOwnShop(service, 'busy')
  const { order_id } = (await charge(service, till, { reference: 'ÑANDÚ 1' })).json()
  for (const action of [undefined, { do: 'fetch' }]) {
    if (action) await act(service, order_id, action)
    service.clock.advance(60_000)
    const response = await charge(service, till, { reference: 'T-3' })
    expect(response.statusCode).toBe(409)
    expect(response.json()).toMatchObject({
      code: 'TERMINAL_BUSY',
      error: expect.stringContaining('finish or cancel it'),
      outcome: 'not_charged',
      retry_safe: true,
      open_order: { order_id, external_reference: 'ÑANDÚ 1', age_seconds: expect.any(Number) },
    })
    expect(response.json().open_order.age_seconds).toBeGreaterThanOrEqual(60)
    expect(response.json()).not.toHaveProperty('order_id')
  }
  expect(ordersAtProvider(service, till)).toHaveLength(1)
})

test('an order that ended without the service having read it frees its terminal', async () => {
  const till = await openOwnShop(service, 'unseen')
  for (const action of [payByCard, { do: 'cancel' }, { do: 'decline' }, { do: 'hold' }]) {
    const created = await charge(service, till, { reference: `T-${action.do}` })
    expect(created.statusCode, `after ${action.do}`).toBe(201)
    await act(service, created.json().order_id, action)
    service.clock.advance(5_000)
  }
})

test('orders in action_required neither slow the next charge nor hide the order at the terminal', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'left open')
  for (let ticket = 1; ticket <= 11; ticket += 1) {
    const { order_id } = (await charge(service, till, { reference: `left ${ticket}` })).json()
    await act(service, order_id, { do: 'hold' })
    expect((await readOrder(service, till, order_id)).json().status).toBe('action_required')
    service.clock.advance(5_000)
  }
  await forgetRequests(service)
  const { order_id } = (await charge(service, till, { reference: 'T-18' })).json()
  expect(await providerRequests(service, reading)).toEqual([])
  service.clock.advance(5_000)
  const busy = await charge(service, till, { reference: 'T-19' })
  expect(busy.json()).toMatchObject({ code: 'TERMINAL_BUSY', open_order: { order_id } })
  // The provider leaves it open after it has expired; the other orders do not delay its cancel.
  await service.database.db
    .updateTable('orders')
    .set({ expires_at: service.clock.now() })
    .where('id', '=', order_id)
    .execute()
  expect((await charge(service, till, { reference: 'T-19' })).statusCode).toBe(201)
})

test('an order that the provider has deleted does not occupy its terminal', async () => {
  const till = await openOwnShop(service, 'closed for winter')
  const { order_id } = (await charge(service, till, { reference: 'T-20' })).json()
  service.clock.advance(100 * 24 * 3600_000)
  const next = await charge(service, till, { reference: 'T-21' })
  expect(next.statusCode, next.body).toBe(201)
  const freed = await asAdmin(service, {
    url: `/admin/terminals/${till.terminalId}/free`,
    body: { client: till.client, reason: 'opened again' },
  })
  expect(freed.json().orders).toMatchObject([
    { order_id: next.json().order_id, action: 'cancel' },
    { order_id, action: 'none' },
  ])
})

test('T31: TERMINAL_BUSY is answered only after a status check in the same request', async () => {
  const till = await openOwnShop(service, 'fresh')
  const { order_id } = (await charge(service, till, { reference: 'T-4' })).json()
  await readOrder(service, till, order_id)
  await forgetRequests(service)
  expect((await charge(service, till, { reference: 'T-5' })).json().code).toBe('TERMINAL_BUSY')
  expect(await providerRequests(service, reading)).toHaveLength(1)
  await act(service, order_id, { do: 'fetch' })
  await act(service, order_id, { do: 'decline' })
  expect((await charge(service, till, { reference: 'T-5' })).statusCode).toBe(201)
})

test('an order whose state the provider does not confirm blocks no charge', async () => {
  const till = await openOwnShop(service, 'unconfirmed')
  const { order_id } = (await charge(service, till, { reference: 'T-6' })).json()
  await act(service, order_id, payByCard)
  service.clock.advance(5_000)
  await setFaults(service, { ...reading, kind: '500' })
  // A failed status check confirms nothing, neither now nor in the seconds after it.
  await readOrder(service, till, order_id)
  expect((await charge(service, till, { reference: 'T-7' })).statusCode).toBe(201)
})

test('an expired order of ours is canceled before the next charge; one that still waits is not', async () => {
  const till = await openOwnShop(service, 'expired')
  const { order_id } = (await charge(service, till, { reference: 'T-8' })).json()
  service.clock.advance(15 * 60_000)
  expect((await charge(service, till, { reference: 'T-9' })).json().code).toBe('TERMINAL_BUSY')
  // The provider leaves it open after it has expired.
  await service.database.db
    .updateTable('orders')
    .set({ expires_at: service.clock.now() })
    .where('id', '=', order_id)
    .execute()
  service.clock.advance(5_000)
  expect((await charge(service, till, { reference: 'T-9' })).statusCode).toBe(201)
  expect(ordersAtProvider(service, till)[0]?.status).toBe('canceled')
  expect((await orderRow(service, order_id)).status).toBe('canceled')
})

test('an order canceled while unknown gives way to the next charge', async () => {
  const till = await openOwnShop(service, 'given up')
  await setFaults(service, { ...creation, kind: 'drop_after' })
  const { order_id } = (await charge(service, till, { reference: 'T-10' })).json()
  await setFaults(service, { path: '^/v1/orders$', kind: 'drop_after' })
  expect((await cancel(service, till, order_id)).statusCode).toBe(504)
  await clearFaults(service)
  const next = await charge(service, till, { reference: 'T-11' })
  expect(next.statusCode, next.body).toBe(201)
  expect(ordersAtProvider(service, till).map((order) => order.status)).toEqual([
    'canceled',
    'created',
  ])
  // The order refused in between is closed too.
  const { orders } = (await call(service, { url: '/orders', token: till.key })).json()
  expect(orders.map((order: { status: string }) => order.status).sort()).toEqual([
    'canceled',
    'created',
    'failed',
  ])
})

test('an unknown order without a cancel request keeps its terminal busy', async () => {
  const till = await openOwnShop(service, 'still wanted')
  await setFaults(service, { ...creation, kind: 'drop_after' })
  await charge(service, till, { reference: 'T-12' })
  await clearFaults(service)
  const response = await charge(service, till, { reference: 'T-13' })
  expect([response.statusCode, response.json().code]).toEqual([409, 'TERMINAL_BUSY'])
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'created' }])
})

test('an order of another client on a shared terminal makes it busy without naming the order', async () => {
  const account = newAccount()
  const owner = await openShop(service, 'shared owner', account)
  const guest = await enrol(service, 'shared guest', account)
  await shareBox('shared owner', 'shared guest')
  const { order_id } = (await charge(service, owner, { reference: 'SECRET-4711' })).json()
  for (const waitMs of [0, 10_000]) {
    service.clock.advance(waitMs)
    const response = await charge(service, guest, { reference: 'T-14' })
    expect([response.statusCode, response.json().code]).toEqual([409, 'TERMINAL_BUSY'])
    expect(response.json()).not.toHaveProperty('open_order')
    expect(response.body).not.toContain('SECRET-4711')
    expect(response.body).not.toContain(order_id)
    expect(response.body).not.toContain('shared owner')
  }
  expect(ordersAtProvider(service, owner)).toMatchObject([{ status: 'created' }])
})

test('a foreign charge makes the terminal busy without naming an order', async () => {
  const till = await openOwnShop(service, 'foreign')
  const own = (await charge(service, till, { reference: 'T-15' })).json()
  await service.database.db
    .updateTable('orders')
    .set({ status: 'expired', next_check_at: null, version: 99 })
    .where('id', '=', own.order_id)
    .execute()
  const response = await charge(service, till, { reference: 'T-16' })
  expect([response.statusCode, response.json().code]).toEqual([409, 'TERMINAL_BUSY'])
  expect(response.json().error).toContain('did not come from here')
  expect(response.json()).not.toHaveProperty('open_order')
})

test('an order of another application that occupies the terminal is named as such', async () => {
  const till = await openOwnShop(service, 'other application')
  const other = (await sandboxCall(service, 'POST', '/_sandbox/orders', {
    type: 'point',
    external_reference: 'OTHER-1',
    transactions: { payments: [{ amount: '10.00' }] },
    config: { point: { terminal_id: till.terminalId } },
  })) as { id: string }
  service.clock.advance(90_000)
  const response = await charge(service, till, { reference: 'T-60' })
  expect([response.statusCode, response.json()]).toMatchObject([
    409,
    {
      code: 'TERMINAL_BUSY',
      error: expect.stringContaining('an order of another application'),
      outcome: 'not_charged',
      retry_safe: true,
      open_order: { order_id: other.id, external_reference: 'OTHER-1', age_seconds: 90 },
      cashier: {
        action: 'look_at_terminal',
        message: expect.stringContaining('de otro programa'),
      },
    },
  ])
  await sandboxCall(service, 'POST', `/_sandbox/orders/${other.id}/act`, { do: 'cancel' })
  expect((await charge(service, till, { reference: 'T-60' })).statusCode).toBe(201)
})

test('a pending print that blocks the terminal is named as such', async () => {
  const till = await openOwnShop(service, 'printing')
  const print = (pending: boolean) =>
    sandboxCall(service, 'PUT', '/_sandbox/prints', { terminal_id: till.terminalId, pending })
  await print(true)
  const response = await charge(service, till, { reference: 'T-61' })
  expect([response.statusCode, response.json()]).toMatchObject([
    409,
    {
      code: 'TERMINAL_BUSY',
      error: expect.stringContaining('a print is pending'),
      outcome: 'not_charged',
      retry_safe: true,
      cashier: {
        action: 'look_at_terminal',
        message: expect.stringContaining('impresión pendiente'),
      },
    },
  ])
  expect(response.json()).not.toHaveProperty('open_order')
  await print(false)
  expect((await charge(service, till, { reference: 'T-61' })).statusCode).toBe(201)
})

test('the reason of a busy terminal is left open when the provider cannot be read', async () => {
  const till = await openOwnShop(service, 'unread holder')
  await sandboxCall(service, 'PUT', '/_sandbox/prints', {
    terminal_id: till.terminalId,
    pending: true,
  })
  await setFaults(service, { path: '^/v1/orders$', method: 'GET', kind: '500' })
  const response = await charge(service, till, { reference: 'T-62' })
  expect(response.json()).toMatchObject({
    code: 'TERMINAL_BUSY',
    error: expect.stringContaining('did not come from here'),
    cashier: { message: expect.stringContaining('no es de esta caja') },
  })
})

test.each(['already_queued_order_on_terminal', 'already_queued_order_for_terminal'])(
  'the provider’s error %s becomes TERMINAL_BUSY',
  async (code) => {
    const till = await openOwnShop(service, code)
    await setFaults(service, { ...creation, kind: 'status', status: 409, code })
    const response = await charge(service, till, { reference: 'T-17' })
    expect(response.json()).toMatchObject({
      code: 'TERMINAL_BUSY',
      outcome: 'not_charged',
      retry_safe: true,
    })
  },
)

test('T31: of two charges at once on one terminal one succeeds, and the error of the other names its order', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'two tickets')
  const races = rounds(25)
  for (let round = 0; round < races; round += 1) {
    const answers = await Promise.all(
      ['A', 'B'].map((name) => charge(service, till, { reference: `${name}-${round}` })),
    )
    const [won, busy] = answers.toSorted((a, b) => a.statusCode - b.statusCode)
    expect([won?.statusCode, busy?.statusCode]).toEqual([201, 409])
    expect(busy?.json()).toMatchObject({
      code: 'TERMINAL_BUSY',
      outcome: 'not_charged',
      open_order: { order_id: won?.json().order_id },
    })
    await cancel(service, till, won?.json().order_id)
  }
  expect(ordersAtProvider(service, till)).toHaveLength(races)
})

test('the sweeper cancels an order that the provider leaves open long after its expiry', async () => {
  const till = await openOwnShop(service, 'left open')
  const { order_id } = (await charge(service, till, { reference: 'T-18' })).json()
  await service.database.db
    .updateTable('orders')
    .set({ expires_at: service.clock.now() })
    .where('id', '=', order_id)
    .execute()
  await sweepAfter(service, 30_000)
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'created' }])
  await sweepAfter(service, 120_000)
  expect(ordersAtProvider(service, till)).toMatchObject([{ status: 'canceled' }])
})

test('without a list of terminals from the provider nothing is charged', async () => {
  const till = await openOwnShop(service, 'no list')
  const listing = { path: '^/terminals', method: 'GET' }
  for (const [fault, status] of [
    [{ kind: '500' }, 502],
    [{ kind: '429' }, 429],
    [{ kind: 'hang_before' }, 504],
    [{ kind: 'drop_before' }, 502],
  ] as const) {
    await setFaults(service, { ...listing, ...fault })
    const response = await charge(service, till, { reference: 'T-19' })
    expect(response.statusCode, fault.kind).toBe(status)
    expect(response.json()).toMatchObject({ outcome: 'not_charged', retry_safe: true })
  }
  expect(ordersAtProvider(service, till)).toEqual([])
})

/** Gives another client of the account the same store and box. */
async function shareBox(owner: string, guest: string): Promise<void> {
  const { db } = service.database
  const [storeId, posId] = [randomUUID(), randomUUID()]
  const store = await db
    .selectFrom('stores')
    .selectAll()
    .where('client', '=', asClientName(owner))
    .executeTakeFirstOrThrow()
  const pos = await db
    .selectFrom('pos')
    .selectAll()
    .where('client', '=', asClientName(owner))
    .executeTakeFirstOrThrow()
  const client = asClientName(guest)
  const location = JSON.stringify(store.location)
  await db
    .insertInto('stores')
    .values({ ...store, id: storeId, client, location })
    .execute()
  await db
    .insertInto('pos')
    .values({ ...pos, id: posId, client, store_id: storeId })
    .execute()
}
