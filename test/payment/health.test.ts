import { afterAll, beforeAll, expect, test } from 'vitest'
import { buildInfo } from '../../src/http/build-info.ts'
import { openTestDatabase } from '../support/database.ts'
import { clearFaults, setFaults } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, enrol } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

const plain = { status: 'ok', timestamp: expect.any(String), mode: 'sandbox' }

test('T52: without the admin token /health shows status and mode of the service, and nothing else', async () => {
  const { key } = await enrol(service, 'acme', '1801')
  for (const token of [undefined, key, 'not-a-token', `mk_${'0'.repeat(64)}`]) {
    const answer = await call(service, { url: '/health', ...(token && { token }) })
    expect(answer.statusCode).toBe(200)
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(answer.json()).toEqual(plain)
    expect(Date.parse(answer.json().timestamp)).toBeCloseTo(service.clock.now().getTime(), -4)
  }
})

test('the administrator also gets version, commit and checks', async () => {
  expect((await asAdmin(service, { url: '/health' })).json()).toEqual({
    ...plain,
    version: buildInfo.version,
    commit: await buildInfo.commit(),
    // This service runs without flows.
    flows_page: null,
    sandbox_url: service.sandbox.url,
    checks: {
      database: {
        status: expect.stringMatching(/^(ok|degraded)$/),
        engine: service.database.engine,
        warnings: await service.database.settingWarnings(),
      },
      writes: { status: 'ok' },
      provider: {
        status: expect.stringMatching(/^(ok|unknown)$/),
        last_answer_at: expect.toSatisfy((at) => at === null || !Number.isNaN(Date.parse(at))),
        last_failure_at: null,
      },
      provider_clock: {
        status: expect.stringMatching(/^(ok|unknown)$/),
        ahead_seconds: expect.toSatisfy((seconds) => seconds === null || seconds === 0),
      },
      waiting_tills: 0,
    },
  })
})

test('T52: guesses of a token at /health are limited; the right token and requests without one are answered', async () => {
  const limited = await startTestService({
    database: service.database,
    env: { AUTH_FAILURES_PER_MINUTE: '3' },
  })
  const health = (token?: string) => call(limited, { url: '/health', ...(token && { token }) })
  const statuses: number[] = []
  for (let tries = 0; tries < 5; tries += 1) {
    statuses.push((await health(`guess-${tries}`)).statusCode)
  }
  expect(statuses).toEqual([200, 200, 200, 429, 429])
  expect((await health()).json()).toEqual(plain)
  expect((await asAdmin(limited, { url: '/health' })).json()).toHaveProperty('version')
  await limited.stop()
})

test('database settings that may lose data are a degraded check, and the status stays 200', async () => {
  const degraded = await startTestService({
    database: {
      ...service.database,
      settingWarnings: async () => ['fsync is off'],
    },
  })
  const answer = await asAdmin(degraded, { url: '/health' })
  expect(answer.statusCode).toBe(200)
  expect(answer.json().checks.database).toMatchObject({
    status: 'degraded',
    warnings: ['fsync is off'],
  })
  await degraded.stop()
})

test('a failure of the provider is a degraded check until it answers again, and the status stays 200', {
  tags: ['long'],
}, async () => {
  const own = await startTestService({ database: service.database })
  const provider = async () => (await asAdmin(own, { url: '/health' })).json().checks.provider
  expect(await provider()).toEqual({
    status: 'unknown',
    last_answer_at: null,
    last_failure_at: null,
  })

  const till = await enrol(own, 'other', '1802')
  const ask = () => call(own, { url: '/terminals', token: till.key })
  await ask()
  expect(await provider()).toMatchObject({ status: 'ok', last_failure_at: null })
  for (const kind of ['500', 'drop_before']) {
    own.clock.advance(1000)
    await setFaults(own, { path: '/terminals', kind })
    await ask()
    const failed = await provider()
    expect(failed.status, kind).toBe('degraded')
    expect(Date.parse(failed.last_failure_at)).toBeGreaterThan(Date.parse(failed.last_answer_at))
    expect((await call(own, { url: '/health' })).statusCode).toBe(200)
    await clearFaults(own)
    own.clock.advance(1000)
    // A refusal counts as an answer.
    await setFaults(own, { path: '/terminals', kind: 'status', status: 403, count: 1 })
    await ask()
    expect((await provider()).status, kind).toBe('ok')
  }
  await own.stop()
})

test('without the database /health and routes that need it are 503, a charge with its retry_safe', {
  tags: ['long'],
}, async () => {
  const database = await openTestDatabase()
  const cut = await startTestService({ database })
  const till = await enrol(cut, 'acme', '1803')
  await database.close()
  const health = await call(cut, { url: '/health' })
  expect([health.statusCode, health.json().code]).toEqual([503, 'SERVICE_UNAVAILABLE'])
  expect(Object.keys(health.json()).toSorted()).toEqual(['code', 'error', 'request_id'])
  expect((await asAdmin(cut, { url: '/health' })).json()).not.toHaveProperty('checks')

  const refused = await call(cut, { url: '/stores', token: till.key })
  expect([refused.statusCode, refused.json().code]).toEqual([503, 'SERVICE_UNAVAILABLE'])
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
  const charge = await call(cut, {
    url: '/orders',
    token: till.key,
    body: { caja_id: 'C', external_reference: 'T', amount: '1,00' },
  })
  expect(charge.statusCode).toBe(503)
  // Nothing is sent to the provider before its intent is committed.
  expect(charge.json()).toMatchObject({ code: 'SERVICE_UNAVAILABLE', retry_safe: true })
  expect(cut.sandbox.ledger().orders).toEqual([])
  // A route without the database still answers.
  expect((await call(cut, { url: '/openapi.json' })).statusCode).toBe(200)
  await cut.stop()
})
