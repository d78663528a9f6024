import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { auditOf, openOwnShop } from '../support/money.ts'
import { by, join } from '../support/people.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, charge, type Till } from '../support/till.ts'

vi.setConfig({ testTimeout: 60_000 })

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

const consumers = '/events/feed/consumers'

async function open(client: string, from = 'beginning'): Promise<Till> {
  const till = await openOwnShop(service, client)
  const made = await call(service, {
    url: consumers,
    token: till.key,
    body: { name: 'erp', from },
  })
  expect(made.statusCode, made.body).toBe(201)
  return till
}

const read = (till: Till, reader: string, query = '') =>
  call(service, { url: `/events/feed?consumer=erp&reader=${reader}${query}`, token: till.key })

const commit = (till: Till, reader: string, after: string) =>
  call(service, { url: `${consumers}/erp?reader=${reader}`, token: till.key, body: { after } })

const seek = (till: Till, body: object, reader = 'person') =>
  call(service, { url: `${consumers}/erp/seek?reader=${reader}`, token: till.key, body })

async function sell(till: Till, reference: string): Promise<string> {
  const answer = await charge(service, till, { reference })
  expect(answer.statusCode, answer.body).toBe(201)
  const { order_id: id } = answer.json()
  const body = { order_id: id }
  expect((await call(service, { url: '/orders/cancel', token: till.key, body })).statusCode).toBe(
    200,
  )
  return id
}

const idsIn = (answer: { json(): { events: { id: string }[] } }) =>
  answer.json().events.map(({ id }) => id)

test('a consumer that dies before its commit reads the same events again, and after it the next ones', async () => {
  const till = await open('crash')
  await sell(till, 'C-1')
  const first = await read(till, 'a')
  expect(first.json().events).toHaveLength(2)
  const again = await read(till, 'a')
  expect(idsIn(again)).toEqual(idsIn(first))
  const committed = await commit(till, 'a', first.json().next)
  expect([committed.statusCode, committed.json().after]).toEqual([200, first.json().next])
  // The answer may have been lost: the same commit again is the same.
  expect((await commit(till, 'a', first.json().next)).statusCode).toBe(200)
  expect(idsIn(await read(till, 'a'))).toEqual([])
  await sell(till, 'C-2')
  expect(idsIn(await read(till, 'a', '&limit=1'))).toHaveLength(1)
})

test('while one reader has the lease another one gets who has it and until when; 60 s after the last read it may read', async () => {
  const till = await open('lease')
  const seen = service.clock.now().getTime()
  const { next } = (await read(till, 'a')).json()
  const busy = await read(till, 'b')
  expect([busy.statusCode, busy.json().code]).toEqual([409, 'CONSUMER_BUSY'])
  const { reader, until } = busy.json().held_by
  expect(reader).toBe('a')
  expect(Date.parse(until) - seen).toBeGreaterThanOrEqual(60_000)
  expect(Number(busy.headers['retry-after'])).toBeGreaterThan(50)
  for (const answer of [await commit(till, 'b', next), await seek(till, { from: 'now' }, 'b')]) {
    expect([answer.statusCode, answer.json().code]).toEqual([409, 'CONSUMER_BUSY'])
  }
  const removal = { method: 'DELETE', url: `${consumers}/erp?reader=b`, token: till.key } as const
  expect((await call(service, removal)).statusCode).toBe(409)

  // Reading renews it.
  service.clock.advance(40_000)
  expect((await read(till, 'a')).statusCode).toBe(200)
  service.clock.advance(40_000)
  expect((await read(till, 'b')).statusCode).toBe(409)
  service.clock.advance(30_000)
  expect((await read(till, 'b')).statusCode).toBe(200)
  // The one that lost the lease can no longer move the place.
  expect((await commit(till, 'a', next)).statusCode).toBe(409)
  // Without a name a reader is the address of its caller.
  const unnamed = await call(service, { url: '/events/feed?consumer=erp', token: till.key })
  expect(unnamed.json().held_by.reader).toBe('b')
})

test('a lease holds also by the clock of a process that is a little behind', async () => {
  const till = await open('drift')
  service.clock.advance(500)
  expect((await read(till, 'a')).statusCode).toBe(200)
  service.clock.advance(-500)
  expect((await read(till, 'b')).statusCode).toBe(409)
})

test('a lease that the clock has left behind is over', async () => {
  const till = await open('clock')
  service.clock.advance(3_600_000)
  expect((await read(till, 'a')).statusCode).toBe(200)
  service.clock.advance(-3_600_000)
  expect((await read(till, 'b')).statusCode).toBe(200)
})

