import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { sell, today, typeCharge, watchAfter } from '../closings/shop-day.ts'
import { clearFaults, creation, forgetRequests, openOwnShop, setFaults } from '../support/money.ts'
import { atProvider, providerCalls } from '../support/provider-requests.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  createStore,
  enrol,
  pairTerminal,
  readOrder,
  type Till,
} from '../support/till.ts'

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService()
  till = await enrol(service, 'acme', '1201')
})
afterEach(() => clearFaults(service))
afterAll(() => service.stop())

const remove = (path: string, who = till) =>
  call(service, { method: 'DELETE', url: path, token: who.key })
const read = (path: string, who = till) => call(service, { url: path, token: who.key })

test('deleting a box deletes it at the provider and here, and leaves its store', async () => {
  const own = await enrol(service, 'one box less', '1202')
  const { pos } = (await createStore(service, own, { id: 'S1', boxes: ['S1-A', 'S1-B'] })).json()
  await forgetRequests(service)
  const answer = await remove('/stores/S1/pos/S1-A', own)
  expect(answer.statusCode).toBe(200)
  expect(answer.json()).toEqual({ message: expect.any(String), deleted: { store: 0, pos: 1 } })
  const asked = await providerCalls(service, ['DELETE'])
  expect(asked.map(({ path }) => path)).toEqual([`/v2/pos/${pos[0].mpPosId}`])
  expect((await read('/stores/S1', own)).json().pos).toMatchObject([{ external_id: 'S1-B' }])
  const there = await atProvider(service, own.mpUserId)
  expect(there.pos.map(({ id }) => String(id))).toEqual([pos[1].mpPosId])
  expect((await remove('/stores/S1/pos/S1-A', own)).statusCode).toBe(404)
})

test('deleting a store deletes its boxes first', async () => {
  const made = (await createStore(service, till, { id: 'S2', boxes: ['S2-A', 'S2-B'] })).json()
  await forgetRequests(service)
  const answer = await remove('/stores/S2')
  expect(answer.statusCode).toBe(200)
  expect(answer.json()).toEqual({ message: expect.any(String), deleted: { store: 1, pos: 2 } })
  const asked = await providerCalls(service, ['DELETE'])
  expect(asked.map(({ path }) => path)).toEqual([
    `/v2/pos/${made.pos[0].mpPosId}`,
    `/v2/pos/${made.pos[1].mpPosId}`,
    `/users/1201/stores/${made.store.mpStoreId}`,
  ])
  expect((await read('/stores/S2')).statusCode).toBe(404)
  expect((await remove('/stores/S2')).json().code).toBe('NOT_FOUND')
})

test('an empty store is deleted alone', async () => {
  await createStore(service, till, { id: 'S3', boxes: [] })
  expect((await remove('/stores/S3')).json().deleted).toEqual({ store: 1, pos: 0 })
})

describe('with money that no signed closing has', () => {
  const closed = async (own: Till, sucursalId: string) => {
    const body = { sucursal_id: sucursalId, business_day: today(service) }
    const { id } = (await call(service, { url: '/closings', token: own.key, body })).json()
    service.clock.advance(61_000)
    await service.paymentWatch.watchOnce()
    const url = `/closings/${id}/sign`
    const signed = await call(service, { method: 'POST', url, token: own.key })
    expect(signed.json().state).toBe('signed')
  }
  const refused = async (own: Till, orderId: string) => {
    for (const path of ['/stores/SUC-1/pos/CAJA-1', '/stores/SUC-1']) {
      const answer = await remove(path, own)
      expect([answer.statusCode, answer.json()], path).toMatchObject([
        409,
        { code: 'CHARGES_NOT_CLOSED', orders: [{ order_id: orderId }], total: 1 },
      ])
    }
    const store = (await read('/stores/SUC-1', own)).json()
    expect([store.state, store.pos[0].state]).toEqual(['active', 'active'])
  }

  test('a box and its store are not deleted while a charge is at the terminal', async () => {
    const own = await openOwnShop(service, 'at terminal')
    const { order_id } = (await charge(service, own, { reference: 'A-1' })).json()
    await refused(own, order_id)
  })

  test('a box and its store are not deleted while the outcome of a charge is unknown', async () => {
    const own = await openOwnShop(service, 'unknown outcome')
    await setFaults(service, { ...creation, kind: 'drop_after', count: 9 })
    await charge(service, own, { reference: 'A-1' })
    await clearFaults(service)
    const { orders } = (await read('/orders', own)).json()
    await refused(own, orders[0].order_id)
  })

  test('a box and its store are deleted once what was paid there is in a signed closing', async () => {
    const own = await openOwnShop(service, 'paid')
    const orderId = await sell(service, own, 'A-1')
    await refused(own, orderId)
    await closed(own, 'SUC-1')
    expect((await remove('/stores/SUC-1', own)).statusCode).toBe(200)
  })

  test('a box is not deleted while a payment without an order is in no signed closing', async () => {
    const own = await openOwnShop(service, 'unclaimed')
    const paymentId = await typeCharge(service, own)
    await watchAfter(service, 61_000)
    const answer = await remove('/stores/SUC-1', own)
    expect([answer.statusCode, answer.json()]).toMatchObject([
      409,
      { code: 'CHARGES_NOT_CLOSED', orders: [], payment_ids: [paymentId], total: 1 },
    ])
  })
})

