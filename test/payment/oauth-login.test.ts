import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { login } from '../support/oauth.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, connect, enrol, sandboxCall, type Till } from '../support/till.ts'

const dayMs = 24 * 3600_000

let service: TestService
beforeAll(async () => {
  service = await startTestService({ env: { AUTH_FAILURES_PER_MINUTE: '100000' } })
})
afterAll(() => service.stop())

async function logout(till: Till): Promise<void> {
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
}

test('GET /oauth/login redirects to the provider with the documented parameters and nothing else', async () => {
  const answer = await login(service, 'fresh', {}, { headers: { host: '192.168.0.10' } })
  expect(answer.statusCode).toBe(302)
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(answer.body).toBe('')
  const url = new URL(String(answer.headers.location))
  expect(`${url.origin}${url.pathname}`).toBe(`${service.sandbox.url}/authorization`)
  const { state, code_challenge, ...fixed } = Object.fromEntries(url.searchParams)
  expect(fixed).toEqual({
    client_id: service.sandbox.info.client_id,
    response_type: 'code',
    platform_id: 'mp',
    redirect_uri: 'http://127.0.0.1:3000/oauth/callback',
    code_challenge_method: 'S256',
  })
  // 32 random bytes; the challenge is a SHA-256.
  expect(state).toMatch(/^[\w-]{43}$/)
  expect(code_challenge).toMatch(/^[\w-]{43}$/)
})

test('the challenge belongs to the stored verifier, and neither state nor verifier is stored in clear', async () => {
  const answer = await login(service, 'challenged')
  const { searchParams } = new URL(String(answer.headers.location))
  const state = searchParams.get('state') ?? ''
  const row = await service.database.db
    .selectFrom('oauth_states')
    .selectAll()
    .where('client', '=', 'challenged' as never)
    .executeTakeFirstOrThrow()
  expect(row.state_hash).toBe(createHash('sha256').update(state).digest('hex'))
  const verifier = service.deps.encryption.decrypt(row.code_verifier, 'code_verifier:challenged')
  expect(verifier).toMatch(/^[\w.~-]{43,128}$/)
  expect(createHash('sha256').update(verifier).digest('base64url')).toBe(
    searchParams.get('code_challenge'),
  )
  const stored = JSON.stringify(row)
  expect(stored).not.toContain(state)
  expect(stored).not.toContain(verifier)
  expect(row.expires_at.getTime() - row.created_at.getTime()).toBe(600_000)
})

test('no two logins share state or challenge', async () => {
  const seen = new Set<string>()
  for (let round = 0; round < 20; round++) {
    const { searchParams } = new URL(String((await login(service, 'many')).headers.location))
    seen.add(searchParams.get('state') ?? '')
    seen.add(searchParams.get('code_challenge') ?? '')
  }
  expect(seen.size).toBe(40)
})

test('a name without a key may connect for the first time, and try again until it has a key', async () => {
  expect((await login(service, 'newcomer')).statusCode).toBe(302)
  expect((await login(service, 'newcomer')).statusCode).toBe(302)
})

test('a login of a client with a valid token is 409 for every caller', async () => {
  const till = await enrol(service, 'connected', '301')
  for (const token of [undefined, till.key, adminToken]) {
    const answer = await login(service, 'connected', {}, token === undefined ? {} : { token })
    expect(answer.statusCode).toBe(409)
    expect(answer.json().code).toBe('OAUTH_ALREADY_CONNECTED')
  }
})

test('a login of a connected client without a key is 409', async () => {
  await connect(service, 'keyless', '302')
  expect((await login(service, 'keyless')).json().code).toBe('OAUTH_ALREADY_CONNECTED')
})

test('a client with an active key and no token may connect', async () => {
  await logout(await enrol(service, 'parted', '303'))
  expect((await login(service, 'parted')).statusCode).toBe(302)
})

test('a login of a client whose keys are all revoked is 403', async () => {
  const till = await enrol(service, 'banned', '304')
  await logout(till)
  await asAdmin(service, { url: '/api-keys/revoke', body: { client: 'banned' } })
  for (const token of [undefined, till.key]) {
    const answer = await login(service, 'banned', {}, token === undefined ? {} : { token })
    expect(answer.statusCode).toBe(403)
    expect(answer.json().code).toBe('API_KEY_REQUIRED')
  }
})

test('a client with an expired token may connect again', async () => {
  await enrol(service, 'expired', '305')
  expect((await login(service, 'expired')).statusCode).toBe(409)
  // Set directly: advancing the clock would expire the tokens of the other clients of this file.
  await service.database.db
    .updateTable('oauth_connections')
    .set({ expires_at: new Date(service.clock.now().getTime() - dayMs) })
    .where('client', '=', 'expired' as never)
    .execute()
  expect((await login(service, 'expired')).statusCode).toBe(302)
})

test('a client whose connection the provider ended may connect again', async () => {
  const till = await enrol(service, 'lost', '306')
  await sandboxCall(service, 'POST', '/_sandbox/users/306/revoke')
  const refresh = await call(service, { method: 'POST', url: '/oauth/refresh', token: till.key })
  expect(refresh.json().code).toBe('CONNECTION_LOST')
  expect((await login(service, 'lost')).statusCode).toBe(302)
  await connect(service, 'lost', '306')
  const status = await call(service, { url: '/oauth/status', token: till.key })
  expect(status.json()).toMatchObject({ authenticated: true, mp_user_id: 306 })
})

test('T9: a refused login stores no state', async () => {
  await enrol(service, 'here already', '307')
  await logout(await enrol(service, 'shut out', '308'))
  await asAdmin(service, { url: '/api-keys/revoke', body: { client: 'shut out' } })
  const states = async () =>
    (await service.database.db.selectFrom('oauth_states').selectAll().execute()).length
  const before = await states()
  await login(service, 'here already')
  await login(service, 'shut out')
  await login(service, 'fresh', { target_url: 'https://evil.example/' })
  expect(await states()).toBe(before)
})

test('expired states are deleted at the next login', async () => {
  await login(service, 'forgetful')
  service.clock.advance(600_001)
  await login(service, 'tidy')
  const rows = await service.database.db.selectFrom('oauth_states').select('client').execute()
  expect(rows.map(({ client }) => client)).toEqual(['tidy'])
})

test.each([
  ['without a client', '/oauth/login'],
  ['an empty client', '/oauth/login?client='],
  ['a client of spaces', '/oauth/login?client=%20'],
  ['a client with a space at its end', '/oauth/login?client=acme%20'],
  ['a client of 101 characters', `/oauth/login?client=${'x'.repeat(101)}`],
  ['a client with a line break', '/oauth/login?client=a%0Ab'],
  ['a client with NUL', '/oauth/login?client=a%00'],
  ['two clients', '/oauth/login?client=a&client=b'],
])('%s is 422 on that field', async (_name, url) => {
  const answer = await call(service, { url })
  expect(answer.statusCode).toBe(422)
  expect(answer.json()).toMatchObject({ code: 'VALIDATION_ERROR', details: [{ path: 'client' }] })
})

test('a client name of 100 characters in any script is accepted', async () => {
  expect((await login(service, 'ñ'.repeat(100))).statusCode).toBe(302)
  expect((await login(service, '商店 №1 «Ω»')).statusCode).toBe(302)
})
