import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { insertEvent, type NewEvent } from '../../src/repositories/events/event-log.ts'
import { backUp, needsPostgres, postgresUrl } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { cancel, clearFaults, openOwnShop, refund, refunding, setFaults } from '../support/money.ts'
import { by, join } from '../support/people.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  createStore,
  pairTerminal,
  payByCard,
  readOrder,
  type Till,
} from '../support/till.ts'

vi.setConfig({ testTimeout: 60_000 })

let service: TestService
beforeAll(async () => {
  service = await startTestService({ waits: { perOwner: 1, total: 2 } })
})
afterAll(() => service.stop())

type FeedEvent = {
  id: string
  type: string
  client: string
  caja_id: string | null
  resource: { type: string; id: string; url: string; version: number }
  changes: Record<string, { from: unknown; to: unknown }>
  data: Record<string, unknown>
}
type Feed = { events: FeedEvent[]; next: string; has_more: boolean }

async function feed(till: Pick<Till, 'key'>, query = ''): Promise<Feed> {
  const answer = await call(service, { url: `/events/feed${query}`, token: till.key })
  expect(answer.statusCode, answer.body).toBe(200)
  return answer.json()
}

async function sell(till: Till, reference: string, box = 'CAJA-1'): Promise<string> {
  const answer = await charge(service, till, { reference, box })
  expect(answer.statusCode, answer.body).toBe(201)
  return answer.json().order_id
}

async function pay(till: Till, reference: string, box?: string): Promise<string> {
  const id = await sell(till, reference, box)
  await act(service, id, payByCard)
  await readOrder(service, till, id)
  return id
}

const typesIn = ({ events }: Feed) => events.map(({ type }) => type)

test('a sale is read as its events, with what changed in cents and the order as it was', async () => {
  const till = await openOwnShop(service, 'seller')
  const id = await pay(till, 'E-1')
  await refund(service, till, id)
  const { events, has_more } = await feed(till)
  const ofOrder = events.filter(({ resource }) => resource.type === 'order')
  expect(ofOrder.map(({ type }) => type)).toEqual(['order.created', 'order.paid', 'order.refunded'])
  expect(has_more).toBe(false)
  const [created, paid, refunded] = ofOrder as [FeedEvent, FeedEvent, FeedEvent]
  expect(created.changes).toMatchObject({ status: { from: null, to: 'created' } })
  expect(paid).toMatchObject({
    id: expect.stringMatching(/^evt_[0-9a-f]{32}$/),
    client: 'seller',
    caja_id: 'CAJA-1',
    resource: { type: 'order', id, url: `/orders/${id}` },
    changes: {
      status: { from: 'created', to: 'processed' },
      outcome: { from: 'unknown', to: 'charged' },
      paid_cents: { from: 0, to: 123450 },
    },
  })
  expect(refunded.changes).toMatchObject({
    outcome: { from: 'charged', to: 'not_charged' },
    refunded_cents: { from: 0, to: 123450 },
  })
  // The last event shows the order as its own address does now.
  const { cashier: _, stale: __, ...shown } = (await readOrder(service, till, id)).json()
  expect({ ...refunded.data, net: shown.net }).toEqual(shown)
  const versions = ofOrder.map(({ resource }) => resource.version)
  expect(versions).toEqual([...versions].sort((a, b) => a - b))
})

test('a refund is an event of its own: done, or failed', async () => {
  const till = await openOwnShop(service, 'refunds')
  const id = await pay(till, 'R-1')
  const { next } = await feed(till)
  await setFaults(service, {
    ...refunding,
    kind: 'status',
    status: 400,
    code: 'in_store_payment_refund_order',
  })
  expect((await refund(service, till, id, '1,00')).statusCode).toBeGreaterThanOrEqual(400)
  await clearFaults(service)
  expect((await refund(service, till, id, '1000,50')).statusCode).toBe(200)
  const { events } = await feed(till, `?after=${next}&types=refund.done,refund.failed`)
  expect(events.map(({ type, changes }) => [type, changes])).toEqual([
    [
      'refund.failed',
      { status: { from: 'pending', to: 'failed' }, amount_cents: { from: null, to: 100 } },
    ],
    [
      'refund.done',
      { status: { from: 'pending', to: 'done' }, amount_cents: { from: null, to: 100050 } },
    ],
  ])
  const [, done] = events
  expect(done).toMatchObject({
    order_id: id,
    caja_id: 'CAJA-1',
    resource: { type: 'refund', url: `/orders/${id}`, version: null },
    data: { order_id: id, type: 'partial', amount: '1000.50', external_reference: 'R-1' },
  })
})

test('a reader goes on after its cursor, page by page, and an empty page is the end for now', async () => {
  const till = await openOwnShop(service, 'pages')
  for (const reference of ['P-1', 'P-2', 'P-3'])
    await cancel(service, till, await sell(till, reference))
  const whole = await feed(till)
  expect(whole.events).toHaveLength(6)
  const read: FeedEvent[] = []
  let after = ''
  for (let hasMore = true; hasMore; ) {
    const page = await feed(till, `?limit=2${after}`)
    read.push(...page.events)
    after = `&after=${page.next}`
    hasMore = page.has_more
  }
  expect(read).toEqual(whole.events)
  const end = await feed(till, `?limit=2${after}`)
  expect([end.events, end.has_more]).toEqual([[], false])
  const later = await sell(till, 'P-4')
  expect(
    (await feed(till, `?after=${end.next}`)).events.map(({ resource }) => resource.id),
  ).toEqual([later])
})

