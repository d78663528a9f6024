import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Sandbox, startSandbox } from '../../sandbox/server.ts'
import {
  approve,
  authorizationPath,
  call,
  challenge,
  connect,
  createClock,
  exchange,
  redirectUri,
  startReceiver,
  startTestSandbox,
  token,
  verifier,
} from './support.ts'

let clock: ReturnType<typeof createClock>
let sandbox: Sandbox

beforeEach(async () => {
  clock = createClock()
  sandbox = await startTestSandbox({ now: clock.now })
})
afterEach(() => sandbox.close())

describe('authorization', () => {
  it('shows a page that lists the known sellers and sends the choice back to the service', async () => {
    const { userId } = await connect(sandbox)
    const path = authorizationPath(sandbox)
    const page = await call(sandbox, 'GET', path)
    expect(page.status).toBe(200)
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(page.body).toContain(`value="${userId}"`)
    expect(page.body).not.toContain('<script')
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const sent = await call(sandbox, 'POST', path, {
      headers: form,
      body: `user_id=${userId}&decision=approve`,
    })
    expect(sent.status).toBe(303)
    const back = new URL(sent.headers.get('location') ?? '')
    expect(back.origin + back.pathname).toBe(redirectUri)
    expect(back.searchParams.get('state')).toBe('state-1')
    const tokens = await exchange(sandbox, back.searchParams.get('code') ?? '')
    expect(tokens.body.user_id).toBe(userId)
    const fresh = await call(sandbox, 'POST', path, {
      headers: form,
      body: 'user_id=new&decision=approve',
    })
    const code = new URL(fresh.headers.get('location') ?? '').searchParams.get('code') ?? ''
    expect((await exchange(sandbox, code)).body.user_id).not.toBe(userId)
  })

  it('redirects a refusal with access_denied', async () => {
    const answer = await call(sandbox, 'GET', authorizationPath(sandbox), {
      headers: { 'x-sandbox-consent': 'deny' },
    })
    expect(answer.status).toBe(302)
    const back = new URL(answer.headers.get('location') ?? '')
    expect(back.searchParams.get('error')).toBe('access_denied')
    expect(back.searchParams.get('state')).toBe('state-1')
  })

  it.each([
    { client_id: 'unknown' },
    { response_type: 'token' },
    { redirect_uri: 'https://evil.example/oauth/callback' },
    { redirect_uri: null },
    { code_challenge: null },
    { code_challenge_method: null },
    { code_challenge: 'short' },
  ])('refuses %o on a page, without a redirect', async (change) => {
    const answer = await call(sandbox, 'GET', authorizationPath(sandbox, change), {
      headers: { 'x-sandbox-consent': 'approve' },
    })
    expect(answer.status).toBe(400)
    expect(answer.headers.get('location')).toBeNull()
  })

  it('takes a registered redirect address only when it is exactly equal', async () => {
    const strict = await startTestSandbox({ redirectUris: [redirectUri] })
    const headers = { 'x-sandbox-consent': 'approve' }
    const ask = (redirect_uri: string) =>
      call(strict, 'GET', authorizationPath(strict, { redirect_uri }), { headers })
    expect((await ask(redirectUri)).status).toBe(302)
    expect((await ask(`${redirectUri}/`)).status).toBe(400)
    expect((await ask(`${redirectUri}?x=1`)).status).toBe(400)
    await strict.close()
  })

  it('does not take a consent that another site sends', async () => {
    const answer = await call(sandbox, 'POST', authorizationPath(sandbox), {
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        origin: 'https://evil.example',
      },
      body: 'user_id=new&decision=approve',
    })
    expect(answer.status).toBe(403)
  })
})

