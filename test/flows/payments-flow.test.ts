import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { insertAmendment } from '../../src/repositories/closings/closing-queries.ts'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  call,
  charge,
  enrol,
  openShop,
  payByCard,
  readOrder,
  type Till,
} from '../support/till.ts'

let service: TestService
let till: Till
let flows: TestFlows

beforeAll(async () => {
  service = await startTestService()
  till = await enrol(service, 'acme')
  flows = await startTestFlows({ service })
})
afterAll(async () => {
  await flows?.stop()
  await service?.stop()
})

const branch = (id: string, more: object = {}) => ({
  id,
  nombre: `Sucursal ${id}`,
  cajas: [],
  ...more,
})

const storesMap = `{
  "external_id": id, "name": nombre,
  "location": { "street_name": "Av. Corrientes", "street_number": "1234", "city_name": "Balvanera",
    "state_name": "Capital Federal", "latitude": -34.6037, "longitude": -58.3816 },
  "pos": [cajas.{ "external_id": id, "name": nombre }]
}`
const posMap = '{ "store_external_id": sucursal, "external_id": id, "name": nombre }'

/** A flow of its own into the shop of acme, paused. */
async function start(
  name: string,
  destination: object,
  items: object[],
  extra: object = {},
): Promise<void> {
  await flows.write(`${name}.json`, items)
  await flows.write(`${name}.flow.yaml`, {
    version: 1,
    name,
    pollInterval: '1h',
    startPaused: true,
    source: { type: 'file', path: `\${env:DIR}/${name}.json`, format: 'json', settle: '0s' },
    item: { key: 'id' },
    destinations: [
      {
        name: 'shop',
        client: 'acme',
        retry: { attempts: 3, initial: '100ms', max: '100ms', jitter: 0 },
        ...destination,
      },
    ],
    ...extra,
  })
  await flows.flows.reload('test')
}

const sync = async (name: string, items?: object[]) => {
  if (items) await flows.write(`${name}.json`, items)
  await flows.call('POST', `/sync/${name}?force=true`)
  await flows.delivered()
}
const shop = async () =>
  ((await call(service, { url: '/stores', token: till.key })).json() as { stores: Store[] }).stores
const shopOf = async (...ids: string[]) =>
  (await shop()).filter(({ external_id }) => ids.includes(external_id))
type Store = { external_id: string; name: string; pos: { external_id: string; name: string }[] }
const errors = async (name: string) =>
  (await flows.call('GET', `/errors?flow=${name}`)).json() as { pk: string; error: string }[]

const eager = { attempts: 50, initial: '100ms', max: '200ms', jitter: 0 }

test('stores and boxes are created, changed and extended; a box of another store is refused', {
  tags: ['long'],
}, async () => {
  await start('stores', { type: 'payments.stores', map: storesMap }, [
    branch('S1', { cajas: [{ id: 'C1', nombre: 'Caja 1' }] }),
    branch('S2'),
  ])
  await sync('stores')
  expect(await shopOf('S1', 'S2')).toMatchObject([
    { external_id: 'S1', name: 'Sucursal S1', pos: [{ external_id: 'C1', name: 'Caja 1' }] },
    { external_id: 'S2', name: 'Sucursal S2', pos: [] },
  ])
  const boxes = [
    { id: 'C1', nombre: 'Caja uno' },
    { id: 'C2', nombre: 'Caja 2' },
  ]
  await sync('stores', [
    branch('S1', { nombre: 'Centro', cajas: boxes }),
    branch('S2', { cajas: [{ id: 'C1', nombre: 'ajena' }] }),
  ])
  expect(await shopOf('S1', 'S2')).toMatchObject([
    { name: 'Centro', pos: [{ name: 'Caja uno' }, { external_id: 'C2', name: 'Caja 2' }] },
    { name: 'Sucursal S2', pos: [] },
  ])
  await expect
    .poll(() => errors('stores'), { timeout: 15_000 })
    .toMatchObject([
      { pk: 'S2', error: 'The resource exists already: Box C1 belongs to store S1', attempts: 3 },
    ])
})

test('a box that arrives before its store waits for it', { tags: ['long'] }, async () => {
  const boxes = [{ id: 'C9', sucursal: 'S9', nombre: 'Caja 9' }]
  await start('boxes', { type: 'payments.pos', map: posMap, retry: eager }, boxes)
  await flows.call('POST', '/sync/boxes?force=true')
  const waiting = async () => (await flows.call('GET', '/flow/boxes/waiting')).json().waiting
  await expect
    .poll(waiting)
    .toMatchObject([{ pk: 'C9', last_error: 'Not found: There is no store S9' }])
  await start('later', { type: 'payments.stores', map: storesMap }, [branch('S9')])
  await sync('later')
  await expect
    .poll(async () => (await shop()).find(({ external_id }) => external_id === 'S9')?.pos)
    .toMatchObject([{ external_id: 'C9', name: 'Caja 9' }])
  expect(await errors('boxes')).toEqual([])
})