test('types, a box and a store narrow the feed, and the cursor goes on past the others', async () => {
  const till = await openOwnShop(service, 'narrow')
  await createStore(service, till, { id: 'SUC-2', boxes: ['CAJA-2'] })
  await pairTerminal(service, till, 'CAJA-2')
  await cancel(service, till, await sell(till, 'N-1'))
  await cancel(service, till, await sell(till, 'N-2', 'CAJA-2'))
  expect(typesIn(await feed(till, '?types=order.canceled'))).toEqual([
    'order.canceled',
    'order.canceled',
  ])
  const ofBox = await feed(till, '?caja_id=CAJA-2&types=order.created,order.canceled')
  expect(ofBox.events.map(({ caja_id }) => caja_id)).toEqual(['CAJA-2', 'CAJA-2'])
  expect((await feed(till, '?sucursal_id=SUC-2&types=order.created')).events).toHaveLength(1)
  const none = await feed(till, '?types=order.expired')
  expect([none.events, none.next]).toEqual([[], (await feed(till)).next])
  for (const query of ['types=order.paid,nothing', 'after=x', `after=${'A'.repeat(41)}`]) {
    const answer = await call(service, { url: `/events/feed?${query}`, token: till.key })
    expect([query, answer.statusCode]).toEqual([query, 422])
  }
})

test('T2: a client reads its own events, the administrator all or those of the named client', async () => {
  const [one, two] = [await openOwnShop(service, 'one'), await openOwnShop(service, 'two')]
  await sell(one, 'I-1')
  await sell(two, 'I-2')
  const own = await feed(one)
  expect(own.events.map(({ client }) => client)).toEqual(['one'])
  expect(JSON.stringify(own)).not.toMatch(/two|I-2/)
  const foreign = await call(service, { url: '/events/feed?client=two', token: one.key })
  expect(foreign.statusCode).toBe(403)
  expect((await call(service, { url: '/events/feed' })).statusCode).toBe(401)
  const all: Feed = (await asAdmin(service, { url: '/events/feed?limit=500' })).json()
  expect(all.events.map(({ client }) => client)).toEqual(expect.arrayContaining(['one', 'two']))
  const named: Feed = (await asAdmin(service, { url: '/events/feed?client=two' })).json()
  expect(named.events.map(({ client }) => client)).toEqual(['two'])
})

test('T58: a person of some stores reads the events of these stores alone', async () => {
  const till = await openOwnShop(service, 'stores')
  await createStore(service, till, { id: 'FAR-STORE', boxes: ['FAR-BOX'] })
  await pairTerminal(service, till, 'FAR-BOX')
  await sell(till, 'S-1')
  await sell(till, 'S-2', 'FAR-BOX')
  const ana = await join(service, {
    name: 'ana',
    role: 'supervisor',
    client: 'stores',
    stores: ['SUC-1'],
  })
  const seen = await by(service, ana, { url: '/events/feed' })
  expect(seen.statusCode).toBe(200)
  expect(seen.json().events).toHaveLength(1)
  expect(seen.body).not.toContain('FAR')
  const asked = await by(service, ana, { url: '/events/feed?sucursal_id=FAR-STORE' })
  expect(asked.json().events).toEqual([])
})

test('a long poll is answered with the event that ends it, and the next one above the limit at once', async () => {
  const till = await openOwnShop(service, 'waiting')
  const { next } = await feed(till)
  let waiting = call(service, { url: '/health' })
  // The second one may have its place first: then the first one is answered at once, and both are asked again.
  await eventually(async () => {
    waiting = call(service, { url: `/events/feed?after=${next}&wait=30`, token: till.key })
    const second = await call(service, {
      url: `/events/feed?after=${next}&wait=1`,
      token: till.key,
    })
    expect(second.headers['retry-after']).toBe('2')
  })
  const id = await sell(till, 'W-1')
  const woken: Feed = (await waiting).json()
  expect(woken.events.map(({ type, resource }) => [type, resource.id])).toEqual([
    ['order.created', id],
  ])
})

const eventOf = (client: string, id: string): NewEvent => ({
  client: client as NewEvent['client'],
  sucursalId: null,
  cajaId: null,
  type: 'order.paid',
  at: service.clock.now(),
  resource: { type: 'order', id, version: 1 },
  orderId: null,
  changes: {},
  data: null,
})

