import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, type Call, call, enrol } from '../support/till.ts'

let service: TestService
const keys: Record<'one' | 'two' | 'three', string> = { one: '', two: '', three: '' }
beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] })
  service = await startTestService({
    env: {
      RATE_LIMIT_PER_SECOND: '5',
      AUTH_FAILURES_PER_MINUTE: '4',
      TRUST_PROXY: 'loopback',
    },
  })
  for (const [index, name] of (['one', 'two', 'three'] as const).entries()) {
    later(60_000)
    keys[name] = (await enrol(service, name, `19${index}`)).key
  }
})
afterAll(async () => {
  vi.useRealTimers()
  await service.stop()
})

/** The limits use windows of the machine's clocks, which the test advances. */
const later = (ms: number) => void vi.advanceTimersByTime(ms)

async function statuses(count: number, request: Call): Promise<number[]> {
  const seen: number[] = []
  for (let sent = 0; sent < count; sent += 1) seen.push((await call(service, request)).statusCode)
  return seen
}

const read = (key: string): Call => ({ url: '/oauth/status', token: key })

test('a key above its requests a second gets 429 with Retry-After, and is answered in the next second', async () => {
  later(60_000)
  expect(await statuses(7, read(keys.one))).toEqual([200, 200, 200, 200, 200, 429, 429])
  const answer = await call(service, read(keys.one))
  expect(answer.headers['retry-after']).toBe('1')
  expect(answer.json()).toEqual({
    error: expect.any(String),
    code: 'RATE_LIMITED',
    request_id: expect.any(String),
  })
  later(1_001)
  expect(await statuses(6, read(keys.one))).toEqual([200, 200, 200, 200, 200, 429])
})

test('a busy key limits neither another key nor the administrator nor /health', async () => {
  later(60_000)
  await statuses(6, read(keys.one))
  expect(await statuses(5, read(keys.two))).toEqual(Array(5).fill(200))
  expect((await asAdmin(service, { url: '/api-keys' })).statusCode).toBe(200)
  expect(await statuses(7, { url: '/health', token: keys.one })).toEqual(Array(7).fill(200))
})

test('the limit counts all routes of a key, before a body is parsed', async () => {
  later(60_000)
  await statuses(5, read(keys.one))
  const charge = await call(service, {
    url: '/orders',
    token: keys.one,
    headers: { 'content-type': 'application/json' },
    body: '{"broken',
  })
  expect(charge.statusCode).toBe(429)
  // A client may simply send it again.
  expect(charge.json()).toMatchObject({
    code: 'RATE_LIMITED',
    outcome: 'unknown',
    retry_safe: true,
  })
})

test('two keys of one client are counted separately', async () => {
  later(60_000)
  const made = await asAdmin(service, { url: '/api-keys', body: { client: 'three' } })
  await statuses(6, read(keys.three))
  expect(await statuses(5, read(made.json().key))).toEqual(Array(5).fill(200))
})

const from = (address: string, request: Call): Call => ({
  ...request,
  headers: { ...request.headers, 'x-forwarded-for': address },
})

test('T7, T9: an address has a limit of failed attempts a minute over all routes, then 429 with Retry-After', async () => {
  later(60_000)
  const at = (request: Call) => call(service, from('192.0.2.1', request))
  const tries: Call[] = [
    { url: '/stores' },
    { url: '/api-keys', token: 'not-a-token' },
    { url: '/oauth/validate', token: `mk_${'0'.repeat(64)}` },
    { url: '/orders', token: keys.one.toUpperCase(), body: {} },
  ]
  const seen: number[] = []
  for (const request of tries) seen.push((await at(request)).statusCode)
  expect(seen).toEqual([401, 401, 200, 401])
  for (const request of tries) {
    const answer = await at(request)
    expect([answer.statusCode, answer.json().code], request.url).toEqual([429, 'RATE_LIMITED'])
    const seconds = Number(answer.headers['retry-after'])
    expect(seconds).toBeGreaterThan(0)
    expect(seconds).toBeLessThanOrEqual(60)
  }
  // A login counts as an attempt, because anybody may begin one.
  expect((await at({ url: '/oauth/login?client=new' })).statusCode).toBe(429)
})

test('a valid key works from an address that has exceeded its failed attempts', async () => {
  later(60_000)
  const at = (request: Call) => call(service, from('192.0.2.2', request))
  for (let tries = 0; tries < 6; tries += 1) await at({ url: '/stores' })
  expect((await at({ url: '/stores' })).statusCode).toBe(429)
  expect((await at(read(keys.two))).statusCode).toBe(200)
  expect((await at({ url: '/oauth/validate', token: keys.two })).json().valid).toBe(true)
  expect((await call(service, from('192.0.2.3', { url: '/stores' }))).statusCode).toBe(401)
  later(60_001)
  expect((await at({ url: '/stores' })).statusCode).toBe(401)
})

test('addresses of one IPv6 /64 count as one', async () => {
  later(60_000)
  const seen: number[] = []
  for (let host = 1; host <= 6; host += 1) {
    seen.push((await call(service, from(`2001:db8:7:7::${host}`, { url: '/stores' }))).statusCode)
  }
  expect(seen).toEqual([401, 401, 401, 401, 429, 429])
  expect((await call(service, from('2001:db8:7:8::1', { url: '/stores' }))).statusCode).toBe(401)
})

test('an address over its limit stays limited while thousands of others fail', {
  tags: ['long'],
}, async () => {
  later(60_000)
  const guess = () => call(service, from('192.0.2.4', { url: '/stores' }))
  for (let tries = 0; tries < 5; tries += 1) await guess()
  for (let other = 0; other < 5_100; other += 1) {
    await call(service, from(`10.0.${other >> 8}.${other & 255}`, { url: '/stores' }))
  }
  expect((await guess()).statusCode).toBe(429)
})
