import { expect, test } from 'vitest'
import { AppError } from '../../src/errors/app-error.ts'
import { createFailureLimit } from '../../src/http/auth-failure-limit.ts'

/** A limit on a clock of its own; `try` gives the seconds to wait, or 0 for a try that is let through. */
function limitOf(perMinute: number, capacity?: number) {
  const clock = { ms: 1000 }
  const limit = createFailureLimit({
    perMinute,
    ...(capacity !== undefined && { capacity }),
    now: () => clock.ms,
  })
  return {
    clock,
    size: () => limit.size(),
    try(address: string): number {
      try {
        limit.count(address)
        return 0
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== 'RATE_LIMITED') throw error
        return error.extra.retryAfterSeconds ?? -1
      }
    },
    tries(address: string, times: number): number[] {
      return Array.from({ length: times }, () => this.try(address))
    },
  }
}

test('after the allowed tries a minute the caller waits until the minute is over', () => {
  const limit = limitOf(3)
  expect(limit.tries('192.0.2.1', 3)).toEqual([0, 0, 0])
  limit.clock.ms += 20_000
  expect(limit.try('192.0.2.1')).toBe(40)
  expect(limit.try('192.0.2.2')).toBe(0)
  limit.clock.ms += 40_000
  expect(limit.tries('192.0.2.1', 4)).toEqual([0, 0, 0, 60])
})

test('T7: an address over its limit stays blocked, however many other addresses call', () => {
  const limit = limitOf(60)
  limit.tries('192.0.2.1', 60)
  expect(limit.try('192.0.2.1')).toBeGreaterThan(0)
  for (let other = 0; other < 200_000; other += 1) {
    limit.try(`10.${other >> 16}.${(other >> 8) & 255}.${other & 255}`)
  }
  expect(limit.try('192.0.2.1')).toBeGreaterThan(0)
})

test('the number of stored addresses is limited, and the one with the fewest failures is removed first', () => {
  const limit = limitOf(4, 100)
  limit.tries('192.0.2.1', 4)
  limit.tries('192.0.2.2', 3)
  for (let other = 0; other < 1000; other += 1) limit.try(`10.0.${other >> 8}.${other & 255}`)
  expect(limit.size()).toBe(100)
  expect(limit.try('192.0.2.1')).toBeGreaterThan(0)
  // Its fourth try of this minute, and the fifth.
  expect(limit.tries('192.0.2.2', 2)).toEqual([0, 60])
})

test('when all stored addresses are over their limit, new ones wait and none is removed', () => {
  const limit = limitOf(2, 10)
  for (let one = 0; one < 10; one += 1) limit.tries(`192.0.2.${one}`, 2)
  limit.clock.ms += 30_000
  expect(limit.try('10.0.0.1')).toBe(30)
  for (let one = 0; one < 10; one += 1) expect(limit.try(`192.0.2.${one}`)).toBe(30)
  limit.clock.ms += 30_000
  expect(limit.try('10.0.0.1')).toBe(0)
  expect(limit.size()).toBe(1)
})

test('all addresses of one IPv6 /64 count as one, since one subscriber has them all', () => {
  const limit = limitOf(3)
  expect(
    ['2001:db8:1:2::1', '2001:db8:1:2:ffff::', '2001:0db8:0001:0002:1:2:3:4'].map(limit.try),
  ).toEqual([0, 0, 0])
  expect(limit.try('2001:db8:1:2::9')).toBe(60)
  expect(limit.try('2001:db8:1:3::1')).toBe(0)
  // An IPv4 address is the same one however the socket spells it, and has no neighbours.
  expect(['192.0.2.1', '::ffff:192.0.2.1', '::ffff:c000:201'].map(limit.try)).toEqual([0, 0, 0])
  expect(limit.try('192.0.2.1')).toBe(60)
  expect(limit.try('::ffff:192.0.2.2')).toBe(0)
})

test('a caller without a valid address counts, too', () => {
  const limit = limitOf(1)
  expect([limit.try(''), limit.try(''), limit.try('fe80::1%eth0'), limit.try('fe80::2')]).toEqual([
    0, 60, 0, 60,
  ])
})

test('many new addresses take little time each', () => {
  const limit = limitOf(60)
  const started = process.cpuUsage()
  for (let other = 0; other < 100_000; other += 1) {
    limit.try(`10.${other >> 16}.${(other >> 8) & 255}.${other & 255}`)
  }
  const { user, system } = process.cpuUsage(started)
  // 10 µs each would be slow; a scan of all that is remembered would take minutes. Processor time, since others work too.
  expect((user + system) / 1000).toBeLessThan(5_000)
})
