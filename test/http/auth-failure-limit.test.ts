import { afterEach, expect, test, vi } from 'vitest'
import { AppError } from '../../src/errors/app-error.ts'
import { authFailureLimit } from '../../src/http/auth-failure-limit.ts'
import { publicServer } from './sample-app.ts'

afterEach(() => {
  vi.useRealTimers()
})

/** A limit on a clock of its own; `try` gives the seconds to wait, or 0 for a try that is let through. */
async function limitOf(perMinute: number) {
  vi.useFakeTimers({ toFake: ['Date'] })
  const app = publicServer({ trustProxy: ['loopback'] })
  await app.register(authFailureLimit, { perMinute })
  app.get('/fail', async (request) => {
    await app.countTry(request)
    return {}
  })
  app.get('/pass', async () => ({}))
  await app.ready()
  const attempt = async (address: string): Promise<number> => {
    const headers = { 'x-forwarded-for': address }
    const answer = await app.inject({ url: '/fail', headers })
    if (answer.statusCode === 200) return 0
    expect(answer.json()).toMatchObject({ code: new AppError('RATE_LIMITED').code })
    return Number(answer.headers['retry-after'])
  }
  return {
    app,
    try: attempt,
    async tries(address: string, times: number): Promise<number[]> {
      const waits: number[] = []
      for (let time = 0; time < times; time += 1) waits.push(await attempt(address))
      return waits
    },
    wait: (ms: number) => vi.setSystemTime(Date.now() + ms),
  }
}

test('after the allowed tries a minute the caller waits until the minute is over', async () => {
  const limit = await limitOf(3)
  expect(await limit.tries('192.0.2.1', 3)).toEqual([0, 0, 0])
  limit.wait(20_000)
  expect(await limit.try('192.0.2.1')).toBe(40)
  expect(await limit.try('192.0.2.2')).toBe(0)
  limit.wait(40_000)
  expect(await limit.tries('192.0.2.1', 4)).toEqual([0, 0, 0, 60])
})

test('requests that do not fail are not counted', async () => {
  const limit = await limitOf(1)
  for (let time = 0; time < 5; time += 1) {
    const headers = { 'x-forwarded-for': '192.0.2.1' }
    expect((await limit.app.inject({ url: '/pass', headers })).statusCode).toBe(200)
  }
  expect(await limit.tries('192.0.2.1', 2)).toEqual([0, 60])
})

test('T7: an address over its limit stays blocked while many other addresses call', {
  tags: ['long'],
}, async () => {
  const limit = await limitOf(2)
  await limit.tries('192.0.2.1', 2)
  for (let other = 0; other < 6_000; other += 1) {
    await limit.try(`10.0.${other >> 8}.${other & 255}`)
  }
  expect(await limit.try('192.0.2.1')).toBeGreaterThan(0)
})

test('all addresses of one IPv6 /64 count as one, since one subscriber has them all', async () => {
  const limit = await limitOf(3)
  for (const one of ['2001:db8:1:2::1', '2001:db8:1:2:ffff::', '2001:0db8:0001:0002:1:2:3:4']) {
    expect(await limit.try(one)).toBe(0)
  }
  expect(await limit.try('2001:db8:1:2::9')).toBe(60)
  expect(await limit.try('2001:db8:1:3::1')).toBe(0)
  // An IPv4 address is the same one however the socket spells it, and has no neighbours.
  for (const one of ['192.0.2.1', '::ffff:192.0.2.1', '::ffff:c000:201']) {
    expect(await limit.try(one)).toBe(0)
  }
  expect(await limit.try('192.0.2.1')).toBe(60)
  expect(await limit.try('::ffff:192.0.2.2')).toBe(0)
})
