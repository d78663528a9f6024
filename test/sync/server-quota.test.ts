import { expect, test } from 'vitest'
import { createGate } from '../../src/sync/deliver/gate.ts'
import { readServerBudget } from '../../src/sync/destinations/rate-limit-headers.ts'

/** A receiver that says how many requests it takes is sent no more, and not much less. */
const nowMs = Date.parse('2026-11-21T14:30:00Z')

test.each([
  [
    { 'x-rate-limit-limit': '40', 'x-rate-limit-remaining': '39', 'x-rate-limit-reset': '500' },
    { limit: 40, remaining: 39, resetMs: 500 },
  ],
  [
    { 'x-ratelimit-limit': '100', 'x-ratelimit-remaining': '7', 'x-ratelimit-reset': '30' },
    { limit: 100, remaining: 7, resetMs: 30_000 },
  ],
  [
    { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(nowMs / 1_000 + 12) },
    { remaining: 0, resetMs: 12_000 },
  ],
  [
    { 'ratelimit-limit': '100, 100;w=60', 'ratelimit-remaining': '3', 'ratelimit-reset': '8' },
    { limit: 100, remaining: 3, resetMs: 8_000 },
  ],
  [
    {
      ratelimit: '"hour";r=900;t=3000, "default";r=5;t=30',
      'ratelimit-policy': '"hour";q=1000;w=3600, "default";q=100;w=60',
    },
    { limit: 100, remaining: 5, resetMs: 30_000 },
  ],
  [{ 'x-shopify-shop-api-call-limit': '32/40' }, { limit: 40, remaining: 8 }],
  [{ 'x-ratelimit-remaining': 'many' }, undefined],
  [{}, undefined],
])('%j', (headers, budget) => {
  expect(readServerBudget(headers as Record<string, string>, nowMs)).toEqual(budget)
})

type Told = { status: 200 | 429; remaining: number; limit: number; resetMs: number }
type Shop = (atMs: number) => Told

/** A bucket that holds `size` requests and leaks `perSecond`, as Tiendanube documents it. */
function leaking(size: number, perSecond: number): Shop {
  let level = 0
  let at = 0
  return (atMs) => {
    level = Math.max(0, level - ((atMs - at) * perSecond) / 1_000)
    at = atMs
    const status = level + 1 > size ? 429 : 200
    if (status === 200) level += 1
    const remaining = Math.floor(size - level)
    return { status, remaining, limit: size, resetMs: Math.ceil((level / perSecond) * 1_000) }
  }
}

/** So many requests in each window, wherever that begins. */
function windowed(size: number, windowMs: number): Shop {
  let taken = 0
  let ends = 0
  return (atMs) => {
    if (atMs >= ends) {
      ends = (Math.floor(atMs / windowMs) + 1) * windowMs
      taken = 0
    }
    taken += 1
    const remaining = Math.max(0, size - taken)
    return { status: taken > size ? 429 : 200, remaining, limit: size, resetMs: ends - atMs }
  }
}

/** Sends through gates that share a pace, millisecond by millisecond, until so many requests arrived. */
function feed(
  shop: Shop,
  requests: number,
  { atOnce = 4, latencyMs = 30, others = 0, lookedFor = 0 } = {},
) {
  let ms = 7
  const gate = createGate(
    { type: 'http', breaker: false, rateLimit: undefined },
    () => new Date(ms),
  )
  let underWay: { endsAt: number; end: () => void }[] = []
  let arrived = 0
  let refused = 0
  while (arrived < requests && ms < 10_000_000) {
    for (const one of underWay.filter(({ endsAt }) => endsAt <= ms)) one.end()
    underWay = underWay.filter(({ endsAt }) => endsAt > ms)
    // Somebody else asks the same shop.
    if (others > 0 && ms % others === 0) shop(ms)
    while (underWay.length < atOnce && gate.admit().starts > 0) {
      const begun = gate.begin()
      if ('waitMs' in begun) break
      // The first items are looked for before they are sent.
      const isLookedFor = arrived < lookedFor && shop(ms).status === 200
      if (isLookedFor) arrived += 1
      const { status, ...told } = shop(ms)
      if (status === 200) arrived += 1
      else refused += 1
      const budget = { ...told, ...(isLookedFor && { requests: 2 }) }
      const end = () => begun.report(status === 200 ? 'answered' : 'throttled', { budget })
      underWay.push({ endsAt: ms + latencyMs, end })
    }
    ms += 1
  }
  return { ms, refused, arrived }
}

