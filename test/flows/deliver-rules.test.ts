import { expect, test } from 'vitest'
import {
  attemptDelivery,
  createBatchLimits,
  jobKey,
  type OpenDestination,
  type Waiting,
} from '../../src/flows/deliver/attempt.ts'
import { compileItemBody } from '../../src/flows/deliver/item-body.ts'
import { delayAfter } from '../../src/flows/deliver/retry-rules.ts'
import { createGate } from '../../src/flows/deliver/sending-gate.ts'
import { createUncountedAttempts } from '../../src/flows/deliver/uncounted-attempts.ts'
import type { SendPermit } from '../../src/outbound/outbound.ts'
import {
  type Answer,
  busy,
  down,
  flowOf,
  latch,
  memoryLog,
  permit,
  type Rules,
  receiver,
} from './deliver-support.ts'

function testClock() {
  const start = Date.parse('2026-11-21T03:00:00Z')
  let ms = 0
  return {
    now: () => new Date(start + ms),
    pass: (by: number) => {
      ms += by
    },
  }
}

test('retry pauses grow by the factor up to the longest, with jitter, never below the Retry-After', () => {
  const retry = { attempts: 9, initialMs: 1_000, factor: 3, maxMs: 20_000, jitter: 0.2 }
  const pauses = (random: number) =>
    [1, 2, 3, 4, 50].map((attempt) => delayAfter(attempt, { retry, random: () => random }))
  expect(pauses(0)).toEqual([1_000, 3_000, 9_000, 20_000, 20_000])
  expect(pauses(1)).toEqual([800, 2_400, 7_200, 16_000, 16_000])
  const withRetryAfter = (seconds: number) => delayAfter(1, { retry, random: () => 0 }, seconds)
  expect([0, 0.5, 7, 3_600, 604_800].map(withRetryAfter)).toEqual([
    1_000, 1_000, 7_000, 3_600_000, 3_600_000,
  ])
})

test('a breaker counts outages within its window only, and one probe at a time closes it', () => {
  const { now, pass } = testClock()
  const breaker = { failures: 3, percent: 50, withinMs: 10_000, openForMs: 5_000 }
  const gate = createGate({ breaker, rateLimit: undefined }, now)
  const begin = () => {
    const begun = gate.begin()
    if ('waitMs' in begun) throw new Error(`has to wait for ${begun.waitMs} ms`)
    return begun
  }
  begin().report('outage')
  begin().report('outage')
  pass(10_000)
  begin().report('outage')
  begin().report('answered')
  begin().report('unknown')
  begin().report('outage')
  expect(gate.admit()).toEqual({ starts: Number.POSITIVE_INFINITY, waitMs: 0 })
  const underWay = begin()
  begin().report('outage')
  expect(gate.admit()).toEqual({ starts: 0, waitMs: 1_000 })
  expect(gate.begin()).toEqual({ waitMs: 1_000 })
  pass(800)
  // Begun before it opened: neither a late success nor a late outage decides anything.
  underWay.report('answered')
  expect(gate.admit()).toEqual({ starts: 0, waitMs: 200 })
  pass(200)
  expect(gate.admit()).toEqual({ starts: 1, waitMs: 0 })
  const probe = begin()
  expect(gate.admit().starts).toBe(0)
  expect('waitMs' in gate.begin()).toBe(true)
  probe.report('outage')
  expect(gate.admit()).toEqual({ starts: 0, waitMs: 1_000 })
  pass(1_000)
  begin().report('unknown')
  expect(gate.admit().starts).toBe(1)
  begin().report('answered')
  expect(gate.admit().starts).toBe(Number.POSITIVE_INFINITY)
  // The count starts again.
  begin().report('outage')
  begin().report('outage')
  expect(gate.admit().waitMs).toBe(0)
})