test('items for a shop that is not connected wait until it is', async () => {
  const destination = { type: 'payments.stores', map: storesMap, client: 'soon', retry: eager }
  await start('first', destination, [branch('F1')])
  await flows.call('POST', '/sync/first?force=true')
  const waiting = async () => (await flows.call('GET', '/flow/first/waiting')).json().waiting
  await expect.poll(waiting).toMatchObject([{ pk: 'F1', last_error: 'There is no client soon' }])
  const { key } = await enrol(service, 'soon')
  await expect
    .poll(async () => (await call(service, { url: '/stores', token: key })).json().stores)
    .toMatchObject([{ external_id: 'F1', state: 'active' }])
  expect(await errors('first')).toEqual([])
})

test('boxes and stores that the source removed are deleted', async () => {
  const deletes = { deletes: { mode: 'delete', guard: { emptySource: 'allow' } } }
  await start(
    'gone',
    { type: 'payments.stores', map: storesMap, allowStoreDelete: true },
    [branch('G1', { cajas: [{ id: 'GC1', nombre: 'Caja' }] }), branch('G2')],
    deletes,
  )
  await sync('gone')
  const ids = async () => (await shop()).map(({ external_id }) => external_id)
  expect(await ids()).toEqual(expect.arrayContaining(['G1', 'G2']))
  await sync('gone', [branch('G2')])
  expect(await ids()).not.toContain('G1')
  expect(await ids()).toContain('G2')
  expect(await errors('gone')).toEqual([])
})

test.each([
  ['its case', 'k1', 'K1'],
  ['zeros', '00042', '42'],
])('a store whose code changes in form only (%s) is not deleted', async (what, before, after) => {
  const name = `form-of-${what.replace(' ', '-')}`
  const deletes = { deletes: { mode: 'delete', guard: { emptySource: 'allow', maxPercent: 100 } } }
  const destination = { type: 'payments.stores', map: storesMap, allowStoreDelete: true }
  await start(name, destination, [branch(before), branch('K9')], deletes)
  await sync(name)
  await sync(name, [branch(after), branch('K9')])
  const ids = (await shop()).map(({ external_id }) => external_id)
  expect(ids).toEqual(expect.arrayContaining([before, 'K9']))
  expect(await errors(name)).toMatchObject([{ pk: before, error: expect.stringContaining(after) }])
})

test('boxes of one store that are delivered concurrently do not affect each other', {
  tags: ['long'],
}, async () => {
  await start('many', { type: 'payments.stores', map: storesMap }, [branch('M1')])
  await sync('many')
  const boxes = Array.from({ length: 12 }, (_, index) => ({
    id: `M1C${index}`,
    sucursal: 'M1',
    nombre: `Caja ${index}`,
  }))
  const once = { attempts: 1, initial: '100ms', max: '100ms', jitter: 0 }
  await start('side', { type: 'payments.pos', map: posMap, concurrency: 6, retry: once }, boxes)
  await sync('side')
  expect(await errors('side')).toEqual([])
  expect((await shop()).find(({ external_id }) => external_id === 'M1')?.pos).toHaveLength(12)
})

test('every change of a charge reaches the destination, and only those of the client', {
  tags: ['long'],
}, async () => {
  const open = await openShop(service, 'orders-of', '4801')
  const other = await openShop(service, 'others', '4802')
  const file = `\${env:DIR}/orders.ndjson`
  await start('orders', { type: 'file', path: file, client: undefined }, [], {
    source: { type: 'payments.orders', client: 'orders-of' },
    item: { key: 'order_id' },
  })
  const copied = async () =>
    (await readFile(join(flows.dir, 'orders.ndjson'), 'utf8'))
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  const { order_id } = (await charge(service, open, { reference: 'R-1' })).json()
  await charge(service, other, { reference: 'R-2' })
  await sync('orders')
  expect(await copied()).toMatchObject([
    { _pk: order_id, external_reference: 'R-1', amount: '1234.50', outcome: 'unknown' },
  ])
  await act(service, order_id, { do: 'fetch' })
  await act(service, order_id, payByCard)
  service.clock.advance(5_000)
  await readOrder(service, open, order_id)
  await sync('orders')
  await sync('orders')
  expect(await copied()).toMatchObject([
    { external_reference: 'R-1' },
    { _pk: order_id, status: 'processed', outcome: 'charged', paid_amount: '1234.50' },
  ])
  const item = await flows.call('POST', `/sync/orders/${order_id}`)
  expect(item.json()).toMatchObject({ found: true, changed: false, jobs: 0 })
})

