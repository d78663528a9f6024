import { randomUUID } from 'node:crypto'
import type { LightMyRequestResponse } from 'fastify'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hashSecret } from '../../src/domain/secret-hash.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, createStore, enrol, type Till } from '../support/till.ts'

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService()
  till = await enrol(service, 'acme', '7800001')
})
afterAll(() => service.stop())

const json = { 'content-type': 'application/json' }
const ownPage = { 'sec-fetch-site': 'same-origin' }

async function signIn(token: string): Promise<{ cookie: string; answer: LightMyRequestResponse }> {
  const answer = await call(service, { url: '/session', body: { token } })
  const header = String(answer.headers['set-cookie'] ?? '')
  return { cookie: header.split(';')[0] ?? '', answer }
}

/** A request of the page with its cookie only; `headers` may name another origin. */
function byCookie(cookie: string, url: string, headers: Record<string, string> = ownPage) {
  return call(service, { url, headers: { cookie, ...headers } })
}

test('signing in sets a cookie that scripts cannot read and that contains no token, and answers with its client', async () => {
  const { answer, cookie } = await signIn(till.key)
  expect(answer.statusCode).toBe(200)
  expect(answer.json()).toMatchObject({ valid: true, type: 'client', client: 'acme' })
  const wholeHours = (Date.parse(answer.json().expires_at) - service.clock.now().getTime()) / 3.6e6
  expect(wholeHours).toBeCloseTo(12, 1)
  const header = String(answer.headers['set-cookie'])
  expect(header).toMatch(/; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/)
  const value = cookie.split('=')[1] ?? ''
  expect(value).toMatch(/^[\w-]{43}$/)
  const rows = await service.database.db.selectFrom('sessions').selectAll().execute()
  for (const secret of [value, till.key]) expect(JSON.stringify(rows)).not.toContain(secret)
  expect(answer.headers['cache-control']).toBe('no-store')
  expect((await byCookie(cookie, '/orders')).statusCode).toBe(200)
  expect((await byCookie(cookie, '/orders?client=other')).statusCode).toBe(403)
  expect((await byCookie(cookie, '/admin/clients')).statusCode).toBe(403)
})

test('an unknown token starts no session and counts as a failed attempt', async () => {
  for (const token of ['wrong', `mk_${'0'.repeat(64)}`, `${adminToken}x`]) {
    const { answer } = await signIn(token)
    expect([answer.statusCode, answer.json().code]).toEqual([401, 'UNAUTHORIZED'])
    expect(answer.headers['set-cookie']).toBeUndefined()
  }
  const strict = await startTestService({
    database: service.database,
    env: { AUTH_FAILURES_PER_MINUTE: '2' },
  })
  const statuses: number[] = []
  for (let round = 0; round < 3; round += 1) {
    const body = { token: 'wrong' }
    statuses.push((await call(strict, { url: '/session', body })).statusCode)
  }
  await strict.stop()
  expect(statuses).toEqual([401, 401, 429])
})

test('a session of the administrator has the rights of the admin token', async () => {
  const { cookie } = await signIn(adminToken)
  expect((await byCookie(cookie, '/session')).json()).toMatchObject({ valid: true, type: 'admin' })
  const clients = (await byCookie(cookie, '/admin/clients')).json()
  expect(clients).toEqual((await asAdmin(service, { url: '/admin/clients' })).json())
  expect(clients.total).toBeGreaterThan(0)
  expect((await byCookie(cookie, '/health')).json()).toHaveProperty('checks')
  const made = await call(service, {
    url: '/admin/invitations',
    headers: { cookie, ...ownPage },
    body: { client: 'newcomer' },
  })
  expect(made.statusCode).toBe(201)
})

test('a session has the time zone of the shops, and none when they have several', async () => {
  const zoneOf = async (token: string) =>
    (await byCookie((await signIn(token)).cookie, '/session')).json().time_zone
  expect(await zoneOf(till.key)).toBe('America/Argentina/Buenos_Aires')
  expect(await zoneOf(adminToken)).toBe('America/Argentina/Buenos_Aires')
  await createStore(service, till, { id: 'SUC-ZONE', boxes: ['CAJA-ZONE'] })
  const { db } = service.database
  await db
    .updateTable('stores')
    .set({ time_zone: 'America/Mexico_City' })
    .where('client', '=', till.client as never)
    .execute()
  expect(await zoneOf(till.key)).toBe('America/Mexico_City')
  await createStore(service, till, { id: 'SUC-HOME', boxes: ['CAJA-HOME'] })
  expect(await zoneOf(till.key)).toBeNull()
  expect(await zoneOf(adminToken)).toBeNull()
})