test('a consumer begins with the oldest event, the next one, or those from a time on, and is moved by seek', async () => {
  const till = await open('seeker', 'now')
  const first = await sell(till, 'S-1')
  service.clock.advance(60_000)
  const noon = service.clock.now().toISOString()
  const second = await sell(till, 'S-2')
  const ordersRead = async () => {
    const { events } = (await read(till, 'person')).json()
    return [...new Set(events.map(({ resource }: { resource: { id: string } }) => resource.id))]
  }
  expect(await ordersRead()).toEqual([first, second])
  expect((await seek(till, { from: noon })).statusCode).toBe(200)
  expect(await ordersRead()).toEqual([second])
  await seek(till, { from: 'now' })
  expect(await ordersRead()).toEqual([])
  const { after } = (await seek(till, { from: 'beginning' })).json()
  expect(await ordersRead()).toEqual([first, second])
  await seek(till, { from: 'now' })
  await seek(till, { after })
  expect(await ordersRead()).toEqual([first, second])
  // A commit never moves the place back.
  const { next } = (await read(till, 'person')).json()
  await commit(till, 'person', next)
  const back = await commit(till, 'person', after)
  expect([back.statusCode, back.json().code]).toEqual([409, 'CONFLICT'])
  const ahead = Buffer.from('1:900000').toString('base64url')
  expect((await commit(till, 'person', ahead)).statusCode).toBe(422)
  for (const body of [{}, { from: 'now', after }, { from: 'soon' }]) {
    expect((await seek(till, body)).statusCode).toBe(422)
  }
})

test('the list shows the place of each consumer and what waits for it', async () => {
  const till = await open('lister')
  await sell(till, 'L-1')
  const page = (await read(till, 'SERVIDOR', '&limit=1')).json()
  await commit(till, 'SERVIDOR', page.next)
  // Asking for it again changes nothing.
  const again = await call(service, {
    url: consumers,
    token: till.key,
    body: { name: 'erp', from: 'now' },
  })
  expect([again.statusCode, again.json().after]).toEqual([200, page.next])
  const list = (await call(service, { url: consumers, token: till.key })).json()
  expect(list.consumers).toEqual([
    {
      name: 'erp',
      after: page.next,
      created_at: expect.any(String),
      committed_at: expect.any(String),
      reader: 'SERVIDOR',
      lease_until: expect.any(String),
      waiting: 1,
      oldest_at: expect.any(String),
    },
  ])
  const removal = {
    method: 'DELETE',
    url: `${consumers}/erp?reader=SERVIDOR`,
    token: till.key,
  } as const
  expect((await call(service, removal)).statusCode).toBe(200)
  expect((await read(till, 'SERVIDOR')).statusCode).toBe(404)
  expect((await commit(till, 'SERVIDOR', page.next)).statusCode).toBe(404)
  const actions = (await auditOf(service, 'lister')).map(({ action }) => action)
  expect(actions).toEqual(expect.arrayContaining(['consumer.created', 'consumer.deleted']))
})

test('a consumer is of one client: the same name of another client is another consumer', async () => {
  const [one, two] = [await open('own'), await open('foreign')]
  await sell(one, 'O-1')
  expect(idsIn(await read(two, 'x'))).toEqual([])
  expect(idsIn(await read(one, 'y'))).toHaveLength(2)
  const foreign = await call(service, {
    url: '/events/feed?consumer=erp&client=own',
    token: two.key,
  })
  expect(foreign.statusCode).toBe(403)
  const unnamed = await asAdmin(service, { url: '/events/feed?consumer=erp' })
  expect([unnamed.statusCode, unnamed.json().details[0].path]).toEqual([422, 'client'])
  const named = await asAdmin(service, { url: '/events/feed?consumer=erp&client=own&reader=y' })
  expect(idsIn(named)).toHaveLength(2)
  const both = await read(one, 'y', `&after=${named.json().next}`)
  expect([both.statusCode, both.json().details[0].path]).toEqual([422, 'after'])
})

test('persons who may not set up read no events as a consumer, since that stops the ERP', async () => {
  const till = await open('persons')
  const people = [
    await join(service, { name: 'vera', role: 'viewer', client: 'persons' }),
    await join(service, {
      name: 'ana',
      role: 'supervisor',
      client: 'persons',
      stores: ['SUC-1'],
    }),
  ]
  for (const person of people) {
    expect((await by(service, person, { url: '/events/feed' })).statusCode).toBe(200)
    const refused = await by(service, person, { url: '/events/feed?consumer=erp' })
    expect(refused.statusCode).toBe(403)
  }
  const boss = await join(service, { name: 'rosa', role: 'administrator', client: 'persons' })
  expect((await by(service, boss, { url: '/events/feed?consumer=erp' })).statusCode).toBe(200)
  expect((await read(till, 'a')).statusCode).toBe(409)
})

test('a waiting reader is answered with the event, and has its lease from then on', async () => {
  const till = await open('patient')
  const waiting = read(till, 'a', '&wait=30')
  await eventually(async () => {
    const listed = await call(service, { url: consumers, token: till.key })
    expect(listed.json().consumers[0]).toMatchObject({ reader: 'a' })
  })
  expect((await read(till, 'b')).statusCode).toBe(409)
  await charge(service, till, { reference: 'W-1' })
  expect(idsIn(await waiting)).toHaveLength(1)
})
