import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { createGate, type SendingGate } from '../../src/flows/deliver/sending-gate.ts'
import type { Reason } from '../../src/texts/reason.ts'

const statusReason = (status: number): Reason => ({ code: 'HTTP_STATUS', data: { status } })

/**
 * A working receiver with occasional 429 and 500 must not open the breaker, and one that is down must not cost
 * attempts.
 */
const breaker = { failures: 20, percent: 50, withinMs: 60_000, openForMs: 120_000 }

type Answer = 200 | 429 | 500 | 503
/** What a shop answers to its request number `count`, at this millisecond. */
type Shop = (atMs: number, count: number) => Answer

const atOnce = 8
const latencyMs = 20
/** The naive competitor: 8 requests at a time, whatever is answered. */
const bareLoopPerSecond = (atOnce * 1_000) / latencyMs

/** 3 % of 429 and 2 % of 500, spread without a pattern but the same in each run. */
const ordinary: Shop = (_, count) => {
  const [byte = 0] = createHash('md5').update(`shop ${count}`).digest()
  return byte < 0.03 * 256 ? 429 : byte < 0.05 * 256 ? 500 : 200
}

function testClock() {
  let ms = 0
  return {
    now: () => new Date(ms),
    pass: (by: number) => {
      ms += by
    },
  }
}

type Second = { sent: number; arrived: number; refused: number }

/** Sends to the shop through the gate, millisecond by millisecond; returns the result of each second. */
function feed(
  clock: ReturnType<typeof testClock>,
  gate: SendingGate,
  shop: Shop,
  seconds: number,
  retryAfterMs = 1_000,
): Second[] {
  const result: Second[] = []
  let underWay: { endsAt: number; answer: Answer; report: (answer: Answer) => void }[] = []
  let count = 0
  for (let second = 0; second < seconds; second += 1) {
    const sum = { sent: 0, arrived: 0, refused: 0 }
    for (let step = 0; step < 1_000; step += 1) {
      const at = clock.now().getTime()
      for (const one of underWay.filter(({ endsAt }) => endsAt <= at)) one.report(one.answer)
      underWay = underWay.filter(({ endsAt }) => endsAt > at)
      while (underWay.length < atOnce && gate.admit().starts > 0) {
        const begun = gate.begin()
        if ('waitMs' in begun) break
        const answer = shop(at, count)
        count += 1
        sum.sent += 1
        if (answer === 200) sum.arrived += 1
        if (answer === 429) sum.refused += 1
        underWay.push({
          endsAt: at + latencyMs,
          answer,
          report: (given) =>
            begun.report(
              given === 200 ? 'answered' : given === 429 ? 'throttled' : 'outage',
              given === 200
                ? {}
                : { cause: statusReason(given), ...(given === 429 && { retryAfterMs }) },
            ),
        })
      }
      clock.pass(1)
    }
    result.push(sum)
  }
  return result
}

const sum = (seconds: Second[], key: keyof Second) =>
  seconds.reduce((total, one) => total + one[key], 0)

test('a shop with occasional 429 and 500 gets at least 0.8 of the rate of a bare loop', {
  tags: ['long'],
}, () => {
  const clock = testClock()
  const gate = createGate({ breaker, rateLimit: undefined }, clock.now)
  const seconds = feed(clock, gate, ordinary, 120)
  expect(sum(seconds, 'arrived') / 120).toBeGreaterThan(0.8 * 0.95 * bareLoopPerSecond)
  expect(gate.status().state).not.toBe('open')
})

test('a shop that goes down after hours of success gets no more failures than the definition allows, and few probes', () => {
  const clock = testClock()
  const gate = createGate({ breaker, rateLimit: undefined }, clock.now)
  feed(clock, gate, () => 200, 60)
  const seconds = feed(clock, gate, () => 503, 60)
  const probes = 20
  expect(sum(seconds, 'sent')).toBeLessThanOrEqual(breaker.failures + atOnce + probes)
  expect(sum(seconds.slice(-20), 'sent')).toBeLessThanOrEqual(4)
  expect(gate.status()).toMatchObject({
    state: 'open',
    cause: { code: 'PROBE_FAILED', data: { last: statusReason(503) } },
  })
})

test.each([
  ['hangs, one at a time', 1, 30_000, {}],
  ['hangs', 4, 30_000, {}],
  ['may be asked ten times a minute', 4, 100, { rateLimit: { max: 10, perMs: 60_000 } }],
])(
  'a shop that %s opens the breaker, although its failures take longer than the window of the definition',
  (_what, together, tookMs, rules) => {
    const clock = testClock()
    const gate = createGate({ breaker, rateLimit: undefined, ...rules }, clock.now)
    let sent = 0
    while (gate.status().state !== 'open' && sent < 100) {
      const begun = Array.from({ length: together }, () => gate.begin())
      clock.pass(tookMs)
      for (const one of begun) {
        if ('waitMs' in one) continue
        sent += 1
        one.report('outage', { cause: { code: 'NO_ANSWER_AT_ALL' } })
      }
      clock.pass(500)
    }
    expect(sent).toBe(breaker.failures)
  },
)

test('a shop that answers 429 to everything opens the breaker like one that is down', () => {
  const clock = testClock()
  const gate = createGate({ breaker, rateLimit: undefined }, clock.now)
  const seconds = feed(clock, gate, () => 429, 120, 0)
  expect(gate.status()).toMatchObject({
    state: 'open',
    cause: { code: 'PROBE_FAILED', data: { last: statusReason(429) } },
  })
  expect(sum(seconds.slice(60), 'sent')).toBeLessThanOrEqual(8)
})

test('Retry-After holds for its item, or for all items when none succeeds', () => {
  const clock = testClock()
  const gate = createGate({ breaker, rateLimit: undefined }, clock.now)
  const answered = (
    report: Parameters<Extract<ReturnType<SendingGate['begin']>, { report: unknown }>['report']>,
  ) => {
    const begun = gate.begin()
    if ('waitMs' in begun) throw new Error(`has to wait for ${begun.waitMs} ms`)
    begun.report(...report)
  }
  for (let index = 0; index < 20; index += 1) answered(['answered'])
  answered(['throttled', { retryAfterMs: 30_000 }])
  expect(gate.admit().starts).toBeGreaterThan(0)
  // The Retry-After of the whole service counts.
  answered(['outage', { retryAfterMs: 3_000, isForAll: true, cause: statusReason(503) }])
  expect(gate.admit()).toEqual({ starts: 0, waitMs: 3_000 })
  expect(gate.status()).toMatchObject({
    state: 'silent',
    cause: statusReason(503),
    waitMs: 3_000,
  })
  clock.pass(3_000)
  const failing = createGate({ breaker, rateLimit: undefined }, clock.now)
  for (let index = 0; index < 3; index += 1) {
    const begun = failing.begin()
    if ('report' in begun)
      begun.report('throttled', { retryAfterMs: 30_000, cause: statusReason(429) })
  }
  expect(failing.admit()).toEqual({ starts: 0, waitMs: 30_000 })
})