test('the end of an outage is noticed after an eighth of its length, or a second, with openFor at most', () => {
  const breaker = { failures: 1, percent: 50, withinMs: 10_000, openForMs: 120_000 }
  const waitAfter = (outageMs: number) => {
    const { now, pass } = testClock()
    const gate = createGate({ breaker, rateLimit: undefined }, now)
    let passedMs = 0
    let probes = 0
    for (;;) {
      const begun = gate.begin()
      if ('waitMs' in begun) {
        pass(begun.waitMs)
        passedMs += begun.waitMs
        continue
      }
      if (passedMs >= outageMs) return { lateMs: passedMs - outageMs, probes }
      begun.report('outage')
      probes += 1
    }
  }
  expect(waitAfter(3_000).lateMs).toBeLessThanOrEqual(1_000)
  expect(waitAfter(60_000).lateMs).toBeLessThanOrEqual(7_500)
  const long = waitAfter(86_400_000)
  expect(long.lateMs).toBeLessThanOrEqual(120_000)
  expect(long.probes).toBeLessThan(800)
})

test('a rate limit holds for every period of its length', () => {
  const { now, pass } = testClock()
  const gate = createGate({ breaker: false, rateLimit: { max: 3, perMs: 1_000 } }, now)
  const starts: number[] = []
  for (let at = 0; at < 5_000; at += 50) {
    for (let tries = 0; tries < 2; tries++) if (!('waitMs' in gate.begin())) starts.push(at)
    pass(50)
  }
  for (const from of starts) {
    expect(starts.filter((at) => at >= from && at < from + 1_000).length).toBeLessThanOrEqual(3)
  }
  expect(starts).toHaveLength(15)
  // The last of them is 950 ms old.
  expect(gate.admit()).toEqual({ starts: 2, waitMs: 0 })
})

test('a Retry-After counts as a minute at most', () => {
  const { now, pass } = testClock()
  const gate = createGate({ breaker: false, rateLimit: undefined }, now)
  const begun = [gate.begin(), gate.begin(), gate.begin()]
  const retryAfters = [30_000, 10_000, 3_600_000]
  const reportOutage = () => {
    const [one, retryAfterMs] = [begun.shift(), retryAfters.shift()]
    if (one && 'report' in one && retryAfterMs)
      one.report('outage', { retryAfterMs, isForAll: true })
  }
  reportOutage()
  reportOutage()
  expect(gate.admit()).toEqual({ starts: 0, waitMs: 30_000 })
  reportOutage()
  expect(gate.begin()).toEqual({ waitMs: 60_000 })
  pass(60_000)
  expect(gate.admit()).toEqual({ starts: Number.POSITIVE_INFINITY, waitMs: 0 })
})

test('keys and names that only look alike stay different', () => {
  const one = {
    flow: 'a',
    destination: 'b',
    identity: 'i',
    pk: 'c',
    change: 12,
    hash: 'd',
    kind: 'upsert' as const,
  }
  const others = [
    { ...one, flow: 'a","b', destination: '' },
    { ...one, destination: 'bc', pk: '' },
    { ...one, pk: 'cd', hash: '' },
    { ...one, kind: 'delete' as const },
    { ...one, change: 1, hash: '2d' },
    { ...one, change: 13 },
    { ...one, identity: 'j' },
  ]
  expect(new Set([one, { ...one }, ...others].map(jobKey)).size).toBe(8)
  expect(jobKey(one)).toMatch(/^[0-9a-f]{64}$/)
})

const row: Waiting = {
  pk: 'a|b',
  version: 4,
  queued_at: new Date(),
  change_number: 9,
  kind: 'upsert',
  hash: 'h1:x',
  payload: { id: 'a' },
  state: 'waiting',
  attempts: 1,
  delivered_hash: null,
  delivered_digest: null,
  delivered_body: null,
  claim_exact: null,
  may_have_arrived: false,
  asked: null,
}

const tried = { version: 4, change: 'upsert', hash: 'h1:x' }
const digest = expect.stringMatching(/^[\w-]{22}$/)
const arrived = { kind: 'delivered', ...tried, attempts: 2, status: null, digest, body: undefined }

