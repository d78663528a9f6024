import { afterAll, beforeAll, expect, test } from 'vitest'
import { consent, login, returnOf } from '../support/oauth.ts'
import { rounds } from '../support/rounds.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, changeAccount, connect, enrol, sandboxCall } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService({ env: { AUTH_FAILURES_PER_MINUTE: '100000' } })
})
afterAll(() => service.stop())

const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

async function connectionOf(client: string) {
  return service.database.db
    .selectFrom('oauth_connections')
    .selectAll()
    .where('client', '=', client as never)
    .executeTakeFirst()
}

async function nothingStored(client: string): Promise<void> {
  expect(await connectionOf(client)).toBeUndefined()
  const known = await asAdmin(service, { url: `/admin/clients/${client}` })
  expect(known.statusCode).toBe(404)
}

async function activityOf(client: string) {
  const answer = await asAdmin(service, { url: `/admin/activity?client=${client}` })
  return answer.json().logs as { action: string; status: string; error_message: string | null }[]
}

async function tokenCalls(): Promise<object[]> {
  const { requests } = (await sandboxCall(service, 'GET', '/_sandbox/requests')) as {
    requests: { path: string; headers: object; query: string; body: object }[]
  }
  return requests.filter(({ path }) => path === '/oauth/token')
}

test('the callback exchanges the code once and stores the connection with its account', async () => {
  await sandboxCall(service, 'DELETE', '/_sandbox/requests')
  const back = await returnOf(service, 'acme', '401')
  const answer = await call(service, { url: back })
  expect(answer.statusCode).toBe(200)
  expect(answer.json()).toEqual({ message: 'The account is connected', client: 'acme' })
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(await connectionOf('acme')).toMatchObject({ mp_user_id: 401, status: 'connected' })
  expect(await activityOf('acme')).toMatchObject([
    { action: 'oauth.connected', status: 'success', metadata: { mp_user_id: 401 } },
  ])
  expect(await tokenCalls()).toMatchObject([
    {
      query: '',
      body: {
        client_id: service.sandbox.info.client_id,
        grant_type: 'authorization_code',
        redirect_uri: 'http://127.0.0.1:3000/oauth/callback',
      },
    },
  ])
})

test('the same return a second time is 400', async () => {
  const back = await returnOf(service, 'twice', '402')
  expect((await call(service, { url: back })).statusCode).toBe(200)
  const again = await call(service, { url: back })
  expect(again.statusCode).toBe(400)
  expect(again.json().code).toBe('OAUTH_STATE_INVALID')
})

test('T12: of two returns at the same time exactly one connects, in every round', {
  tags: ['long'],
}, async () => {
  for (let round = 0; round < rounds(25); round++) {
    const client = `race-${round}`
    const back = await returnOf(service, client, String(4000 + round))
    const answers = await Promise.all([0, 1].map(() => call(service, { url: back })))
    expect(answers.map(({ statusCode }) => statusCode).sort()).toEqual([200, 400])
    expect(await activityOf(client)).toHaveLength(1)
  }
})

test('an unknown, missing or cut state is 400 and calls no provider', async () => {
  await sandboxCall(service, 'DELETE', '/_sandbox/requests')
  const back = new URL(await returnOf(service, 'guessed', '403'), 'http://x')
  const state = back.searchParams.get('state') ?? ''
  for (const wrong of [undefined, 'unknown', state.slice(1), `${state}x`, state.toUpperCase()]) {
    const query = new URLSearchParams({
      code: 'TG-1',
      ...(wrong !== undefined && { state: wrong }),
    })
    const answer = await call(service, { url: `/oauth/callback?${query}` })
    expect(answer.statusCode).toBe(400)
    expect(answer.json().code).toBe('OAUTH_STATE_INVALID')
  }
  expect(await tokenCalls()).toEqual([])
  // A guess does not use up the real state.
  expect((await call(service, { url: `${back.pathname}${back.search}` })).statusCode).toBe(200)
})