describe('tokens', () => {
  it('gives the same account to every header-approved connection', async () => {
    const first = await connect(sandbox)
    expect((await connect(sandbox)).userId).toBe(first.userId)
    expect((await connect(sandbox, 5001)).userId).toBe(5001)
  })

  it('answers the documented token', async () => {
    const { status, body } = await exchange(sandbox, await approve(sandbox))
    expect(status).toBe(200)
    expect(body.access_token).toMatch(
      new RegExp(`^APP_USR-${sandbox.info.client_id}-112014-[0-9a-f]{32}-${body.user_id}$`),
    )
    expect(body.refresh_token).toMatch(new RegExp(`^TG-[0-9a-f]{24}-${body.user_id}$`))
    expect(body).toMatchObject({
      token_type: 'Bearer',
      expires_in: 15_552_000,
      scope: 'offline_access read write',
      live_mode: false,
    })
  })

  it('exchanges a code once, within ten minutes, for the holder of the verifier', async () => {
    const code = await approve(sandbox)
    const wrong = await token(sandbox, {
      grant_type: 'authorization_code',
      code,
      redirect_uri: redirectUri,
      code_verifier: `${verifier}x`,
    })
    expect(wrong).toMatchObject({ status: 400, body: { error: 'invalid_grant', status: 400 } })
    expect((await exchange(sandbox, code)).status).toBe(200)
    expect((await exchange(sandbox, code)).body.error).toBe('invalid_grant')
    const late = await approve(sandbox)
    clock.advance(600_000)
    expect((await exchange(sandbox, late)).body.error).toBe('invalid_grant')
  })

  it('gives one of two racing exchanges a token', async () => {
    const code = await approve(sandbox)
    const answers = await Promise.all([exchange(sandbox, code), exchange(sandbox, code)])
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400])
  })

  it('rotates refresh tokens: the old one works once', async () => {
    const { refreshToken, userId } = await connect(sandbox)
    const renew = (refresh_token: string) =>
      token(sandbox, { grant_type: 'refresh_token', refresh_token })
    const second = await renew(refreshToken)
    expect(second.body).toMatchObject({ user_id: userId, expires_in: 15_552_000 })
    expect((await renew(refreshToken)).body).toMatchObject({ error: 'invalid_grant', cause: [] })
    expect((await renew(second.body.refresh_token)).status).toBe(200)
  })

  it('ends access tokens after 180 days', async () => {
    const { token: access } = await connect(sandbox)
    clock.advance(180 * 86_400_000 - 1)
    expect((await call(sandbox, 'GET', '/users/me', { token: access })).status).toBe(200)
    clock.advance(1)
    const answer = await call(sandbox, 'GET', '/users/me', { token: access })
    expect(answer).toMatchObject({ status: 401, body: { code: 'unauthorized' } })
  })

  it('gives the owner six hours for client credentials, without a refresh token', async () => {
    const { body } = await token(sandbox, { grant_type: 'client_credentials', test_token: true })
    expect(body.expires_in).toBe(21_600)
    expect(body).not.toHaveProperty('refresh_token')
    expect((await call(sandbox, 'GET', '/users/me', { token: body.access_token })).status).toBe(200)
  })

  it.each([
    [{ grant_type: 'password' }, 'unsupported_grant_type'],
    [{}, 'invalid_request'],
    [{ grant_type: 'refresh_token' }, 'invalid_request'],
    [{ grant_type: 'refresh_token', refresh_token: 'TG-unknown-1' }, 'invalid_grant'],
    [{ grant_type: 'client_credentials', extra: 'x' }, 'invalid_request'],
    [{ grant_type: 'client_credentials', client_secret: 'wrong' }, 'invalid_client'],
    [{ grant_type: 'client_credentials', client_id: 'wrong' }, 'invalid_client'],
    [{ grant_type: 'client_credentials', scope: 'root' }, 'invalid_scope'],
    [{ grant_type: 'client_credentials', test_token: 'maybe' }, 'invalid_request'],
  ])('answers %o with %s', async (fields, error) => {
    const answer = await token(sandbox, fields)
    expect(answer).toMatchObject({ status: 400, body: { error, status: 400 } })
  })

  it('requires the verifier', async () => {
    const answer = await token(sandbox, {
      grant_type: 'authorization_code',
      code: await approve(sandbox),
      redirect_uri: redirectUri,
    })
    expect(answer.body.message).toBe('code_verifier is a required parameter')
  })

  it('takes a form as well as JSON, and no parameter in the address', async () => {
    const form = new URLSearchParams({
      client_id: sandbox.info.client_id,
      client_secret: sandbox.info.client_secret,
      grant_type: 'authorization_code',
      code: await approve(sandbox),
      redirect_uri: redirectUri,
      code_verifier: verifier,
    })
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    const body = form.toString()
    const twice = await call(sandbox, 'POST', '/oauth/token', { headers, body: `${body}&code=x` })
    expect(twice.body.error).toBe('invalid_request')
    const query = await call(sandbox, 'POST', `/oauth/token?client_id=1`, { headers, body })
    expect(query.body.error).toBe('invalid_request')
    expect((await call(sandbox, 'POST', '/oauth/token', { headers, body })).status).toBe(200)
  })

  it('takes a plain challenge too', async () => {
    const answer = await call(
      sandbox,
      'GET',
      authorizationPath(sandbox, { code_challenge: verifier, code_challenge_method: 'plain' }),
      { headers: { 'x-sandbox-consent': 'approve' } },
    )
    const code = new URL(answer.headers.get('location') ?? '').searchParams.get('code') ?? ''
    expect((await exchange(sandbox, code)).status).toBe(200)
    expect(challenge).not.toBe(verifier)
  })
})

it('ends every token of a seller who revokes the permission, and sends a webhook', async () => {
  const receiver = await startReceiver()
  sandbox.setWebhookUrl(receiver.url)
  const { token: access, refreshToken, userId } = await connect(sandbox)
  const other = await connect(sandbox, 5001)
  await call(sandbox, 'POST', `/_sandbox/users/${userId}/revoke`)
  expect((await call(sandbox, 'GET', '/users/me', { token: access })).status).toBe(401)
  expect((await call(sandbox, 'GET', '/users/me', { token: other.token })).status).toBe(200)
  const renewed = await token(sandbox, { grant_type: 'refresh_token', refresh_token: refreshToken })
  expect(renewed.body.error).toBe('unauthorized_client')
  await receiver.until(1)
  expect(receiver.received[0]?.url.search).toBe(`?data.id=${userId}&type=mp-connect`)
  expect(receiver.received[0]?.body.action).toBe('application.deauthorized')
  expect(receiver.received[0]?.headers['x-signature']).toMatch(/^ts=\d{10},v1=[0-9a-f]{64}$/)
  const again = await connect(sandbox, userId)
  expect((await call(sandbox, 'GET', '/users/me', { token: again.token })).status).toBe(200)
  await receiver.close()
})

it('refuses to listen anywhere but on loopback', async () => {
  await expect(startSandbox({ port: 0, host: '0.0.0.0' })).rejects.toThrow('loopback')
  await expect(startSandbox({ port: 0, host: '192.168.1.2' })).rejects.toThrow('loopback')
})
