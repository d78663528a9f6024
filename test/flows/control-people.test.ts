import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import {
  by,
  codeAt,
  cookieOf,
  goodPassword,
  join,
  ownPage,
  signInAs,
  type TestPerson,
} from '../support/people.ts'
import { routesOf } from '../support/routes.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, createStore, enrol } from '../support/till.ts'

/** Passwords take 0.1 s of a processor each, which others keep busy. */
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let service: TestService
let flows: TestFlows
let people: Record<string, TestPerson>
beforeAll(async () => {
  service = await startTestService()
  const acme = await enrol(service, 'acme', '9300001')
  await createStore(service, acme, { id: 'SUC-OWN', boxes: ['CAJA-OWN'] })
  flows = await startTestFlows({
    service,
    env: {
      SYNC_TOKEN: 'sync-token-for-tests-0123456789abcdef',
      AUTH_FAILURES_PER_MINUTE: '100000',
    },
    streams: { longestMs: 1 },
  })
  const client = 'acme'
  people = {
    A: await join(service, { name: 'global', role: 'administrator' }),
    a: await join(service, { name: 'boss', role: 'administrator', client }),
    s: await join(service, { name: 'super', role: 'supervisor', client, stores: ['SUC-OWN'] }),
    v: await join(service, { name: 'viewer', role: 'viewer', client }),
    f: await join(service, { name: 'flows', role: 'flow_operator' }),
    w: await join(service, { name: 'watch', role: 'viewer' }),
  }
})
afterAll(async () => {
  await flows.stop()
  await service.stop()
})

const isPublic = (route: string) =>
  /^(GET|HEAD) \/($|\*$|admin|docs|guide|vendor|openapi\.json|health$)|^(GET|POST|DELETE) \/session$/.test(
    route,
  )

function ask(route: string, headers: Record<string, string>) {
  const [method = '', pattern = ''] = route.split(' ')
  return flows.app.inject({
    method: method as 'POST',
    url: pattern.replace(/:count/g, '1').replace(/:[A-Za-z]+/g, 'nothing'),
    headers,
    ...(method !== 'GET' && { payload: '{}' }),
  })
}

const isRead = (route: string) => /^(GET|HEAD) /.test(route)

test('T57: flow operators and administrators run flows, a viewer reads, and others do neither, on every route', {
  tags: ['long'],
}, async () => {
  const routes = routesOf(flows).filter((route) => !isPublic(route))
  expect(routes.length).toBeGreaterThan(30)
  expect(routes.filter((route) => !isRead(route)).length).toBeGreaterThan(15)
  for (const route of routes) {
    expect([route, (await ask(route, ownPage)).statusCode]).toEqual([route, 401])
    for (const [letter, { cookie }] of Object.entries(people)) {
      const { statusCode } = await ask(route, { cookie, ...ownPage })
      const isLetIn = letter === 'A' || letter === 'f' || (letter === 'w' && isRead(route))
      expect([route, letter, statusCode === 403 ? 403 : 'in']).toEqual([
        route,
        letter,
        isLetIn ? 'in' : 403,
      ])
      expect(statusCode).not.toBe(401)
    }
  }
})

test('wrong passwords and used codes count together over both listeners', async () => {
  const credentials = (name: string, more: object) => ({ name, password: goodPassword, ...more })
  const signIn = (payload: object) =>
    flows.app.inject({ method: 'POST', url: '/session', headers: ownPage, payload })
  await join(service, { name: 'twice', role: 'flow_operator' })
  for (let round = 0; round < 5; round += 1) {
    const wrong = credentials('twice', { password: 'canary-wrong' })
    const status = round % 2 === 0 ? (await signIn(wrong)).statusCode : undefined
    expect(status ?? (await signInAs(service, wrong)).statusCode).toBe(401)
  }
  const locked = await signIn(credentials('twice', {}))
  expect([locked.statusCode, Number(locked.headers['retry-after'])]).toEqual([
    429,
    expect.any(Number),
  ])
  const { cookie } = await join(service, { name: 'coded', role: 'flow_operator' })
  const account = (url: string, body: object) => by(service, { cookie }, { url, body })
  const { secret } = (await account('/account/totp', {})).json()
  const now = () => codeAt(secret, service.clock.now())
  expect((await account('/account/totp/confirm', { code: now() })).statusCode).toBe(200)
  service.clock.advance(30_000)
  expect((await signIn(credentials('coded', {}))).statusCode).toBe(401)
  const code = now()
  const begun = await signIn(credentials('coded', { code }))
  expect([begun.statusCode, begun.json().may]).toEqual([200, ['account', 'see_flows', 'run_flows']])
  expect((await signIn(credentials('coded', { code }))).statusCode).toBe(401)
  expect((await signInAs(service, credentials('coded', { code }))).statusCode).toBe(401)
})

