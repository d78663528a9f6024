import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { insertOrders } from '../support/insert-orders.ts'
import { deliver, openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, charge, type Till } from '../support/till.ts'

/** Growing lists are read by cursor: no entry repeated, none left out, whatever is added meanwhile. */
let service: TestService
let shop: Till
let other: Till

type Page = { ids: string[]; total: number; next?: string; previous?: string }
type List = {
  read(query: string): Promise<Page>
  /** Adds one newer entry. */
  grow(): Promise<void>
}

const asPage =
  (url: string, field: 'orders' | 'logs', token?: () => string) =>
  async (query: string): Promise<Page> => {
    const to = { url: `${url}${url.includes('?') ? '&' : '?'}${query}` }
    const answer = token
      ? await call(service, { ...to, token: token() })
      : await asAdmin(service, to)
    expect(answer.statusCode, answer.body).toBe(200)
    const { total, next_cursor: next, previous_cursor: previous, ...body } = answer.json()
    const ids = body[field].map((one: Record<string, string>) => one.order_id ?? one.id)
    return { ids, total, ...(next && { next }), ...(previous && { previous }) }
  }

/** Adds a copy of the client's first order, newer than all. */
const orderOf = (till: () => Till) => async () => {
  const id = randomUUID()
  const changes = { id, mp_order_id: `ORD${id}`, mp_external_reference: id }
  await insertOrders(
    service.database.db,
    sql`select (jsonb_populate_record(first, ${JSON.stringify({ ...changes, created_at: service.clock.now() })}::jsonb)).*
    from orders as first where client = ${till().client} order by created_at limit 1`,
  )
  service.clock.advance(1)
}
/** Reading the tokens of a client writes an audit entry. */
const audit = (till: () => Till) => async () => {
  const url = `/admin/clients/${till().client}`
  expect((await asAdmin(service, { url })).statusCode).toBe(200)
}
const lists: Record<string, List> = {
  'orders of a client': {
    read: asPage('/orders', 'orders', () => shop.key),
    grow: orderOf(() => shop),
  },
  'orders of all clients': { read: asPage('/admin/orders', 'orders'), grow: orderOf(() => other) },
  'orders of one state': {
    read: asPage('/orders?status=created', 'orders', () => shop.key),
    grow: orderOf(() => shop),
  },
  webhooks: {
    read: asPage('/admin/webhooks/logs', 'logs'),
    async grow() {
      await deliver(service, { dataId: '1', type: 'payment' })
      service.clock.advance(1)
    },
  },
  'the audit log': { read: asPage('/admin/activity', 'logs'), grow: audit(() => other) },
  'the audit log of a client': {
    read: asPage('/admin/activity?client=acme', 'logs'),
    grow: audit(() => shop),
  },
}

beforeAll(async () => {
  service = await startTestService()
  shop = await openOwnShop(service, 'acme')
  other = await openOwnShop(service, 'other')
  for (const till of [shop, other]) await charge(service, till, { reference: 'FIRST' })
  for (let turn = 0; turn < 7; turn += 1) {
    for (const list of Object.values(lists)) await list.grow()
  }
  // Several entries of one moment are ordered by id.
  const { db } = service.database
  const at = '2026-01-02T03:04:05.678Z'
  await sql`update orders set created_at = ${at}::timestamptz
    + case when get_byte(uuid_send(id), 0) < 128 then interval '0' else interval '1 ms' end`.execute(
    db,
  )
  await sql`update webhook_log set received_at = ${at}::timestamptz`.execute(db)
})
afterAll(() => service.stop())

describe.each(Object.entries(lists))('%s', { tags: ['long'] }, (_name, { read, grow }) => {
  test('is read by cursor to the end and back, each entry once, while others are added', async () => {
    const whole = await read('limit=200')
    expect(whole.ids.length).toBeGreaterThanOrEqual(7)
    expect([whole.next, whole.previous]).toEqual([undefined, undefined])

    const pages = [await read('limit=3')]
    expect(pages[0]?.previous).toBeUndefined()
    for (let next = pages[0]?.next; next; next = pages.at(-1)?.next) {
      await grow()
      pages.push(await read(`limit=3&cursor=${next}`))
    }
    expect(pages.flatMap(({ ids }) => ids)).toEqual(whole.ids)
    expect(pages.at(-1)?.total).toBe(whole.total + pages.length - 1)

    const back = [pages.at(-1) as Page]
    for (let previous = back[0]?.previous; previous; previous = back[0]?.previous) {
      back.unshift(await read(`limit=3&cursor=${previous}`))
    }
    const newest = (await read('limit=200')).ids
    expect(back.flatMap(({ ids }) => ids)).toEqual(newest)
    expect(newest.slice(-whole.ids.length)).toEqual(whole.ids)
  })
})

test('an offset gives the same pages, and a cursor continues from there', async () => {
  const read = asPage('/orders', 'orders', () => shop.key)
  const { ids } = await read('limit=200')
  const second = await read('limit=2&offset=2')
  expect(second.ids).toEqual(ids.slice(2, 4))
  expect((await read(`limit=2&cursor=${second.next}`)).ids).toEqual(ids.slice(4, 6))
  expect((await read(`limit=2&cursor=${second.previous}`)).ids).toEqual(ids.slice(0, 2))
})

