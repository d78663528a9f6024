import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { createEncryption } from '../../src/domain/encryption.ts'
import { rotateSecrets } from '../../src/payments/encryption/rotate-encryption-keys.ts'
import { deleteOldEvents } from '../../src/repositories/events/event-log.ts'
import { openHttpReceiver } from '../notifications/receivers.ts'
import {
  endpointsPath,
  makeEndpoint,
  readEndpoint,
  resourcesAt,
  writeEvent,
} from '../support/endpoints.ts'
import { auditOf, openOwnShop } from '../support/money.ts'
import { by, join } from '../support/people.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, type Till } from '../support/till.ts'

vi.setConfig({ testTimeout: 60_000 })

let service: TestService
let open: TestService
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
beforeAll(async () => {
  hook = await openHttpReceiver()
  service = await startTestService()
  open = await startTestService({ twinOf: service, env: { EVENTS_PRIVATE_NETWORK: 'true' } })
})
beforeEach(() => hook.reset())
afterEach(() => service.database.db.deleteFrom('event_endpoints').execute())
afterAll(async () => {
  await open.stop()
  await service.stop()
  await hook.close()
})

const create = (till: Till, body: object, at: TestService = service) =>
  call(at, { url: endpointsPath, token: till.key, body })
const act = (till: Till, id: string, what: string, body: object = {}) =>
  call(open, { url: `${endpointsPath}/${id}/${what}`, token: till.key, body })
const erp = 'https://erp.example/events'

test('a new endpoint begins with the next event, and its secret is shown once', async () => {
  const till = await openOwnShop(service, 'maker')
  await writeEvent(service, 'maker', 'before')
  const made = await create(till, { url: erp })
  expect(made.statusCode, made.body).toBe(201)
  const { secret, ...endpoint } = made.json()
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(endpoint).toMatchObject({
    id: expect.stringMatching(/^ep_[0-9a-f]{32}$/),
    client: 'maker',
    url: erp,
    types: null,
    state: 'active',
    waiting: 0,
    missed: 0,
  })
  await writeEvent(service, 'maker', 'after')
  const list = await call(service, { url: endpointsPath, token: till.key })
  expect(list.body).not.toContain('whsec_')
  expect(list.json().endpoints).toEqual([
    { ...endpoint, waiting: 1, oldest_at: expect.any(String) },
  ])
  const stored = await sql<{ row: object }>`
    select to_jsonb(e) as row from event_endpoints e where id = ${endpoint.id}`.execute(
    service.database.db,
  )
  expect(JSON.stringify(stored.rows)).not.toContain(secret)
  expect(service.logLines.join('\n')).not.toContain(secret)
})

test('an endpoint may begin with the oldest event that is kept, or at a time', async () => {
  const till = await openOwnShop(service, 'starter')
  await writeEvent(service, 'starter', 'o1')
  service.clock.advance(60_000)
  const from = service.clock.now().toISOString()
  await writeEvent(service, 'starter', 'o2')
  const waiting = async (body: object) => (await create(till, { url: erp, ...body })).json().waiting
  expect(await waiting({ from: 'beginning' })).toBe(2)
  expect(await waiting({ from })).toBe(1)
  expect(await waiting({ from: 'beginning', types: ['order.refunded'] })).toBe(0)
})

test('T40: addresses to which nothing may be sent are refused with the field and the reason', async () => {
  const till = await openOwnShop(service, 'guarded')
  const reasons = async (url: string, at: TestService = service) => {
    const answer = await create(till, { url }, at)
    if (answer.statusCode === 201) return 'taken'
    expect([answer.statusCode, answer.json().code]).toEqual([422, 'VALIDATION_ERROR'])
    expect(answer.json().details).toHaveLength(1)
    const [{ path, message }] = answer.json().details
    expect(path).toBe('url')
    return message
  }
  const address = 'must be an https address without user and password'
  for (const url of ['none', 'ftp://erp.example/', 'https://me:canary-word@erp.example/']) {
    expect([url, await reasons(url)]).toEqual([url, address])
  }
  const mine = 'EVENTS_PRIVATE_NETWORK'
  const closed = [
    'http://erp.example/',
    'https://127.0.0.1/',
    'https://[::1]/',
    'https://10.0.0.1/',
  ]
  for (const url of [...closed, 'https://localhost:8443/', 'https://2130706433/']) {
    expect([url, await reasons(url)]).toEqual([url, expect.stringContaining(mine)])
    expect([url, await reasons(url, open)]).toEqual([url, 'taken'])
  }
  for (const url of ['https://169.254.169.254/', 'https://metadata.google.internal/']) {
    for (const at of [service, open]) {
      expect([url, await reasons(url, at)]).toEqual([
        url,
        'must not be a link-local address or a metadata service',
      ])
    }
  }
})