test('ids of a deleted store and box can be used again', async () => {
  await createStore(service, till, { id: 'S4', boxes: ['S4-A'] })
  await remove('/stores/S4')
  expect((await createStore(service, till, { id: 'S4', boxes: ['S4-A'] })).statusCode).toBe(201)
})

test('a store or box that the provider no longer has counts as deleted', async () => {
  await createStore(service, till, { id: 'S5', boxes: ['S5-A'] })
  await setFaults(service, { path: '/', method: 'DELETE', kind: 'status', status: 404, count: 2 })
  expect((await remove('/stores/S5')).json().deleted).toEqual({ store: 1, pos: 1 })
})

test.each([
  ['the first box', 0],
  ['the second box', 1],
  ['the store', 2],
])('a deletion that fails at %s is finished by the same request', async (name, step) => {
  const id = `D ${name}`.replaceAll(' ', '-')
  const made = (await createStore(service, till, { id, boxes: [`${id}-A`, `${id}-B`] })).json()
  const paths = [
    ...made.pos.map((box: { mpPosId: string }) => `/v2/pos/${box.mpPosId}`),
    `/users/1201/stores/${made.store.mpStoreId}`,
  ]
  await setFaults(service, { path: paths[step], method: 'DELETE', kind: '500', count: 1 })
  const broken = await remove(`/stores/${id}`)
  expect([502, 504]).toContain(broken.statusCode)
  expect((await read(`/stores/${id}`)).json().state).toBe('deleting')
  const again = await remove(`/stores/${id}`)
  expect(again.statusCode).toBe(200)
  expect(again.json().deleted).toEqual({ store: 1, pos: 2 - step })
  expect((await read(`/stores/${id}`)).statusCode).toBe(404)
  const there = await atProvider(service, till.mpUserId)
  expect(there.stores.filter((store) => store.name === `Sucursal ${id}`)).toEqual([])
  expect(there.pos.filter((box) => box.name.startsWith(`Caja ${id}`))).toEqual([])
})

test('a store whose deletion the provider refuses keeps what it still has, and its boxes charge', async () => {
  const { pos } = (await createStore(service, till, { id: 'KEPT', boxes: ['K-A', 'K-B'] })).json()
  await pairTerminal(service, till, 'K-B')
  const path = `/v2/pos/${pos[1].mpPosId}`
  await setFaults(service, { path, method: 'DELETE', kind: 'status', status: 400 })
  expect((await remove('/stores/KEPT')).statusCode).toBe(502)
  expect((await read('/stores/KEPT')).json()).toMatchObject({
    state: 'active',
    pos: [{ external_id: 'K-B', state: 'active' }],
  })
  const charged = await charge(service, till, { reference: 'K-1', box: 'K-B' })
  expect(charged.statusCode).toBe(201)
  await clearFaults(service)
  const { order_id } = charged.json()
  await act(service, order_id, { do: 'cancel' })
  await readOrder(service, till, order_id)
  expect((await remove('/stores/KEPT')).json().deleted).toEqual({ store: 1, pos: 1 })
})

test('the same deletion succeeds after its answer was lost', async () => {
  await createStore(service, till, { id: 'LOST', boxes: ['LOST-A'] })
  await setFaults(service, { path: '/v2/pos/', method: 'DELETE', kind: 'drop_after', count: 1 })
  expect((await remove('/stores/LOST')).statusCode).toBe(504)
  expect((await remove('/stores/LOST')).json().deleted).toEqual({ store: 1, pos: 1 })
})