test('a cursor of another client returns own orders only', async () => {
  const theirs = await asPage('/orders', 'orders', () => other.key)('limit=1')
  const own = (await asPage('/orders', 'orders', () => shop.key)('limit=200')).ids
  for (const cursor of [theirs.next, theirs.next?.replace('older', 'newer')]) {
    const page = await asPage('/orders', 'orders', () => shop.key)(`limit=200&cursor=${cursor}`)
    expect(own).toEqual(expect.arrayContaining(page.ids))
  }
})

test('the total of a list of many entries is updated', { tags: ['long'] }, async () => {
  const { db } = service.database
  const add = (count: number) =>
    sql`insert into webhook_log (id, client, signature_valid, status, received_at)
      select gen_random_uuid(), 'many', false, 'ignored', ${service.clock.now()}::timestamptz
      from generate_series(1, ${count})`.execute(db)
  const read = asPage('/admin/webhooks/logs?client=many', 'logs')
  await add(10_050)
  await sql`analyze webhook_log`.execute(db)
  expect((await read('limit=1')).total).toBe(10_050)
  await add(1)
  await expect.poll(async () => (await read('limit=1')).total, { timeout: 20_000 }).toBe(10_051)
  await sql`delete from webhook_log where client = 'many'`.execute(db)
  await sql`analyze webhook_log`.execute(db)
})

const uuid = '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7'
const latest = '9'.repeat(14)

test.each([
  ['/orders?client=acme', [`older.12.${uuid}`, `newer.${latest}.${uuid}`]],
  ['/admin/webhooks/logs?limit=1', [`newer.0.${uuid}`, `older.${latest}.${uuid}`]],
  ['/admin/activity?limit=1', ['older.0', `older.${'9'.repeat(15)}`, `newer.${'9'.repeat(15)}`]],
])('%s accepts every place that the format of a cursor allows', async (url, cursors) => {
  for (const cursor of cursors) {
    const answer = await asAdmin(service, { url: `${url}&cursor=${cursor}` })
    expect([cursor, answer.statusCode, answer.body]).toEqual([cursor, 200, answer.body])
  }
})

const invalid = ['', 'x', 'older', `sideways.12.${uuid}`, `older.12.${uuid}x`, `older.-1.${uuid}`]
const many = `older.${'9'.repeat(16)}.${uuid}`

test.each([
  ['/orders?client=acme', [...invalid, many, 'older.12', 'older.12.------------']],
  ['/admin/orders?limit=1', [...invalid, many, 'older.12']],
  ['/admin/webhooks/logs?limit=1', [...invalid, many, 'older.12']],
  ['/admin/activity?limit=1', [...invalid, `older.12.${uuid}`, `older.${'9'.repeat(16)}`]],
])('%s answers 422 for a cursor in another format', async (url, cursors) => {
  for (const cursor of cursors) {
    const answer = await asAdmin(service, { url: `${url}&cursor=${cursor}` })
    expect([cursor, answer.statusCode]).toEqual([cursor, 422])
    expect(answer.json().details[0].path).toBe('cursor')
  }
})

test('a cursor together with an offset is 422', async () => {
  for (const url of [
    `/orders?client=acme&offset=1&cursor=older.12.${uuid}`,
    '/admin/activity?offset=1&cursor=older.12',
  ]) {
    const answer = await asAdmin(service, { url })
    expect([answer.statusCode, answer.json().details]).toEqual([
      422,
      [{ path: 'cursor', message: 'cannot be combined with offset' }],
    ])
  }
})

test('T37: many lists of one client at once delay neither its orders nor a list of another; with more than a hundred waiting they get 429', {
  tags: ['long'],
}, async () => {
  const first = await call(service, { url: '/orders?limit=1', token: shop.key })
  const [{ order_id: id }] = first.json().orders
  const done: string[] = []
  const noting = async (what: string, url: string, token: string) => {
    const answer = await call(service, { url, token })
    if (answer.statusCode === 200) done.push(what)
    return answer
  }
  // Some of them end before the last ones arrive.
  const lists = Array.from({ length: 150 }, () => noting('list', '/orders?limit=100', shop.key))
  const beside = [
    noting('other', '/orders?limit=100', other.key),
    noting('order', `/orders/${id}`, shop.key),
  ]
  const answers = await Promise.all(lists)
  const refused = answers.filter(({ statusCode }) => statusCode === 429)
  expect(refused.length).toBeGreaterThan(0)
  expect(refused[0]?.headers['retry-after']).toBe('2')
  expect(answers.filter(({ statusCode }) => statusCode === 200).length).toBe(150 - refused.length)
  expect((await Promise.all(beside)).map(({ statusCode }) => statusCode)).toEqual([200, 200])
  for (const what of ['other', 'order']) {
    expect(done.filter((one) => one === 'list' || one === what).indexOf(what)).toBeLessThan(40)
  }
})