test('every movement of the reports reaches the destination once, and again after a correction', {
  tags: ['long'],
}, async () => {
  const open = await openShop(service, 'settled-of', '4803')
  const { order_id } = (await charge(service, open, { reference: 'L-1' })).json()
  const order = await service.database.db
    .selectFrom('orders')
    .select('mp_order_id')
    .where('id', '=', order_id)
    .executeTakeFirstOrThrow()
  const handIn = (net: string) =>
    call(service, {
      url: '/settlements/files',
      token: open.key,
      body: {
        content: `SOURCE_ID,ORDER_MP,TRANSACTION_TYPE,TRANSACTION_DATE,TRANSACTION_AMOUNT,FEE_AMOUNT,SETTLEMENT_NET_AMOUNT\n7,${order.mp_order_id},SETTLEMENT,2026-11-21,1234.50,-54.20,${net}\n`,
      },
    })
  const file = `\${env:DIR}/settlements.ndjson`
  await start('settlements', { type: 'file', path: file, client: undefined }, [], {
    source: { type: 'payments.settlements', client: 'settled-of' },
    item: { key: 'settlement_id' },
  })
  const copied = async () =>
    (await readFile(join(flows.dir, 'settlements.ndjson'), 'utf8'))
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  await handIn('1180.30')
  await sync('settlements')
  await handIn('1180.30')
  await sync('settlements')
  const first = { order_id, type: 'SETTLEMENT', gross: '1234.50', fee: '54.20', net: '1180.30' }
  expect(await copied()).toMatchObject([{ ...first, unexplained: '0.00' }])
  await handIn('1180.20')
  await sync('settlements')
  expect(await copied()).toMatchObject([first, { net: '1180.20', unexplained: '0.10' }])
})

test('every closing reaches the destination, and again after its signature', {
  tags: ['long'],
}, async () => {
  const open = await openShop(service, 'closed-of', '4804')
  const closingId = '7a0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7'
  await service.database.db
    .insertInto('closings')
    .values({
      id: closingId,
      client: 'closed-of' as never,
      place: 'caja:CAJA-1',
      number: 1,
      caja_id: 'CAJA-1',
      sucursal_id: 'SUC-1',
      mp_user_id: open.mpUserId,
      business_day: '2026-11-20',
      from_at: new Date('2026-11-20T03:00:00Z'),
      to_at: new Date('2026-11-21T03:00:00Z'),
      requested_from: new Date('2026-11-20T03:00:00Z'),
      requested_to: new Date('2026-11-21T03:00:00Z'),
      time_zone: 'America/Argentina/Buenos_Aires',
      declared: '{}',
      state: 'agreed',
      result: null,
      reason: null,
      read_at: null,
      totals: null,
      lines: '[]',
      failures: 0,
      next_check_at: null,
      created_at: new Date('2026-11-21T03:10:00Z'),
      signed_at: null,
      signed_by: null,
    })
    .execute()
  const file = `\${env:DIR}/closings.ndjson`
  await start('closings', { type: 'file', path: file, client: undefined }, [], {
    source: { type: 'payments.closings', client: 'closed-of' },
    item: { key: 'closing_id' },
  })
  const copied = async () =>
    (await readFile(join(flows.dir, 'closings.ndjson'), 'utf8'))
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  await sync('closings')
  const agreed = { number: 1, state: 'agreed', business_day: '2026-11-20', amendments: 0 }
  expect(await copied()).toMatchObject([agreed])
  await service.database.db
    .updateTable('closings')
    .set({ state: 'signed', result: 'agreed', signed_at: new Date('2026-11-21T03:20:00Z') })
    .where('client', '=', 'closed-of' as never)
    .execute()
  await sync('closings')
  await sync('closings')
  expect(await copied()).toMatchObject([agreed, { state: 'signed', result: 'agreed' }])

  const none = { count: 0, cents: 0, refundedCents: 0 }
  await service.database.transaction((trx) =>
    insertAmendment(trx, {
      id: '1b8f6c55-0f5e-4c6f-9d0a-3f1f9b7f2a10',
      closing_id: closingId,
      client: asClientName('closed-of'),
      reason: 'Un cobro llegó después',
      result: 'differs',
      totals: {
        here: none,
        there: { ...none, netCents: null },
        media: [],
        installments: [],
        refunds: none,
      },
      lines: [],
      created_at: new Date('2026-11-22T13:00:00Z'),
      created_by: null,
    }),
  )
  await sync('closings')
  await sync('closings')
  expect(await copied()).toMatchObject([
    agreed,
    { state: 'signed', amendments: 0 },
    { state: 'signed', result: 'agreed', amendments: 1, amended_result: 'differs' },
  ])
})