test('a token in the header decides alone, also beside a session', async () => {
  const { cookie } = await signIn(adminToken)
  const answer = await call(service, {
    url: '/admin/clients',
    token: 'wrong',
    headers: { cookie, ...ownPage },
  })
  expect(answer.statusCode).toBe(401)
})

describe('a writing request with a cookie', () => {
  const origins: [name: string, headers: Record<string, string>, isAccepted: boolean][] = [
    ['from our page', { ...json, ...ownPage }, true],
    [
      'from our page over plain http',
      { ...json, host: 'caja:3000', origin: 'http://caja:3000' },
      true,
    ],
    ['from our public address', { ...json, host: 'inside', origin: 'http://127.0.0.1:3000' }, true],
    ['from another site', { ...json, 'sec-fetch-site': 'cross-site' }, false],
    ['from another port of our host', { ...json, 'sec-fetch-site': 'same-site' }, false],
    ['from an address typed by hand', { ...json, 'sec-fetch-site': 'none' }, false],
    ['from another origin', { ...json, host: 'caja:3000', origin: 'http://caja:3001' }, false],
    ['from a hidden origin', { ...json, origin: 'null' }, false],
    ['without an origin', json, false],
    ['as a form', { ...ownPage, 'content-type': 'text/plain' }, false],
    ['without a content type', ownPage, false],
  ]
  test.each(origins)(
    '%s is accepted or refused by its origin',
    async (_name, headers, isAccepted) => {
      const { cookie } = await signIn(till.key)
      const answer = await service.app.inject({
        method: 'POST',
        url: '/orders/cancel',
        headers: { cookie, ...headers },
        payload: '{"order_id":"3f8e1f0e-6c2d-4b5a-9a51-0c7c4f2f9d11"}',
      })
      // The order does not exist: an accepted request is 404, a refused one 401.
      expect([answer.statusCode, answer.json().code]).toEqual(
        isAccepted ? [404, 'NOT_FOUND'] : [401, 'UNAUTHORIZED'],
      )
    },
  )
})

test('a page of another site cannot read with the cookie', async () => {
  const { cookie } = await signIn(till.key)
  for (const site of ['cross-site', 'same-site']) {
    const answer = await byCookie(cookie, '/orders', { 'sec-fetch-site': site })
    expect([site, answer.statusCode]).toEqual([site, 401])
  }
  expect((await byCookie(cookie, '/orders', {})).statusCode).toBe(200)
})

test('T55: a session ends with its key and after its time', async () => {
  const revoked = await enrol(service, 'short-lived', '7800002')
  const { cookie } = await signIn(revoked.key)
  expect((await byCookie(cookie, '/orders')).statusCode).toBe(200)
  await asAdmin(service, { url: '/api-keys/revoke', body: { client: 'short-lived' } })
  expect((await byCookie(cookie, '/orders')).statusCode).toBe(401)
  expect((await byCookie(cookie, '/session')).json()).toEqual({
    valid: false,
    type: null,
    client: null,
    expires_at: null,
    time_zone: null,
    person: null,
    may: null,
  })

  const own = await signIn(till.key)
  service.clock.advance(12 * 3.6e6 - 60_000)
  expect((await byCookie(own.cookie, '/orders')).statusCode).toBe(200)
  service.clock.advance(60_001)
  expect((await byCookie(own.cookie, '/orders')).statusCode).toBe(401)
})

test('T55: the sessions of the administrator end with a changed ADMIN_TOKEN, other sessions go on', async () => {
  const admin = await signIn(adminToken)
  const key = await signIn(till.key)
  const changed = await startTestService({ twinOf: service, adminToken: `${adminToken}-changed` })
  const at = async (process: TestService, cookie: string) =>
    (await call(process, { url: '/admin/clients', headers: { cookie, ...ownPage } })).statusCode
  expect([await at(service, admin.cookie), await at(changed, admin.cookie)]).toEqual([200, 401])
  expect([await at(service, key.cookie), await at(changed, key.cookie)]).toEqual([403, 403])
  await changed.stop()
})