/** Sends all that a shop takes; each request and each answer takes a while of its own, and an attempt makes one request or more. */
function overtake(
  shop: Shop,
  { atOnce, seed, requests }: { atOnce: number; seed: number; requests: number },
) {
  let drawn = seed
  const whileMs = () => {
    drawn = (drawn * 1_103_515_245 + 12_345) % 2 ** 31
    return 1 + ((drawn >> 8) % 40)
  }
  let ms = 0
  const gate = createGate(
    { type: 'http', breaker: false, rateLimit: undefined },
    () => new Date(ms),
  )
  const due: { atMs: number; act: () => void }[] = []
  let underWay = 0
  const counted = { arrived: 0, refused: 0 }
  for (; ms < 2_000; ms += 1) {
    while (underWay < atOnce && gate.admit().starts > 0) {
      const begun = gate.begin()
      if ('waitMs' in begun) break
      underWay += 1
      let made = 0
      const arrive = () => {
        made += 1
        const { status, ...told } = shop(ms)
        counted[status === 200 ? 'arrived' : 'refused'] += 1
        const hear = () => {
          if (made < requests && status === 200) {
            due.push({ atMs: ms + whileMs(), act: arrive })
            return
          }
          underWay -= 1
          const budget = { ...told, requests: made }
          begun.report(status === 200 ? 'answered' : 'throttled', { budget })
        }
        due.push({ atMs: ms + whileMs(), act: hear })
      }
      due.push({ atMs: ms + whileMs(), act: arrive })
    }
    const now = due.filter(({ atMs }) => atMs === ms)
    for (const { act } of now) act()
  }
  return counted
}

test('500 requests to a bucket of 40 that leaks 2 a second: none is refused, and it takes what the bucket allows and a tenth', () => {
  const { ms, refused } = feed(leaking(40, 2), 500)
  expect(refused).toBe(0)
  expect(ms).toBeLessThan(((500 - 40) / 2) * 1_000 * 1.1)
})

test.each([1, 4, 16])(
  '2 requests a second, %i at a time: none is refused, and a tenth more time at most',
  (atOnce) => {
    for (const shop of [leaking(2, 2), windowed(2, 1_000), windowed(120, 60_000)]) {
      const { ms, refused } = feed(shop, 360, { atOnce })
      expect(refused).toBe(0)
      expect(ms).toBeLessThan((360 / 2) * 1_000 * 1.1)
    }
  },
)

test.each([2, 3])(
  'once nothing is looked for any more, all %i requests that a shop takes in a second are used again',
  (size) => {
    const { ms, refused } = feed(windowed(size, 1_000), 600, { lookedFor: 40 })
    expect(refused).toBe(0)
    expect(ms).toBeLessThan((600 / size) * 1_000 * 1.1)
  },
)

test('what others take of the budget is not taken twice', () => {
  const { refused, arrived } = feed(leaking(40, 2), 200, { others: 1_000 })
  expect(arrived).toBe(200)
  expect(refused).toBeLessThan(20)
})

test.each([
  { atOnce: 2, requests: 1 },
  { atOnce: 4, requests: 1 },
  { atOnce: 2, requests: 2 },
  { atOnce: 4, requests: 2 },
  { atOnce: 4, requests: 3 },
])(
  '$atOnce attempts of $requests requests that overtake each other on the way: none is one too many, and all are used',
  (how) => {
    const size = 4 * how.requests
    const sent = Array.from({ length: 300 }, (_, seed) =>
      overtake(windowed(size, 60_000), { ...how, seed }),
    )
    expect(Math.max(...sent.map(({ refused }) => refused))).toBe(0)
    expect(Math.min(...sent.map(({ arrived }) => arrived))).toBe(size)
  },
)