test('T40: a name that leads to a private network is refused when it is resolved, and nothing is sent', async () => {
  const till = await openOwnShop(service, 'rebound')
  // Made by a process that allows it; the other one does not.
  const { id } = await makeEndpoint(open, till, hook.url)
  await writeEvent(service, 'rebound', 'o1')
  await service.endpoints.sendDue()
  expect(hook.calls).toEqual([])
  const attempts = await call(service, {
    url: `${endpointsPath}/${id}/attempts`,
    token: till.key,
  })
  expect(attempts.json().attempts).toMatchObject([
    { success: false, status: null, failure: 'refused_address', answer: null },
  ])
})

test('T2: a client sees and changes its own endpoints alone; what is another’s answers like what is missing', async () => {
  const owner = await openOwnShop(service, 'owner')
  const thief = await openOwnShop(service, 'thief')
  const { id } = await makeEndpoint(open, owner, hook.url)
  await writeEvent(service, 'thief', 'theirs')
  await writeEvent(service, 'owner', 'mine')
  await open.endpoints.sendDue()
  expect(resourcesAt(hook.calls, '/')).toEqual(['mine'])
  const eventId = JSON.parse(hook.calls[0]?.body ?? '{}').id
  const requests: [method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object][] = [
    ['GET', ''],
    ['PATCH', '', { types: null }],
    ['GET', '/attempts'],
    ['GET', `/events/${eventId}`],
    ['POST', '/rotate', {}],
    ['POST', '/ping'],
    ['POST', '/stop'],
    ['POST', '/resume'],
    ['POST', '/skip'],
    ['POST', '/replay', { failed: true }],
    ['POST', '/replay', { event_id: eventId, dry_run: true }],
    ['DELETE', ''],
  ]
  for (const [method, path, body] of requests) {
    const [foreign, missing] = await Promise.all(
      [id, `ep_${'0'.repeat(32)}`].map((one) =>
        call(open, {
          method,
          url: `${endpointsPath}/${one}${path}`,
          token: thief.key,
          ...(body && { body }),
        }),
      ),
    )
    expect([method, path, foreign?.statusCode]).toEqual([method, path, 404])
    const { request_id: _, ...said } = foreign?.json() ?? {}
    const { request_id: __, ...saidOfMissing } = missing?.json() ?? {}
    expect(said).toEqual(saidOfMissing)
  }
  expect((await call(open, { url: endpointsPath, token: thief.key })).json().endpoints).toEqual([])
  expect(await readEndpoint(open, owner, id)).toMatchObject({ state: 'active', failures: 0 })
  expect(hook.calls).toHaveLength(1)
  const named = await asAdmin(open, { url: `${endpointsPath}?client=owner` })
  expect(named.json().endpoints).toMatchObject([{ id }])
})

test('a person who sets up the client changes endpoints, and one of some stores sees none', async () => {
  const till = await openOwnShop(service, 'staffed')
  await makeEndpoint(open, till, hook.url)
  const boss = await join(service, {
    name: 'endpoint boss',
    role: 'administrator',
    client: 'staffed',
  })
  const made = await by(service, boss, {
    url: `${endpointsPath}?client=staffed`,
    body: { url: erp },
  })
  expect(made.statusCode, made.body).toBe(201)
  const clerk = await join(service, {
    name: 'endpoint clerk',
    role: 'supervisor',
    client: 'staffed',
    stores: ['SUC-1'],
  })
  const refused = await by(service, clerk, { url: `${endpointsPath}?client=staffed` })
  expect(refused.statusCode).toBe(403)
})

test('a client has at most 16 endpoints; a deleted one makes room', async () => {
  const till = await openOwnShop(service, 'many')
  const made = []
  for (let times = 0; times < 16; times += 1) made.push((await create(till, { url: erp })).json())
  const more = await create(till, { url: erp })
  expect([more.statusCode, more.json().code]).toEqual([409, 'CONFLICT'])
  const gone = await call(service, {
    method: 'DELETE',
    url: `${endpointsPath}/${made[0].id}`,
    token: till.key,
  })
  expect(gone.statusCode).toBe(200)
  expect((await create(till, { url: erp })).statusCode).toBe(201)
  const actions = (await auditOf(service, 'many')).map(({ action }) => action)
  expect(actions).toEqual(expect.arrayContaining(['endpoint.created', 'endpoint.deleted']))
})