function targetOf(answer: Answer, rules: Rules = {}) {
  const flow = flowOf('unit', [rules])
  const [definition] = flow.destinations
  if (!definition) throw new Error('no destination')
  const web = receiver(answer)
  const target: OpenDestination = {
    flow: flow.name,
    keyName: flow.name,
    identity: 'i',
    keyFields: 2,
    definition,
    destination: web,
    body: compileItemBody(definition, { key: ['id', 'other'], deletes: false }),
    claims: undefined,
    deletes: false,
    gate: createGate(definition, () => new Date()),
    batchLimits: createBatchLimits(web),
    uncounted: createUncountedAttempts(),
  }
  const log = memoryLog()
  const attempt = async (
    signal = new AbortController().signal,
    owed: Waiting | undefined = row,
    given: SendPermit = permit,
  ) => {
    const [outcome] = await attemptDelivery(
      { now: () => new Date(), random: () => 0.5, log, overrunMs: 20 },
      target,
      [{ pk: 'a|b', row: owed }],
      signal,
      given,
    )
    if (!outcome) throw new Error('no outcome')
    return outcome
  }
  return { attempt, log, web, target }
}

test('a row that is done or removed needs no action', async () => {
  const { attempt, web } = targetOf(async () => ({ ok: true }))
  const { signal } = new AbortController()
  expect(await attempt(signal, { ...row, state: 'done', payload: null })).toEqual({
    kind: 'nothing',
  })
  expect(await attempt(signal, { ...row, state: 'failed' })).toEqual({ kind: 'nothing' })
  expect(web.calls).toEqual([])
  expect(await attempt()).toEqual(arrived)
  expect(web.calls).toMatchObject([{ key: ['a', 'b'], attempt: 2 }])
})

test('an attempt that the service aborts is not counted, and a success that still arrives is', async () => {
  const stop = new AbortController()
  const hold = latch()
  const failing = targetOf(async () => {
    await hold.opened
    return down
  })
  const arriving = targetOf(async () => {
    await hold.opened
    return { ok: true }
  })
  const outcomes = Promise.all([failing.attempt(stop.signal), arriving.attempt(stop.signal)])
  stop.abort()
  hold.open()
  expect(await outcomes).toEqual([
    {
      ...{ kind: 'postponed', version: 4, delayMs: 0, mayHaveArrived: true },
      begun: { body: undefined },
    },
    arrived,
  ])
})

test('without the lease nothing is sent and nothing is counted', async () => {
  const { attempt, web } = targetOf(async () => ({ ok: true }))
  const postponed = { kind: 'postponed', version: 4, delayMs: 0, mayHaveArrived: false }
  const { signal } = new AbortController()
  expect(await attempt(signal, row, async () => undefined)).toEqual(postponed)
  // The lease is lost between its check and the first byte, as during a connect.
  expect(await attempt(signal, row, async () => () => false)).toEqual(postponed)
  expect(web.calls).toEqual([])
})

test('an attempt that never ends is abandoned, and counts as a failure', async () => {
  const { attempt, log } = targetOf(() => new Promise(() => {}), {
    timeoutMs: 20,
    retry: { attempts: 5 },
  })
  expect(await attempt()).toEqual({
    kind: 'retry',
    ...tried,
    failure: { why: { code: 'NO_ANSWER', data: { seconds: 0.02 } }, status: null, attempts: 2 },
    delayMs: 20,
    begun: { body: undefined },
  })
  expect(log.lines).toMatchObject([{ level: 'error', fields: { pk: 'a|b' } }])
})

test('an answer after the timeout, but before the attempt is abandoned, counts', async () => {
  const { attempt } = targetOf(
    async (_, signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      return { ok: true }
    },
    { timeoutMs: 20 },
  )
  expect(await attempt()).toMatchObject({ kind: 'delivered' })
})

test('a reason is cut to what the database can store', async () => {
  const { attempt } = targetOf(async () => ({
    ...busy,
    why: { code: 'BATCH_SAID', data: { said: `\0${'é'.repeat(2_000)}` } },
  }))
  const outcome = await attempt()
  expect(outcome.kind).toBe('final')
  const why = outcome.kind === 'final' ? outcome.failure.why : undefined
  expect(why).toEqual({ code: 'BATCH_SAID', data: { said: expect.stringMatching(/^é{999}…$/) } })
})

test('when the rate limit is used up nothing is sent and no attempt is counted', async () => {
  const { attempt, web } = targetOf(async () => ({ ok: true }), {
    rateLimit: { max: 1, perMs: 60_000 },
  })
  await attempt()
  const second = await attempt()
  expect(second).toMatchObject({ kind: 'postponed', version: 4 })
  if (second.kind === 'postponed') expect(second.delayMs).toBeGreaterThan(50_000)
  expect(web.calls).toHaveLength(1)
})
