import { afterAll, beforeAll, expect, test } from 'vitest'
import { consent, login } from '../support/oauth.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call } from '../support/till.ts'

const hourMs = 3600_000

let service: TestService
beforeAll(async () => {
  service = await startTestService({
    publicUrl: 'https://pay.example',
    env: { OAUTH_ENROLMENT: 'invite', AUTH_FAILURES_PER_MINUTE: '100000' },
  })
})
afterAll(() => service.stop())

async function invite(client: string): Promise<{ url: string; token: string; expiresAt: string }> {
  const answer = await asAdmin(service, { url: '/admin/invitations', body: { client } })
  expect(answer.statusCode).toBe(201)
  const { url, expires_at } = answer.json()
  return {
    url,
    token: new URL(url).searchParams.get('invitation') ?? '',
    expiresAt: expires_at,
  }
}

/** The invited one opens the link. */
function open(url: string) {
  const { pathname, search } = new URL(url)
  return call(service, { url: `${pathname}${search}` })
}

async function finish(location: unknown, account: string, cookie?: string) {
  const back = await consent(location, { account })
  return call(service, { url: back, ...(cookie !== undefined && { headers: { cookie } }) })
}

test('without an invitation nobody but the administrator begins a first connection', async () => {
  const stranger = await login(service, 'acme')
  expect(stranger.statusCode).toBe(403)
  expect(stranger.json().code).toBe('FORBIDDEN')
  expect((await login(service, 'acme', {}, { token: adminToken })).statusCode).toBe(302)
})

test('an invitation is a link of this service, for one name, with a day to live', async () => {
  const { url, expiresAt } = await invite('Café «Ñandú»')
  expect(url).toMatch(/^https:\/\/pay\.example\/oauth\/login\?client=/)
  expect(new URL(url).searchParams.get('client')).toBe('Café «Ñandú»')
  const leftMs = Date.parse(expiresAt) - service.clock.now().getTime()
  expect(Math.round(leftMs / hourMs)).toBe(24)
})

test('an invitation opens one login and no second', async () => {
  const { url } = await invite('single')
  expect((await open(url)).statusCode).toBe(302)
  const second = await open(url)
  expect(second.statusCode).toBe(409)
  expect(second.json().code).toBe('INVITATION_INVALID')
})

test('of two who open an invitation at the same time one gets in', async () => {
  const { url } = await invite('pair')
  const answers = await Promise.all([open(url), open(url)])
  expect(answers.map(({ statusCode }) => statusCode).sort()).toEqual([302, 409])
})

test('an invitation ends after a day', async () => {
  const soon = await invite('soon')
  const late = await invite('late')
  service.clock.advance(24 * hourMs - 5000)
  expect((await open(soon.url)).statusCode).toBe(302)
  service.clock.advance(6000)
  expect((await open(late.url)).json().code).toBe('INVITATION_INVALID')
})

test('an invitation for one name is none for another', async () => {
  const { token } = await invite('invited')
  const other = await login(service, 'uninvited', { invitation: token })
  expect(other.json().code).toBe('INVITATION_INVALID')
  // The try did not use it up.
  expect((await login(service, 'invited', { invitation: token })).statusCode).toBe(302)
})

test('a forged, cut or altered invitation is 409 and shows nothing of how it was checked', async () => {
  const { token } = await invite('target')
  const [id = '', signature = ''] = token.split('.')
  const forged = [
    id,
    `${id}.`,
    `${id}.${'A'.repeat(43)}`,
    `${id}.${signature.slice(0, -1)}`,
    `${id}.${signature}x`,
    `${id}.${signature.toLowerCase()}`,
    `${id.replace(/^./, (digit) => (digit === '0' ? '1' : '0'))}.${signature}`,
    `.${signature}`,
    'x',
    '__proto__.constructor',
  ]
  const bodies = new Set<string>()
  for (const invitation of forged) {
    const answer = await login(service, 'target', { invitation })
    expect(answer.statusCode, invitation).toBe(409)
    const { request_id: _id, ...body } = answer.json()
    bodies.add(JSON.stringify(body))
  }
  expect(bodies.size).toBe(1)
  expect((await login(service, 'target', { invitation: token })).statusCode).toBe(302)
})

test('an invitation token is not the id under which it is stored', async () => {
  const { token } = await invite('sealed')
  const rows = await service.database.db.selectFrom('invitations').selectAll().execute()
  const signature = token.split('.')[1] ?? 'none'
  expect(signature).toMatch(/^[\w-]{43}$/)
  expect(JSON.stringify(rows)).not.toContain(signature)
})

test('a client that has a key needs and gets no invitation', async () => {
  const begun = await open((await invite('grown')).url)
  await finish(begun.headers.location, '601')
  const created = await asAdmin(service, { url: '/api-keys', body: { client: 'grown' } })
  const { key } = created.json()
  const again = await asAdmin(service, { url: '/admin/invitations', body: { client: 'grown' } })
  expect(again.statusCode).toBe(409)
  expect(again.json().code).toBe('CONFLICT')
  await call(service, { method: 'POST', url: '/oauth/logout', token: key })
  // It connects again without one: its account is pinned.
  expect((await login(service, 'grown')).statusCode).toBe(302)
})

test('making an invitation is audited', async () => {
  await invite('audited')
  const answer = await asAdmin(service, { url: '/admin/activity?client=audited' })
  expect(answer.json().logs).toMatchObject([{ action: 'invitation.created', status: 'success' }])
  expect(answer.body).not.toContain('invitation=')
})

test('under https the login binds the browser with a __Host- cookie', async () => {
  const begun = await open((await invite('browser')).url)
  const cookie = String(begun.headers['set-cookie'])
  expect(cookie).toMatch(/^__Host-tillbridge-login=[\w-]{43}; /)
  for (const attribute of ['Path=/', 'Secure', 'HttpOnly', 'SameSite=Lax', 'Max-Age=600']) {
    expect(cookie).toContain(attribute)
  }
  expect(cookie).not.toMatch(/domain=/i)
  const [pair = ''] = cookie.split(';')
  const answer = await finish(begun.headers.location, '602', `other=1; ${pair}`)
  expect(answer.statusCode).toBe(200)
})

test('a return in another browser that has a login of its own is 400, and the right one still works', async () => {
  const mine = await login(service, 'victim', {}, { token: adminToken })
  const theirs = await login(service, 'attacker', {}, { token: adminToken })
  const pairOf = (answer: typeof mine) => String(answer.headers['set-cookie']).split(';')[0] ?? ''
  const back = await consent(mine.headers.location, { account: '603' })
  for (const cookie of [pairOf(theirs), '__Host-tillbridge-login=', `${pairOf(mine)}x`]) {
    const answer = await call(service, { url: back, headers: { cookie } })
    expect(answer.statusCode, cookie).toBe(400)
    expect(answer.json().code).toBe('OAUTH_STATE_INVALID')
  }
  const right = await call(service, { url: back, headers: { cookie: pairOf(mine) } })
  expect(right.statusCode).toBe(200)
})

test('a foreign first connection is visible before a key can charge for it', async () => {
  // The attack of a stranger who was let in by mistake: his account shows in the answer that makes the key.
  const begun = await open((await invite('shop')).url)
  await finish(begun.headers.location, '666')
  const created = await asAdmin(service, { url: '/api-keys', body: { client: 'shop' } })
  expect(created.json()).toMatchObject({ mp_user_id: 666, nickname: 'TESTUSER666' })
})