test.each([4, 12])(
  '%i attempts that overtake each other on the way to a bucket: none is one too many, window after window',
  (atOnce) => {
    const sent = Array.from({ length: 100 }, (_, seed) =>
      overtake(leaking(10, 20), { atOnce, seed, requests: 1 }),
    )
    expect(Math.max(...sent.map(({ refused }) => refused))).toBe(0)
    // 10 at once, and 20 in each of the two seconds, but for a bucket that is not empty yet at their end.
    expect(Math.min(...sent.map(({ arrived }) => arrived))).toBeGreaterThanOrEqual(35)
  },
)

test.each(['unknown', 'outage'] as const)(
  'a first request without an answer (%s) tells nothing: the next goes alone too',
  (what) => {
    const gate = createGate(
      { type: 'http', breaker: false, rateLimit: undefined },
      () => new Date(nowMs),
    )
    const first = gate.begin()
    if ('waitMs' in first) throw new Error('the first may start')
    first.report(what)
    expect(gate.admit().starts).toBe(1)
    const second = gate.begin()
    if ('waitMs' in second) throw new Error('the second may start')
    expect(gate.admit().starts).toBe(0)
    second.report('answered', { budget: { limit: 8, remaining: 5, resetMs: 1_500 } })
    expect(gate.admit().starts).toBe(5)
  },
)

test('one that was begun in a window and arrived in the next is not given back there', () => {
  let ms = 0
  const gate = createGate(
    { type: 'http', breaker: false, rateLimit: undefined },
    () => new Date(ms),
  )
  const begin = () => {
    const begun = gate.begin()
    if ('waitMs' in begun) throw new Error('one may start')
    return (remaining: number) =>
      begun.report('answered', { budget: { limit: 8, remaining, resetMs: 1_000 } })
  }
  begin()(7)
  const slow = begin()
  // Others have taken the rest.
  begin()(0)
  expect(gate.admit().starts).toBe(0)
  ms = 1_000
  expect(gate.admit().starts).toBe(7)
  slow(7)
  expect(gate.admit().starts).toBe(7)
})

test('what was told before another process sent counts no more, nor what is told of that time later', () => {
  const gate = createGate(
    { type: 'http', breaker: false, rateLimit: undefined },
    () => new Date(nowMs),
  )
  const begin = () => {
    const begun = gate.begin()
    if ('waitMs' in begun) throw new Error('one may start')
    return (remaining: number) =>
      begun.report('answered', { budget: { remaining, limit: 8, resetMs: 1_000 } })
  }
  const term = {}
  begin()(7)
  const late = begin()
  gate.takeOver(term)
  expect(gate.admit().starts).toBe(0)
  late(6)
  expect(gate.admit().starts).toBe(1)
  begin()(2)
  gate.takeOver(term)
  expect(gate.admit().starts).toBe(2)
})

test('what holds it back shows, with the end of it', () => {
  let ms = 0
  const gate = createGate(
    { type: 'http', breaker: false, rateLimit: undefined },
    () => new Date(ms),
  )
  const begun = gate.begin()
  if ('waitMs' in begun) throw new Error('the first may start')
  // Until it is answered nobody knows what is left.
  expect(gate.admit().starts).toBe(0)
  begun.report('answered', { budget: { limit: 2, remaining: 0, resetMs: 700 } })
  expect(gate.admit()).toEqual({ starts: 0, waitMs: 700 })
  expect(gate.status()).toMatchObject({
    state: 'slowed',
    cause: expect.stringContaining('of 2 it still takes'),
  })
  ms = 700
  expect(gate.admit().starts).toBe(2)
})
