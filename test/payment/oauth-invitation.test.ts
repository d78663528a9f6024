import type { LightMyRequestResponse } from 'fastify'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { acceptInvitation, consent, cookieOf, login } from '../support/oauth.ts'
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
  const response = await asAdmin(service, { url: '/admin/invitations', body: { client } })
  expect(response.statusCode).toBe(201)
  const { url, expires_at } = response.json()
  return {
    url,
    token: new URL(url).searchParams.get('invitation') ?? '',
    expiresAt: expires_at,
  }
}

/** Opens the page of the link, as a person does, or a messenger that shows a preview. */
function openLink(url: string, headers: Record<string, string> = {}) {
  const { pathname, search } = new URL(url)
  return call(service, { url: `${pathname}${search}`, headers })
}

/** The invited person presses the button of the page. */
const accept = (url: string) => acceptInvitation(service, url)

/** The link that carries this token. */
const linkOf = (client: string, token: string) =>
  `https://pay.example/oauth/invitation?${new URLSearchParams({ client, invitation: token })}`

/** The browser that began the login goes through the consent page and comes back. */
async function finish(begun: LightMyRequestResponse, account: string) {
  const back = await consent(begun.json().url, { account })
  return call(service, { url: back, headers: { cookie: cookieOf(begun) } })
}

test('without an invitation only the administrator begins a first connection', async () => {
  const uninvited = await login(service, 'acme')
  expect(uninvited.statusCode).toBe(403)
  expect(uninvited.json().code).toBe('FORBIDDEN')
  expect((await login(service, 'acme', {}, { token: adminToken })).statusCode).toBe(302)
})

test('an invitation is a link of this service, for one client name, valid for a day', async () => {
  const { url, expiresAt } = await invite('Café «Ñandú»')
  expect(url).toMatch(/^https:\/\/pay\.example\/oauth\/invitation\?client=/)
  expect(new URL(url).searchParams.get('client')).toBe('Café «Ñandú»')
  const leftMs = Date.parse(expiresAt) - service.clock.now().getTime()
  expect(Math.round(leftMs / hourMs)).toBe(24)
})

test('T17: an invitation begins one login only', async () => {
  const { url } = await invite('single')
  const begun = await accept(url)
  expect(begun.statusCode).toBe(200)
  expect(begun.json()).toEqual({
    message: expect.any(String),
    url: expect.stringMatching(`^${service.sandbox.url}/authorization\\?`),
  })
  for (const again of [await accept(url), await openLink(url)]) {
    expect([again.statusCode, again.json().code]).toEqual([409, 'INVITATION_INVALID'])
  }
})

test('of two browsers that accept an invitation at the same time one succeeds', async () => {
  const { url } = await invite('pair')
  const responses = await Promise.all([accept(url), accept(url)])
  expect(responses.map(({ statusCode }) => statusCode).sort()).toEqual([200, 409])
})

test('opening a link changes nothing, however often: a preview does not use up the invitation', async () => {
  const { url } = await invite('previewed')
  const rows = async () => [
    await service.database.db.selectFrom('invitations').selectAll().orderBy('id').execute(),
    await service.database.db.selectFrom('oauth_states').selectAll().execute(),
  ]
  const before = await rows()
  for (const headers of [
    {},
    { accept: 'text/html' },
    { accept: '*/*', 'user-agent': 'WhatsApp/2' },
  ]) {
    const page = await openLink(url, headers)
    expect(page.statusCode).toBe(200)
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8')
    expect(page.headers['set-cookie']).toBeUndefined()
  }
  expect(await rows()).toEqual(before)
  expect((await finish(await accept(url), '610')).statusCode).toBe(200)
})

test('a link that is opened again after the connection answers OAUTH_ALREADY_CONNECTED', async () => {
  const { url } = await invite('again')
  await finish(await accept(url), '611')
  for (const ask of [openLink, accept]) {
    expect((await ask(url)).json().code).toBe('OAUTH_ALREADY_CONNECTED')
  }
})

