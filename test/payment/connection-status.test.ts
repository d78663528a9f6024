import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, enrol, sandboxCall, type Till } from '../support/till.ts'

const hourMs = 3600_000

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService()
  till = await enrol(service, 'acme', '701')
})
afterAll(() => service.stop())

async function statusOf({ key }: Till) {
  return (await call(service, { url: '/oauth/status', token: key })).json()
}

test('GET /oauth/status shows the connection with the fields of the specification', async () => {
  const status = await statusOf(await enrol(service, 'newcomer', '707'))
  expect(status).toEqual({
    authenticated: true,
    client: 'newcomer',
    mp_user_id: 707,
    live_mode: false,
    expires_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    expires_in_hours: expect.any(Number),
    expired: false,
  })
  // 180 days, in hours with a fraction.
  const leftHours = (Date.parse(status.expires_at) - service.clock.now().getTime()) / hourMs
  expect(status.expires_in_hours).toBeCloseTo(leftHours, 1)
  expect(Math.round(leftHours)).toBe(4320)
})

test('GET /oauth/status shows no token', async () => {
  const answer = await call(service, { url: '/oauth/status', token: till.key })
  expect(answer.body).not.toMatch(/APP_USR|TG-/)
})

test('the administrator reads the status of a client that he names', async () => {
  await enrol(service, 'named', '708')
  const answer = await asAdmin(service, { url: '/oauth/status?client=named' })
  expect(answer.json()).toMatchObject({ client: 'named', mp_user_id: 708, authenticated: true })
})

test('live credentials are shown as live', async () => {
  await sandboxCall(service, 'POST', '/_sandbox/users', { id: 702, live_mode: true })
  expect(await statusOf(await enrol(service, 'live', '702'))).toMatchObject({ live_mode: true })
})

test('a known client without a connection is not authenticated, not expired, and the rest is null', async () => {
  const other = await enrol(service, 'parted', '703')
  await call(service, { method: 'POST', url: '/oauth/logout', token: other.key })
  expect(await statusOf(other)).toEqual({
    authenticated: false,
    client: 'parted',
    mp_user_id: null,
    live_mode: null,
    expires_at: null,
    expires_in_hours: null,
    expired: false,
  })
})

test('a lost connection is not authenticated and not expired, and shows its account', async () => {
  const other = await enrol(service, 'lost', '704')
  await sandboxCall(service, 'POST', '/_sandbox/users/704/revoke')
  await call(service, { method: 'POST', url: '/oauth/refresh', token: other.key })
  expect(await statusOf(other)).toMatchObject({
    authenticated: false,
    expired: false,
    mp_user_id: 704,
  })
})

test('logout deletes the tokens, keeps the key and is audited; a second one is 409', async () => {
  const other = await enrol(service, 'leaver', '705')
  const logout = () => call(service, { method: 'POST', url: '/oauth/logout', token: other.key })
  const first = await logout()
  expect(first.statusCode).toBe(200)
  expect(first.json()).toEqual({ message: expect.any(String) })
  const row = await service.database.db
    .selectFrom('oauth_connections')
    .selectAll()
    .where('client', '=', 'leaver' as never)
    .executeTakeFirst()
  expect(row).toBeUndefined()
  const second = await logout()
  expect([second.statusCode, second.json().code]).toEqual([409, 'OAUTH_NOT_CONNECTED'])
  const log = (await asAdmin(service, { url: '/admin/activity?client=leaver' })).json().logs
  expect(log.slice(0, 2)).toMatchObject([
    { action: 'oauth.logout', resource_type: 'oauth', status: 'failed' },
    { action: 'oauth.logout', resource_type: 'oauth', status: 'success' },
  ])
})

test('without a connection routes that call the provider are 409, and the others answer', async () => {
  const other = await enrol(service, 'offline', '706')
  await call(service, { method: 'POST', url: '/oauth/logout', token: other.key })
  const ask = async (method: 'GET' | 'POST', url: string, body?: object) => {
    const answer = await call(service, { method, url, token: other.key, ...(body && { body }) })
    return `${answer.statusCode} ${answer.json().code ?? ''}`.trim()
  }
  expect(await ask('GET', '/terminals')).toBe('409 OAUTH_NOT_CONNECTED')
  expect(await ask('POST', '/oauth/refresh')).toBe('409 OAUTH_NOT_CONNECTED')
  expect(await ask('GET', '/stores')).toBe('200')
  expect(await ask('GET', '/orders')).toBe('200')
  expect(await ask('GET', '/oauth/status')).toBe('200')
})

test('an expired token is shown as expired', async () => {
  service.clock.advance(181 * 24 * hourMs)
  expect(await statusOf(till)).toMatchObject({
    authenticated: false,
    expired: true,
    expires_in_hours: 0,
    mp_user_id: 701,
  })
})