test('a replay names exactly one thing; an event that was never sent is not found', async () => {
  const till = await openOwnShop(service, 'replayer')
  const { id } = await makeEndpoint(open, till, hook.url)
  const now = service.clock.now().toISOString()
  const unknown = `evt_${'0'.repeat(32)}`
  for (const body of [{}, { from: now, failed: true }, { to: now }, { failed: false }]) {
    const answer = await act(till, id, 'replay', body)
    expect([body, answer.statusCode]).toEqual([body, 422])
  }
  const backwards = { from: now, to: '2020-01-01T00:00:00Z' }
  expect((await act(till, id, 'replay', backwards)).statusCode).toBe(422)
  expect((await act(till, id, 'replay', { event_id: unknown })).statusCode).toBe(404)
  const event = await call(open, {
    url: `${endpointsPath}/${id}/events/${unknown}`,
    token: till.key,
  })
  expect(event.statusCode).toBe(404)
})

test('an overlap of more than seven days is refused', async () => {
  const till = await openOwnShop(service, 'overlapper')
  const { id } = await makeEndpoint(open, till, hook.url)
  expect((await act(till, id, 'rotate', { overlap_seconds: 604_801 })).statusCode).toBe(422)
  expect((await act(till, id, 'rotate', { overlap_seconds: -1 })).statusCode).toBe(422)
  const before = service.clock.now().getTime()
  const { former_secret_until: until } = (await act(till, id, 'rotate')).json()
  expect(Math.round((Date.parse(until) - before) / 3_600_000)).toBe(24)
})

test('what an endpoint did not get within 30 days is counted as missed, by its filter', async () => {
  const till = await openOwnShop(service, 'late')
  hook.answer = (response) => response.writeHead(500).end()
  const first = await makeEndpoint(open, till, hook.url)
  const second = await makeEndpoint(open, till, hook.url, { types: ['order.refunded'] })
  await writeEvent(service, 'late', 'queued')
  await open.endpoints.sendDue()
  for (const { id } of [first, second]) await act(till, id, 'stop')
  await writeEvent(service, 'late', 'o1')
  await writeEvent(service, 'late', 'o2', { type: 'order.refunded' })
  await call(service, { url: '/events/feed', token: till.key })
  // Nothing has read this one.
  await writeEvent(service, 'late', 'o3')
  service.clock.advance(1_000)
  const before = service.clock.now()
  await writeEvent(service, 'late', 'young', { type: 'order.refunded' })
  await service.database.transaction((trx) => deleteOldEvents(trx, before, 1_000))
  // Its own stop is an event too, and that of the other one.
  expect(await readEndpoint(open, till, first.id)).toMatchObject({ missed: 6, waiting: 1 })
  expect(await readEndpoint(open, till, second.id)).toMatchObject({ missed: 1, waiting: 1 })
  hook.reset()
  for (const { id } of [first, second]) await act(till, id, 'resume')
  await open.endpoints.sendDue()
  expect(resourcesAt(hook.calls, '/')).toEqual(['young', 'young'])
})

test('secrets move to a new encryption key; an endpoint whose secret is lost with a key stops until it has a new one', async () => {
  const till = await openOwnShop(service, 'sealed')
  const { id } = await makeEndpoint(open, till, hook.url)
  const secrets = () =>
    service.database.db
      .selectFrom('event_endpoints')
      .select(['secret', 'former_secret', 'stop_reason'])
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
  await act(till, id, 'rotate')
  const [key] = service.encryptionKeys
  if (!key) throw new Error('the service has no key')
  const other = { id: 'k2', key: Buffer.alloc(32, 7) }
  const deps = { database: service.database, now: service.clock.now }
  await rotateSecrets(deps, [other, key])
  const moved = await secrets()
  expect([moved.secret?.split('.')[1], moved.former_secret?.split('.')[1]]).toEqual(['k2', 'k2'])
  expect(createEncryption([other]).decrypt(moved.secret ?? '', `event_endpoint:${id}`)).toMatch(
    /^whsec_/,
  )

  const { givenUp } = await rotateSecrets(deps, [key], ['k2'])
  expect(givenUp).toContainEqual({ use: 'secrets of endpoints', owner: 'sealed' })
  expect(await secrets()).toEqual({
    secret: null,
    former_secret: null,
    stop_reason: 'secret_lost',
  })
  const refused = await act(till, id, 'resume')
  expect([refused.statusCode, refused.json().code]).toEqual([409, 'CONFLICT'])
  await act(till, id, 'rotate')
  expect((await act(till, id, 'resume')).json()).toMatchObject({ state: 'active' })
})