test('a link of the earlier form redirects to the page and is not used up', async () => {
  const { token } = await invite('earlier')
  const moved = await login(service, 'earlier', { invitation: token })
  expect(moved.statusCode).toBe(302)
  expect(moved.headers.location).toBe(linkOf('earlier', token))
  expect((await accept(linkOf('earlier', token))).statusCode).toBe(200)
})

test.each([
  ['another site', { 'sec-fetch-site': 'cross-site' }],
  ['another port of this host', { 'sec-fetch-site': 'same-site' }],
  ['an address typed by hand', { 'sec-fetch-site': 'none' }],
  ['a page with a hidden origin', { 'sec-fetch-site': '', origin: 'null' }],
  ['another origin', { 'sec-fetch-site': '', origin: 'https://evil.example' }],
  ['a program without these headers', { 'sec-fetch-site': '' }],
])('the button is accepted from our own page only, not from %s', async (_name, headers) => {
  const { url } = await invite('pressed elsewhere')
  const given = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ''))
  const form = new URL(url).searchParams.toString()
  const refused = await service.app.inject({
    method: 'POST',
    url: '/oauth/invitation',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...given },
    payload: form,
  })
  expect([refused.statusCode, refused.json().code]).toEqual([400, 'BAD_REQUEST'])
  expect(refused.headers['set-cookie']).toBeUndefined()
  const own = await acceptInvitation(service, url, { origin: 'https://pay.example' })
  expect(own.statusCode).toBe(200)
})

test('an invitation ends after a day', async () => {
  const soon = await invite('soon')
  const late = await invite('late')
  service.clock.advance(24 * hourMs - 5000)
  expect((await accept(soon.url)).statusCode).toBe(200)
  service.clock.advance(6000)
  for (const response of [await openLink(late.url), await accept(late.url)]) {
    expect(response.json().code).toBe('INVITATION_INVALID')
  }
})

test('an invitation for one client name is refused for another', async () => {
  const { token } = await invite('invited')
  for (const ask of [openLink, accept]) {
    expect((await ask(linkOf('uninvited', token))).json().code).toBe('INVITATION_INVALID')
  }
  // The refused attempt did not use it up.
  expect((await accept(linkOf('invited', token))).statusCode).toBe(200)
})

test('a forged, cut or altered invitation is 409, and the answer does not show which check failed', async () => {
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
    for (const ask of [openLink, accept]) {
      const response = await ask(linkOf('target', invitation))
      expect(response.statusCode, invitation).toBe(409)
      const { request_id: _id, ...body } = response.json()
      bodies.add(JSON.stringify(body))
    }
  }
  expect(bodies.size).toBe(1)
  expect((await accept(linkOf('target', token))).statusCode).toBe(200)
})

test('the stored row of an invitation does not contain its token', async () => {
  const { token } = await invite('stored')
  const rows = await service.database.db.selectFrom('invitations').selectAll().execute()
  const secret = token.split('.')[2] ?? 'none'
  expect(secret).toMatch(/^[\w-]{86}$/)
  expect(JSON.stringify(rows)).not.toContain(secret)
})

test('no invitation is made for a client that has a key; it connects again without one', async () => {
  await finish(await accept((await invite('grown')).url), '601')
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
  const response = await asAdmin(service, { url: '/admin/activity?client=audited' })
  expect(response.json().logs).toMatchObject([{ action: 'invitation.created', status: 'success' }])
  expect(response.body).not.toContain('invitation=')
})

test('under https the login sets a __Host- cookie in the browser', async () => {
  const begun = await accept((await invite('browser')).url)
  const cookie = String(begun.headers['set-cookie'])
  expect(cookie).toMatch(/^__Host-tillbridge-login=[\w-]{43}; /)
  for (const attribute of ['Path=/', 'Secure', 'HttpOnly', 'SameSite=Lax', 'Max-Age=600']) {
    expect(cookie).toContain(attribute)
  }
  expect(cookie).not.toMatch(/domain=/i)
  const [pair = ''] = cookie.split(';')
  const back = await consent(begun.json().url, { account: '602' })
  const response = await call(service, { url: back, headers: { cookie: `other=1; ${pair}` } })
  expect(response.statusCode).toBe(200)
})