test('the state of one client’s login connects no other client', async () => {
  const [first, second] = [
    await returnOf(service, 'one', '404'),
    await returnOf(service, 'two', '405'),
  ]
  const mixed = new URL(first, 'http://x')
  const other = new URL(second, 'http://x')
  // The code of the second login with the state of the first: the verifier does not match.
  mixed.searchParams.set('code', other.searchParams.get('code') ?? '')
  const answer = await call(service, { url: `${mixed.pathname}${mixed.search}` })
  expect(answer.json().code).toBe('OAUTH_DENIED')
  await nothingStored('one')
})

test('T12: a login is valid for ten minutes and no longer', async () => {
  const late = await returnOf(service, 'late', '406')
  service.clock.advance(601_000)
  expect((await call(service, { url: late })).json().code).toBe('OAUTH_STATE_INVALID')
  await nothingStored('late')
  const intime = await login(service, 'intime')
  service.clock.advance(595_000)
  const back = await consent(intime.headers.location, { account: '407' })
  expect((await call(service, { url: back })).statusCode).toBe(200)
})

test('T15: a return whose iss names another server is 400 and does not use up the state; ours or none is accepted', async () => {
  for (const [client, iss, status] of [
    ['mixed-1', 'https://evil.example', 400],
    ['mixed-2', `${service.sandbox.url}.evil.example`, 400],
    ['mixed-3', 'not an address', 400],
    ['mixed-4', '', 400],
    ['mixed-5', service.sandbox.url, 200],
    ['mixed-6', `${service.sandbox.url}/`, 200],
  ] as const) {
    const back = await returnOf(service, client, '414')
    const answer = await call(service, { url: `${back}&${new URLSearchParams({ iss })}` })
    expect(answer.statusCode, iss).toBe(status)
    if (status === 200) continue
    expect(answer.json().code).toBe('OAUTH_STATE_INVALID')
    await nothingStored(client)
    expect((await call(service, { url: back })).statusCode).toBe(200)
  }
})

test('a seller who refuses gives 400, stores nothing and uses up the state', async () => {
  const begun = await login(service, 'shy')
  const back = await consent(begun.headers.location, { account: '408', consent: 'deny' })
  expect(back).toContain('error=access_denied')
  const answer = await call(service, { url: back })
  expect(answer.statusCode).toBe(400)
  expect(answer.json().code).toBe('OAUTH_DENIED')
  expect(answer.body).not.toContain('denied the request')
  await nothingStored('shy')
  expect((await call(service, { url: back })).json().code).toBe('OAUTH_STATE_INVALID')
})

test('a wrong code is 400, stores nothing, is audited and uses up the state', async () => {
  const back = new URL(await returnOf(service, 'forged', '409'), 'http://x')
  back.searchParams.set('code', 'TG-0123456789abcdef-409')
  const url = `${back.pathname}${back.search}`
  const answer = await call(service, { url })
  expect(answer.statusCode).toBe(400)
  expect(answer.json().code).toBe('OAUTH_DENIED')
  await nothingStored('forged')
  expect(await activityOf('forged')).toMatchObject(
    [{ action: 'oauth.connected', status: 'failed', error_message: /^OAUTH_DENIED/ }].map(
      ({ error_message, ...entry }) => ({
        ...entry,
        error_message: expect.stringMatching(error_message),
      }),
    ),
  )
  expect((await call(service, { url })).json().code).toBe('OAUTH_STATE_INVALID')
})

test('a return without code or error is 422 and does not use up the state', async () => {
  const back = new URL(await returnOf(service, 'halfway', '410'), 'http://x')
  const state = back.searchParams.get('state')
  const answer = await call(service, { url: `/oauth/callback?state=${state}` })
  expect(answer.statusCode).toBe(422)
  expect(answer.json().details).toMatchObject([{ path: 'code' }])
  expect((await call(service, { url: `${back.pathname}${back.search}` })).statusCode).toBe(200)
})

test('a provider that fails gives 502 or 504, and nothing is stored', async () => {
  for (const [client, kind, status] of [
    ['unlucky-1', '500', 502],
    ['unlucky-2', 'drop_after', 504],
  ] as const) {
    const back = await returnOf(service, client, '411')
    await sandboxCall(service, 'PUT', '/_sandbox/faults', [
      { path: '/oauth/token', kind, count: 1 },
    ])
    const answer = await call(service, { url: back })
    await sandboxCall(service, 'DELETE', '/_sandbox/faults')
    expect(answer.statusCode, answer.body).toBe(status)
    await nothingStored(client)
  }
})