test.skipIf(!postgresUrl)(
  `an event that is committed late is read after those that were read before it; ${needsPostgres}`,
  async () => {
    const till = await openOwnShop(service, 'late')
    const { next } = await feed(till)
    const written = Promise.withResolvers<void>()
    const held = Promise.withResolvers<void>()
    const late = service.database.transaction(async (trx) => {
      await insertEvent(trx, eventOf('late', 'first written'))
      written.resolve()
      await held.promise
    })
    await written.promise
    await service.database.transaction((trx) =>
      insertEvent(trx, eventOf('late', 'first committed')),
    )
    const before = await feed(till, `?after=${next}`)
    held.resolve()
    await late
    const after = await feed(till, `?after=${before.next}`)
    const ids = ({ events }: Feed) => events.map(({ resource }) => resource.id)
    expect([ids(before), ids(after)]).toEqual([['first committed'], ['first written']])
  },
)

test('readers that number at once give each event one position, and each resource its order', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'crowd')
  const { next } = await feed(till)
  const twin = await startTestService({ twinOf: service })
  try {
    const writers = [0, 1, 2, 3].map(async (resource) => {
      for (let version = 1; version <= 10; version += 1) {
        const event = eventOf('crowd', `r${resource}`)
        event.resource = { ...event.resource, version }
        await service.database.transaction((trx) => insertEvent(trx, event))
        await call(version % 2 ? service : twin, {
          url: `/events/feed?after=${next}&limit=1`,
          token: till.key,
        })
      }
    })
    await Promise.all(writers)
    const { events } = await feed(till, `?after=${next}`)
    expect(new Set(events.map(({ id }) => id)).size).toBe(40)
    for (const resource of [0, 1, 2, 3]) {
      const own = events.filter(({ resource: { id } }) => id === `r${resource}`)
      expect(own.map((one) => one.resource.version)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    }
  } finally {
    await twin.stop()
  }
})

test('events are kept for 30 days; a cursor from before what was deleted is refused with where to begin', async () => {
  const till = await openOwnShop(service, 'keeper')
  const quiet = await openOwnShop(service, 'quiet')
  const start = (await feed(till)).next
  await cancel(service, till, await sell(till, 'K-1'))
  const old = await feed(till)
  const ofQuiet = (await feed(quiet)).next
  await sql`update events set at = at - interval '31 days'`.execute(service.database.db)
  // One that no program has read is deleted too.
  await service.database.transaction((trx) =>
    insertEvent(trx, { ...eventOf('keeper', 'unread'), at: new Date(0) }),
  )
  service.clock.advance(3_600_000)
  await service.sweeper.sweepOnce()
  const left = await service.database.db
    .selectFrom('events')
    .select('client')
    .where('at', '<', new Date(service.clock.now().getTime() - 30 * 86_400_000))
    .execute()
  expect(left).toEqual([])

  const expired = await call(service, { url: `/events/feed?after=${start}`, token: till.key })
  expect([expired.statusCode, expired.json().code]).toEqual([410, 'CURSOR_EXPIRED'])
  const { begin_after: begin } = expired.json()
  expect((await feed(till, `?after=${begin}`)).events).toEqual([])
  // The last event that was read is deleted; one after it was not read.
  const missed = await call(service, { url: `/events/feed?after=${old.next}`, token: till.key })
  expect(missed.statusCode).toBe(410)
  // A client without events has missed none.
  expect((await feed(quiet, `?after=${ofQuiet}`)).events).toEqual([])
  expect((await feed(till)).events).toEqual([])
})

test('a cursor of another database is refused', async () => {
  const till = await openOwnShop(service, 'moved')
  const ahead = Buffer.from('1:900000').toString('base64url')
  const answer = await call(service, { url: `/events/feed?after=${ahead}`, token: till.key })
  expect([answer.statusCode, answer.json().code]).toEqual([410, 'CURSOR_EXPIRED'])
})

test('a cursor that a restored backup has not given is refused, also when new events have come as far', async () => {
  const till = await openOwnShop(service, 'restored')
  await pay(till, 'R-1')
  const { next: kept } = await feed(till)
  const consumer = { method: 'POST', token: till.key } as const
  const made = await call(service, {
    ...consumer,
    url: '/events/feed/consumers',
    body: { name: 'erp', from: 'now' },
  })
  expect(made.statusCode).toBe(201)
  const restore = await backUp(service.database)
  await pay(till, 'R-2')
  const { next: forgotten } = await feed(till)
  await restore()
  for (const reference of ['R-3', 'R-4', 'R-5']) await pay(till, reference)

  const refused = await call(service, { url: `/events/feed?after=${forgotten}`, token: till.key })
  expect([refused.statusCode, refused.json().code]).toEqual([410, 'CURSOR_EXPIRED'])
  const commit = { ...consumer, url: '/events/feed/consumers/erp' }
  const committed = await call(service, { ...commit, body: { after: forgotten } })
  expect([committed.statusCode, committed.json().details[0].path]).toEqual([422, 'after'])
  // What the backup knows still holds.
  const { events, next } = await feed(till, `?after=${kept}`)
  const created = events.filter(({ type }) => type === 'order.created')
  expect(created.map(({ data }) => data.external_reference)).toEqual(['R-3', 'R-4', 'R-5'])
  expect((await call(service, { ...commit, body: { after: next } })).statusCode).toBe(200)
})
