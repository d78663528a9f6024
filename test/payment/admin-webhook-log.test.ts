import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deliver, openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, charge, readOrder, type Till } from '../support/till.ts'

type Entry = Record<string, unknown> & { id: string; resource_id: string }

let service: TestService
/** Ids at the provider of an order of each client. */
let orders: Record<'acme' | 'other', string>
beforeAll(async () => {
  service = await startTestService()
  const orderOf = async (till: Till) => {
    const { order_id } = (await charge(service, till, { reference: 'T-1' })).json()
    return (await readOrder(service, till, order_id)).json().mp_order_id as string
  }
  orders = {
    acme: await orderOf(await openOwnShop(service, 'acme')),
    other: await orderOf(await openOwnShop(service, 'other')),
  }
  const arrivals: Parameters<typeof deliver>[1][] = [
    { dataId: orders.acme },
    { dataId: orders.other },
    { dataId: '12345', type: 'payment' },
    { dataId: orders.acme },
    { dataId: 'ORD00000000000000000000000000' },
  ]
  for (const arrival of arrivals) {
    await deliver(service, arrival)
    service.clock.advance(1000)
  }
  await call(service, { method: 'POST', url: '/webhooks?data.id=FORGED&type=order', body: {} })
})
afterAll(() => service.stop())

async function read(query = ''): Promise<{ logs: Entry[]; total: number }> {
  const answer = await asAdmin(service, { url: `/admin/webhooks/logs${query}` })
  expect(answer.statusCode, answer.body).toBe(200)
  expect(answer.headers['cache-control']).toBe('no-store')
  return answer.json()
}

const inShort = ({ logs }: { logs: Entry[] }) =>
  logs.map(({ client, resource_id, status }) => `${client} ${resource_id} ${status}`)

const expectedLog = () => [
  'null FORGED rejected',
  'null ORD00000000000000000000000000 ignored',
  `acme ${orders.acme} duplicate`,
  'null 12345 ignored',
  `other ${orders.other} processed`,
  `acme ${orders.acme} processed`,
]

test('GET /admin/webhooks/logs lists webhooks newest first, also the refused ones', async () => {
  const all = await read()
  expect(inShort(all)).toEqual(expectedLog())
  expect(all.total).toBe(6)
})

test('an entry has every field, and the payload as received', async () => {
  const entry = (await read()).logs.at(-1)
  expect(entry).toEqual({
    id: expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
    client: 'acme',
    mp_user_id: null,
    request_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    topic: 'order',
    action: 'order.processed',
    resource_id: orders.acme,
    order_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    live_mode: null,
    signature_valid: true,
    signature_form: 'lower',
    status: 'processed',
    error_message: null,
    payload: { type: 'order', action: 'order.processed', data: { id: orders.acme } },
    deliveries: 1,
    received_at: expect.stringMatching(/Z$/),
    processed_at: expect.stringMatching(/Z$/),
    duration_ms: expect.any(Number),
  })
})

test('the filter by client is exact', async () => {
  const own = expectedLog().filter((line) => line.startsWith('acme '))
  const found = await read('?client=acme')
  expect([inShort(found), found.total]).toEqual([own, 2])
  for (const client of ['ACME', 'acm', 'null', '%25']) {
    expect(await read(`?client=${client}`), client).toEqual({ logs: [], total: 0 })
  }
})

test('the limit cuts the list and not the total', async () => {
  const two = await read('?limit=2')
  expect([inShort(two), two.total]).toEqual([expectedLog().slice(0, 2), 6])
  const one = await read('?limit=1&client=acme')
  expect([inShort(one), one.total]).toEqual([expectedLog().slice(2, 3), 2])
  expect((await read('?limit=200')).logs).toHaveLength(6)
})

test('without a limit 50 entries are listed', async () => {
  const [entry] = await service.database.db.selectFrom('webhook_log').selectAll().execute()
  if (!entry) throw new Error('the log is empty')
  const copies = Array.from({ length: 60 }, () => ({
    ...entry,
    id: randomUUID(),
    client: 'many' as never,
    payload: null,
  }))
  await service.database.db.insertInto('webhook_log').values(copies).execute()
  const found = await read('?client=many')
  expect([found.logs.length, found.total]).toEqual([50, 60])
  await service.database.db
    .deleteFrom('webhook_log')
    .where('client', '=', 'many' as never)
    .execute()
})

test.each([
  ['limit', ['0', '201', '-1', '1.5', 'x', '']],
  ['client', ['', 'x'.repeat(101), '%00', '%20x']],
])('a query with an invalid %s is 422 on that field', async (name, values) => {
  for (const value of [...values, `1&${name}=2`]) {
    const answer = await asAdmin(service, { url: `/admin/webhooks/logs?${name}=${value}` })
    expect([answer.statusCode, answer.json().code], value).toEqual([422, 'VALIDATION_ERROR'])
    expect(answer.json().details[0].path, value).toBe(name)
  }
})