test('a browser gets a page instead of JSON, without markup from the request', async () => {
  const back = await returnOf(service, '<script>alert(1)</script>', '412')
  const page = await call(service, { url: back, headers: html })
  expect(page.statusCode).toBe(200)
  expect(page.headers['content-type']).toBe('text/html; charset=utf-8')
  expect(page.headers['content-security-policy']).toContain("default-src 'none'")
  expect(page.body).toContain('La cuenta quedó conectada')
  expect(page.body).toContain('<bdi>&#60;script&#62;alert(1)&#60;/script&#62;</bdi>')
  expect(page.body).not.toContain('<script')
  const failed = await call(service, { url: back, headers: html })
  expect(failed.statusCode).toBe(400)
  expect(failed.headers['content-type']).toBe('text/html; charset=utf-8')
  expect(failed.body).toContain('Este intento de conexión ya no vale')
  const json = await call(service, { url: back, headers: { accept: 'application/json' } })
  expect(json.headers['content-type']).toMatch(/^application\/json/)
})

test('no answer of a callback and no log line contains code or state', async () => {
  const back = await returnOf(service, 'discreet', '413')
  const { searchParams } = new URL(back, 'http://x')
  const secrets = [searchParams.get('code') ?? '', searchParams.get('state') ?? '']
  const answers = [
    await call(service, { url: back }),
    await call(service, { url: back }),
    await call(service, { url: back, headers: html }),
  ]
  for (const { body, headers } of answers) {
    for (const secret of secrets) expect(body + JSON.stringify(headers)).not.toContain(secret)
  }
  const log = service.logLines.join('\n')
  for (const secret of secrets) expect(log).not.toContain(secret)
})

test('another account is 409 until the administrator unpins the first', async () => {
  const till = await enrol(service, 'pinned', '420')
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  const foreign = await connect(service, 'pinned', '421')
  expect(foreign.statusCode).toBe(409)
  const { request_id, ...body } = foreign.json()
  expect(body.code).toBe('ACCOUNT_MISMATCH')
  expect(JSON.stringify(body)).not.toContain('420')
  expect(await connectionOf('pinned')).toBeUndefined()

  const unpin = await asAdmin(service, { method: 'POST', url: '/admin/clients/pinned/unpin' })
  expect(unpin.json()).toMatchObject({ client: 'pinned', mp_user_id: 420 })
  const begun = await login(service, 'pinned', {}, { token: adminToken })
  const back = await consent(begun.headers.location, { account: '421' })
  expect((await call(service, { url: back })).statusCode).toBe(200)
  expect(await connectionOf('pinned')).toMatchObject({ mp_user_id: 421 })
  expect((await activityOf('pinned')).map(({ action, status }) => `${action} ${status}`)).toEqual([
    'oauth.connected success',
    'api_key.revoked success',
    'client.unpinned success',
    'oauth.connected failed',
    'oauth.logout success',
    'api_key.created success',
    'oauth.connected success',
  ])
})

test('two first connections of one client at the same time pin one account', async () => {
  const [mine, theirs] = [
    await returnOf(service, 'contested', '430'),
    await returnOf(service, 'contested', '431'),
  ]
  const answers = await Promise.all([mine, theirs].map((url) => call(service, { url })))
  expect(answers.map(({ statusCode }) => statusCode).sort()).toEqual([200, 409])
  const info = (await asAdmin(service, { url: '/admin/clients/contested' })).json()
  expect(info.pinned_mp_user_id).toBe(info.oauth.mp_user_id)
})

test('the nickname of an account that is read after the client has changed its account is not that of the new one', async () => {
  const { users } = service.deps.provider
  const { me } = users
  users.me = async (...args) => {
    users.me = me
    const read = await me(...args)
    await changeAccount(service, { client: 'renamed', key: '', mpUserId: 440 }, '441')
    return read
  }
  expect((await connect(service, 'renamed', '440')).statusCode).toBe(200)
  const created = await asAdmin(service, { url: '/api-keys', body: { client: 'renamed' } })
  expect(created.json()).toMatchObject({ mp_user_id: 441, nickname: 'TESTUSER441' })
})