test('the event stream of a revoked person ends', { tags: ['long'] }, async () => {
  const { id, cookie } = await join(service, { name: 'stream', role: 'viewer' })
  const side = await startTestFlows({ service, streams: { pollMs: 20, longestMs: 20_000 } })
  const url = await side.app.listen({ host: '127.0.0.1', port: 0 })
  const answer = await fetch(`${url}/flows/events`, { headers: { cookie, ...ownPage } })
  expect(answer.status).toBe(200)
  await asAdmin(service, { method: 'POST', url: `/people/${id}/revoke` })
  expect(await answer.text()).toMatch(/event: end\ndata: .*access/)
  await side.stop()
})

test('a person can sign in on this listener too, and the records of actions have the name', async () => {
  const signIn = (password: string, headers: Record<string, string> = {}) =>
    flows.app.inject({
      method: 'POST',
      url: '/session',
      headers: { ...ownPage, ...headers },
      payload: { name: 'flows', password },
    })
  const wrong = await signIn('canary-wrong')
  expect([wrong.statusCode, wrong.json()]).toEqual([
    401,
    { error: 'Name, password or code are wrong' },
  ])
  expect((await signIn(goodPassword, { 'sec-fetch-site': 'cross-site' })).statusCode).toBe(403)
  const begun = await signIn(goodPassword)
  expect(begun.json()).toMatchObject({
    valid: true,
    person: { name: 'flows', role: 'flow_operator' },
  })
  const cookie = cookieOf(begun)
  expect((await ask('POST /flows/pause', { cookie, ...ownPage })).statusCode).toBe(200)
  // From another page the session counts for nothing.
  for (const site of ['cross-site', 'same-site', 'none']) {
    const { statusCode } = await ask('POST /flows/pause', {
      cookie,
      ...ownPage,
      'sec-fetch-site': site,
    })
    expect([site, statusCode]).toEqual([site, 401])
  }
  await ask('DELETE /session', { cookie, ...ownPage })
  expect((await ask('POST /flows/pause', { cookie, ...ownPage })).statusCode).toBe(401)
  const id = people.f?.id
  await asAdmin(service, { method: 'POST', url: `/people/${id}/revoke` })
  const headers = { cookie: people.f?.cookie ?? '', ...ownPage }
  expect((await ask('GET /stats', headers)).statusCode).toBe(401)
})

test('T55: a browser has one session over both listeners: a token opens nothing here, and its session ends with a sign-in or sign-out here', async () => {
  const ask = (method: 'POST' | 'DELETE', cookie: string, payload?: object) =>
    flows.app.inject({
      method,
      url: '/session',
      headers: { cookie, ...ownPage },
      ...(payload && { payload }),
    })
  await join(service, { name: 'both', role: 'flow_operator' })
  const isOpen = async (cookie: string) =>
    (await by(service, { cookie }, { url: '/session' })).json().valid
  for (const leave of ['sign in', 'sign out']) {
    const signedIn = await call(service, { url: '/session', body: { token: adminToken } })
    const cookie = cookieOf(signedIn)
    const here = await flows.app.inject({ url: '/session', headers: { cookie, ...ownPage } })
    expect(here.json()).toMatchObject({ valid: false, person: null })
    const stats = await flows.app.inject({ url: '/stats', headers: { cookie, ...ownPage } })
    expect(stats.statusCode).toBe(401)
    expect(await isOpen(cookie)).toBe(true)

    const wrong = await ask('POST', cookie, { name: 'both', password: 'canary-wrong' })
    expect([wrong.statusCode, wrong.headers['set-cookie']]).toEqual([401, undefined])
    expect(await isOpen(cookie)).toBe(true)
    const left = await (leave === 'sign in'
      ? ask('POST', cookie, { name: 'both', password: goodPassword })
      : ask('DELETE', cookie))
    expect(left.statusCode).toBe(200)
    expect(await isOpen(cookie)).toBe(false)
    expect(cookieOf(left).split('=')[0]).toBe(cookie.split('=')[0])
    // The person has her own rights on the other listener, not those of the session before.
    if (leave === 'sign in') {
      const next = { cookie: cookieOf(left) }
      expect(await isOpen(next.cookie)).toBe(true)
      expect((await by(service, next, { url: '/admin/clients' })).statusCode).toBe(403)
    }
  }
})