test('a store that is being deleted accepts no box, no new creation and no order', async () => {
  await createStore(service, till, { id: 'DELETING', boxes: ['DELETING-A'] })
  await pairTerminal(service, till, 'DELETING-A')
  await setFaults(service, { path: '/v2/pos/', method: 'DELETE', kind: '500', count: 1 })
  await remove('/stores/DELETING')
  const pos = [{ name: 'x', external_id: 'DELETING-B' }]
  const add = await call(service, { url: '/stores/DELETING/pos', token: till.key, body: { pos } })
  expect([add.statusCode, add.json().code]).toEqual([409, 'CONFLICT'])
  const create = await createStore(service, till, { id: 'DELETING', boxes: [] })
  expect([create.statusCode, create.json().code]).toEqual([409, 'CONFLICT'])
  const order = await charge(service, till, { reference: 'T-1', box: 'DELETING-A' })
  expect(order.statusCode).toBe(404)
  await remove('/stores/DELETING')
})

test('a store that never reached the provider is deleted here without a call', async () => {
  await setFaults(service, { path: '/users/', method: 'POST', kind: '500', count: 1 })
  expect((await createStore(service, till, { id: 'LOCAL', boxes: ['LOCAL-A'] })).statusCode).toBe(
    502,
  )
  await clearFaults(service)
  await forgetRequests(service)
  expect((await remove('/stores/LOCAL')).json().deleted).toEqual({ store: 1, pos: 1 })
  expect(await providerCalls(service, ['DELETE'])).toEqual([])
})

test('a store that reached the provider with a lost answer is found and deleted there too', async () => {
  await setFaults(
    service,
    { path: '/users/', method: 'POST', kind: 'drop_after', count: 1 },
    { path: '/stores/search$', method: 'GET', kind: '500', count: 20 },
  )
  const broken = await createStore(service, till, { id: 'HIDDEN', boxes: [] })
  expect(broken.statusCode).toBe(504)
  await clearFaults(service)
  expect((await read('/stores/HIDDEN')).json().mp_store_id).toBeNull()
  expect((await remove('/stores/HIDDEN')).statusCode).toBe(200)
  const there = await atProvider(service, till.mpUserId)
  expect(there.stores.filter(({ name }) => name === 'Sucursal HIDDEN')).toEqual([])
})

test('two deletions at the same time delete once', async () => {
  await createStore(service, till, { id: 'TWICE', boxes: ['TWICE-A'] })
  await forgetRequests(service)
  const answers = await Promise.all([remove('/stores/TWICE'), remove('/stores/TWICE')])
  const statuses = answers.map(({ statusCode }) => statusCode).sort()
  expect(statuses[0]).toBe(200)
  expect([404, 409]).toContain(statuses[1])
  expect(await providerCalls(service, ['DELETE'])).toHaveLength(2)
})

test('unknown stores and boxes are 404, and so is a box under another store', async () => {
  await createStore(service, till, { id: 'A', boxes: ['A-1'] })
  await createStore(service, till, { id: 'B', boxes: ['B-1'] })
  for (const path of [
    '/stores/NONE',
    '/stores/NONE/pos/A-1',
    '/stores/A/pos/NONE',
    '/stores/A/pos/B-1',
  ]) {
    const answer = await remove(path)
    expect([answer.statusCode, answer.json().code], path).toEqual([404, 'NOT_FOUND'])
  }
  expect((await read('/stores/B')).json().pos).toHaveLength(1)
})

test('requests for stores that do not exist leave no lease behind', async () => {
  const leases = () => service.database.db.selectFrom('leases').select('name').execute()
  const before = await leases()
  const pos = [{ name: 'x', external_id: 'x' }]
  for (const id of ['N-1', 'N-2', 'N-3']) {
    await remove(`/stores/${id}`)
    await remove(`/stores/${id}/pos/x`)
    await call(service, { url: `/stores/${id}/pos`, token: till.key, body: { pos } })
  }
  expect(await leases()).toEqual(before)
})

test('deletions are audited, also the failed ones', async () => {
  const own = await enrol(service, 'audited', '1203')
  await createStore(service, own, { id: 'S1', boxes: ['S1-A'] })
  await remove('/stores/S1/pos/S1-A', own)
  await setFaults(service, { path: '/users/', method: 'DELETE', kind: 'drop_after', count: 1 })
  await remove('/stores/S1', own)
  await remove('/stores/S1', own)
  const answer = await asAdmin(service, { url: '/admin/activity?client=audited&limit=200' })
  const entries = answer
    .json()
    .logs.map((entry: Record<string, string>) => [entry.action, entry.resource_id, entry.status])
  expect(entries).toEqual(
    expect.arrayContaining([
      ['pos.deleted', 'S1-A', 'success'],
      ['store.deleted', 'S1', 'failed'],
      ['store.deleted', 'S1', 'success'],
    ]),
  )
})