test('signing out ends the session in every process, and other sessions go on', {
  tags: ['long'],
}, async () => {
  for (const token of [till.key, adminToken]) {
    const [left, kept] = [await signIn(token), await signIn(token)]
    const out = await call(service, {
      method: 'DELETE',
      url: '/session',
      headers: { cookie: left.cookie, ...ownPage },
    })
    expect(out.statusCode).toBe(200)
    expect(String(out.headers['set-cookie'])).toMatch(/^tillbridge-session=; Max-Age=0; /)
    // A second process; it also stands for one that starts later.
    const duplicate = await startTestService({ twinOf: service })
    for (const process of [service, duplicate]) {
      const at = (cookie: string, url: string) =>
        call(process, { url, headers: { cookie, ...ownPage } })
      expect((await at(left.cookie, '/session')).json().valid).toBe(false)
      expect((await at(left.cookie, '/orders?client=acme')).statusCode).toBe(401)
      expect((await at(kept.cookie, '/session')).json().valid).toBe(true)
    }
    await duplicate.stop()
  }
})

test('signing out without a valid session is 200', async () => {
  for (const cookie of [
    'other=1',
    'tillbridge-session=x',
    (await signIn(till.key)).cookie.slice(0, -3),
  ]) {
    const out = await call(service, { method: 'DELETE', url: '/session', headers: { cookie } })
    expect(out.statusCode).toBe(200)
  }
})

test('a key has at most a hundred sessions; the newest stay, and expired ones are deleted', {
  tags: ['long'],
}, async () => {
  const many = await enrol(service, 'many', '7800003')
  const cookies: string[] = []
  for (let round = 0; round < 102; round += 1) {
    service.clock.advance(1)
    cookies.push((await signIn(many.key)).cookie)
  }
  const isOpen = async (cookie = '') => (await byCookie(cookie, '/session')).json().valid
  expect(await Promise.all([0, 1, 2, 101].map((at) => isOpen(cookies[at])))).toEqual([
    false,
    false,
    true,
    true,
  ])
  service.clock.advance(12 * 3.6e6 + 1000)
  await signIn(many.key)
  const rows = await service.database.db.selectFrom('sessions').select('id').execute()
  expect(rows).toHaveLength(1)
})

test('T55: a cookie that was altered, or made of what the database has, is no session', async () => {
  const { cookie } = await signIn(adminToken)
  const secret = cookie.split('=')[1] ?? ''
  const row = await service.database.db
    .selectFrom('sessions')
    .selectAll()
    .where('token_hash', '=', hashSecret(secret))
    .executeTakeFirstOrThrow()
  const wrong = [
    cookie.slice(0, -2),
    cookie.toUpperCase(),
    'tillbridge-session=',
    'tillbridge-session=x.y.z',
    `__Host-${cookie}`,
    `tillbridge-session=${row.id}`,
    `tillbridge-session=${row.token_hash}`,
    `tillbridge-session=${row.admin_proof}`,
  ]
  for (const value of wrong) {
    expect([value, (await byCookie(value, '/session')).json().valid]).toEqual([value, false])
    expect((await byCookie(value, '/admin/clients')).statusCode).toBe(401)
  }
  const among = `other=1; ${cookie}; theme=dark`
  expect((await byCookie(among, '/session')).json().valid).toBe(true)
})

test('a session that is written into the database without the ADMIN_TOKEN is no session', async () => {
  const now = service.clock.now()
  const secret = 'A'.repeat(43)
  await service.database.db
    .insertInto('sessions')
    .values({
      id: randomUUID(),
      token_hash: hashSecret(secret),
      admin_proof: hashSecret(secret),
      created_at: now,
      used_at: now,
      expires_at: new Date(now.getTime() + 60_000),
    })
    .execute()
  expect((await byCookie(`tillbridge-session=${secret}`, '/admin/clients')).statusCode).toBe(401)
})

test('over https the cookie is Secure and bound to the host', async () => {
  const secure = await startTestService({
    database: service.database,
    publicUrl: 'https://pay.example',
  })
  const answer = await call(secure, { url: '/session', body: { token: adminToken } })
  await secure.stop()
  expect(String(answer.headers['set-cookie'])).toMatch(
    /^__Host-tillbridge-session=[^;]+; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
  )
})

test.each([
  { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' },
  { 'sec-fetch-site': 'same-site' },
  { origin: 'http://127.0.0.1:8080' },
  { origin: 'null' },
])('a page of another site cannot sign a person out (%j)', async (foreign) => {
  const signedIn = await call(service, { url: '/session', body: { token: adminToken } })
  const cookie = String(signedIn.headers['set-cookie']).split(';', 1)[0] ?? ''
  const own = { cookie, 'sec-fetch-site': 'same-origin' }
  const out = await call(service, {
    method: 'DELETE',
    url: '/session',
    headers: { cookie, ...foreign },
  })
  expect([out.statusCode, out.headers['set-cookie']]).toEqual([403, undefined])
  expect((await call(service, { url: '/session', headers: own })).json()).toMatchObject({
    valid: true,
  })
})