test('T12: under https a return without the cookie is 400: a consent link sent to a victim connects no account', async () => {
  const begun = await accept((await invite('trap')).url)
  const back = await consent(begun.json().url, { account: '666' })
  for (const headers of [{}, { cookie: 'other=1' }] as Record<string, string>[]) {
    const response = await call(service, { url: back, headers })
    expect([response.statusCode, response.json().code]).toEqual([400, 'OAUTH_STATE_INVALID'])
  }
  const info = await asAdmin(service, { url: '/admin/clients/trap' })
  expect(info.statusCode).toBe(404)
  // A refusal by the victim, or by anybody else, does not use up the login either.
  expect(
    (await call(service, { url: back.replace(/code=[^&]+/, 'error=access_denied') })).statusCode,
  ).toBe(400)
  const right = await call(service, { url: back, headers: { cookie: cookieOf(begun) } })
  expect(right.statusCode).toBe(200)
})

test('a return in another browser with its own login is 400, and the right browser still succeeds', async () => {
  const mine = await login(service, 'victim', {}, { token: adminToken })
  const theirs = await login(service, 'attacker', {}, { token: adminToken })
  const back = await consent(mine.headers.location, { account: '603' })
  for (const cookie of [cookieOf(theirs), '__Host-tillbridge-login=', `${cookieOf(mine)}x`]) {
    const response = await call(service, { url: back, headers: { cookie } })
    expect(response.statusCode, cookie).toBe(400)
    expect(response.json().code).toBe('OAUTH_STATE_INVALID')
  }
  const right = await call(service, { url: back, headers: { cookie: cookieOf(mine) } })
  expect(right.statusCode).toBe(200)
})

test('T11: the answer that creates a key names the connected account, so a wrong one is visible', async () => {
  // An attacker got an invitation by mistake; the answer that creates the key shows his account.
  await finish(await accept((await invite('shop')).url), '666')
  const created = await asAdmin(service, { url: '/api-keys', body: { client: 'shop' } })
  expect(created.json()).toMatchObject({ mp_user_id: 666, nickname: 'TESTUSER666' })
})

test('open invitations are listed without their links; a revoked or used one is not listed and is refused', async () => {
  const list = async () => {
    const response = await asAdmin(service, { url: '/admin/invitations' })
    expect(response.statusCode).toBe(200)
    const { invitations } = response.json()
    return invitations.filter((one: { client: string }) => one.client.startsWith('listed'))
  }
  const first = await invite('listed one')
  service.clock.advance(1000)
  const second = await invite('listed two')
  const [two, one, ...rest] = await list()
  expect([two, one, rest]).toMatchObject([
    { client: 'listed two', expires_at: second.expiresAt },
    { client: 'listed one' },
    [],
  ])
  expect(JSON.stringify([one, two])).not.toContain(first.token.split('.')[1])

  const revoke = (id: string) =>
    asAdmin(service, { method: 'DELETE', url: `/admin/invitations/${id}` })
  expect((await revoke(one.id)).statusCode).toBe(200)
  for (const ask of [openLink, accept]) {
    expect((await ask(first.url)).json().code).toBe('INVITATION_INVALID')
  }
  const again = await revoke(one.id)
  expect([again.statusCode, again.json().code]).toEqual([404, 'NOT_FOUND'])
  expect((await revoke('no-id')).statusCode).toBe(422)
  const { logs } = (
    await asAdmin(service, { url: '/admin/activity?action=invitation.revoked&client=listed+one' })
  ).json()
  expect(logs).toMatchObject([{ status: 'success', resource_id: one.id }])

  expect((await accept(second.url)).statusCode).toBe(200)
  expect(await list()).toEqual([])
  expect((await revoke(two.id)).statusCode).toBe(404)
  await invite('listed late')
  service.clock.advance(25 * hourMs)
  expect(await list()).toEqual([])
})
