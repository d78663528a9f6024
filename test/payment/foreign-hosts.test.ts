import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { goodPassword, join, ownPage } from '../support/people.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, type Call, call, enrol } from '../support/till.ts'

/**
 * A foreign host name that leads to this service (DNS rebinding, or a proxy that forwards everything) starts no sign-in and no
 * connection. Requests with a key and those of monitoring are answered under any host name.
 */

let service: TestService
let proxied: TestService
let flows: TestFlows
let key = ''
beforeAll(async () => {
  const publicUrl = 'http://pay.example.com'
  service = await startTestService({ publicUrl, env: { SIGN_IN_HOSTS: 'tills.vpn.example' } })
  proxied = await startTestService({ twinOf: service, publicUrl, env: { TRUST_PROXY: 'loopback' } })
  const env = { SYNC_TOKEN: 's'.repeat(32), SIGN_IN_HOSTS: 'tills.vpn.example' }
  flows = await startTestFlows({ service, env })
  key = (await enrol(service, 'acme')).key
  await join(service, { name: 'ana', role: 'administrator' })
  await join(service, { name: 'pedro', role: 'flow_operator' })
})
afterAll(async () => {
  await flows.stop()
  await proxied.stop()
  await service.stop()
})

const foreign = 'evil.example:3000'
const credentials = { name: 'ana', password: goodPassword }
const browser = { ...ownPage, accept: 'text/html' }

/** The requests that start a sign-in or a connection. */
const starts: Record<string, Call> = {
  'sign in with a token': { url: '/session', body: { token: adminToken } },
  'sign in with a name': { url: '/session', headers: ownPage, body: credentials },
  'accept an invitation of a person': {
    url: '/account/invitation',
    headers: ownPage,
    body: { code: 'x'.repeat(43), password: goodPassword },
  },
  'connect a shop': { url: '/oauth/login?client=acme' },
  'open an invitation of a shop': { url: '/oauth/invitation?client=acme&invitation=x' },
  'accept an invitation of a shop': {
    url: '/oauth/invitation',
    headers: ownPage,
    body: { client: 'acme', invitation: 'x' },
  },
}

describe.each(Object.entries(starts))('%s', (_what, request) => {
  const under = (host: string, one: TestService = service, more: Record<string, string> = {}) =>
    call(one, { ...request, headers: { ...request.headers, host, ...more } })

  test('T60: a request that starts a sign-in is refused under a foreign host name, and sets no cookie', async () => {
    const answer = await under(foreign)
    expect([answer.statusCode, answer.json()]).toEqual([
      421,
      {
        error: expect.stringContaining('http://pay.example.com'),
        code: 'UNKNOWN_HOST',
        request_id: expect.any(String),
      },
    ])
    expect(answer.headers['set-cookie']).toBe(undefined)
    expect(answer.headers.location).toBe(undefined)
  })

  test('the request is answered under the host names of the service and of private networks', async () => {
    for (const host of ['pay.example.com', 'tills.vpn.example', '192.168.0.10:3000']) {
      expect([host, (await under(host)).statusCode]).not.toEqual([host, 421])
    }
  })

  test('behind a proxy the host name of the browser counts, and only a trusted proxy may set it', async () => {
    const upstream = 'backend.cloud.example'
    const known = { 'x-forwarded-host': 'pay.example.com' }
    expect((await under(upstream, proxied, known)).statusCode).not.toBe(421)
    expect((await under(upstream, service, known)).statusCode).toBe(421)
    const forged = { 'x-forwarded-host': 'evil.example' }
    expect((await under('127.0.0.1:3000', proxied, forged)).statusCode).toBe(421)
  })
})

test('a browser gets a page that names the right address', async () => {
  const headers = { ...browser, host: foreign, 'accept-language': 'es' }
  const answer = await call(service, { url: '/oauth/login?client=acme', headers })
  expect([answer.statusCode, answer.headers['content-type']]).toEqual([
    421,
    'text/html; charset=utf-8',
  ])
  expect(answer.body).toContain('Esta dirección no es la del servicio')
})

test('requests with a key, the admin token or of monitoring are answered under any host name', async () => {
  const headers = { host: foreign }
  const answers = [
    await call(service, { url: '/health', headers }),
    await call(service, { url: '/stores', token: key, headers }),
    await call(service, { url: '/oauth/validate', token: key, headers }),
    await call(service, { url: '/oauth/status', token: key, headers }),
    await asAdmin(service, { url: '/admin/clients', headers }),
    await asAdmin(service, { url: '/oauth/login?client=fresh&redirect=false', headers }),
    await call(service, { url: '/session', headers }),
    await flows.call('GET', '/health', { headers }),
    await flows.call('GET', '/stats', { headers: { ...headers, 'x-api-token': 's'.repeat(32) } }),
  ]
  for (const { statusCode, body } of answers) expect([statusCode, body]).toEqual([200, body])
})

test('the callback of a login and webhooks are answered under any host name', async () => {
  const headers = { host: foreign }
  const back = await call(service, { url: '/oauth/callback?state=x&code=y', headers })
  expect([back.statusCode, back.json().code]).toEqual([400, 'OAUTH_STATE_INVALID'])
  const hook = { method: 'POST', url: '/webhooks?data.id=1&type=order', headers, body: {} } as const
  expect((await call(service, hook)).statusCode).toBe(401)
})

test('the control API starts no session under a foreign host name', async () => {
  const signIn = (host: string) =>
    flows.call('POST', '/session', {
      headers: { host, ...ownPage },
      body: { ...credentials, name: 'pedro' },
    })
  const answer = await signIn(foreign)
  expect([answer.statusCode, answer.json().error]).toEqual([
    421,
    expect.stringContaining('SIGN_IN_HOSTS'),
  ])
  expect(answer.headers['set-cookie']).toBe(undefined)
  for (const host of ['127.0.0.1:8080', 'pay.example.com', 'tills.vpn.example']) {
    expect([host, (await signIn(host)).statusCode]).toEqual([host, 200])
  }
})
