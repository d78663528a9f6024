import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  type AttemptFailure,
  decideRetry,
  defaultRetryPolicy,
  isPassingStatus,
  mayPass,
  type RetryPolicy,
  type RetryQuestion,
  waitToRepeat,
} from '../../src/outbound/retry.ts'
import { parseRetryAfter } from '../../src/outbound/retry-after.ts'

const policy: RetryPolicy = {
  maxAttempts: 3,
  firstMs: 200,
  shortestMs: 100,
  longestMs: 5_000,
  jitter: 0.5,
}
const question: RetryQuestion = {
  attempt: 1,
  retryAfterSeconds: null,
  remainingMs: Number.POSITIVE_INFINITY,
  minAttemptMs: 1_000,
  random: () => 0,
  policy,
}
const stop = { retry: false }
const wait = (waitMs: number) => ({ retry: true, waitMs })

test.each([
  ...[408, 423, 429, 500, 502, 503, 504].map((status) => [status, true] as const),
  ...[301, 304, 400, 401, 403, 404, 409, 412, 422, 425, 428].map(
    (status) => [status, false] as const,
  ),
])('status %i of the provider is repeated: %s', (status, retry) => {
  expect(mayPass(status, null)).toBe(retry)
})

test('a shop repeats an answer that it gives during another change, too', () => {
  const statuses = [400, 401, 404, 408, 409, 422, 423, 425, 429, 500, 503]
  expect(statuses.filter(isPassingStatus)).toEqual([408, 409, 423, 425, 429, 500, 503])
})

test.each<[AttemptFailure, boolean]>([
  ['connect', true],
  ['timeout', true],
  ['reset', true],
  ['torn', true],
  ['oversize', false],
  ['not_json', false],
  ['aborted', false],
  ['deadline', false],
  ['withheld', false],
])('failure %s is repeated: %s', (failure, retry) => {
  expect(mayPass(null, failure)).toBe(retry)
})

test.each<[string, Partial<RetryQuestion>, { retry: boolean; waitMs?: number }]>([
  ['the first wait is the base', {}, wait(200)],
  ['waits double', { attempt: 2 }, wait(400)],
  ['jitter takes off up to half', { attempt: 2, random: () => 1 }, wait(200)],
  ['the shortest wait holds', { policy: { ...policy, firstMs: 20 } }, wait(100)],
  ['the longest wait holds', { attempt: 9, policy: { ...policy, maxAttempts: 10 } }, wait(5_000)],
  ['the last attempt is the last', { attempt: 3 }, stop],
  ['Retry-After is obeyed', { retryAfterSeconds: 3 }, wait(3_000)],
  ['a short Retry-After does not shorten', { retryAfterSeconds: 0 }, wait(200)],
  ['Retry-After of the longest wait is obeyed', { retryAfterSeconds: 5 }, wait(5_000)],
  ['a longer Retry-After ends the call', { retryAfterSeconds: 6 }, stop],
  ['wait and attempt fit exactly', { remainingMs: 1_200 }, wait(200)],
  ['wait and attempt do not fit', { remainingMs: 1_199 }, stop],
  [
    'a Retry-After beyond the budget ends the call',
    { retryAfterSeconds: 3, remainingMs: 3_500 },
    stop,
  ],
])('%s', (_name, change, decision) => {
  expect(decideRetry({ ...question, ...change })).toEqual(decision)
})

test('no wait is outside floor and ceiling or shorter than asked, and none overruns the budget', () => {
  fc.assert(
    fc.property(
      fc.record({
        attempt: fc.integer({ min: 1, max: 40 }),
        retryAfterSeconds: fc.option(fc.nat(20)),
        remainingMs: fc.nat(30_000),
        chance: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
      ({ chance, ...change }) => {
        const policy = { ...defaultRetryPolicy, maxAttempts: 50 }
        const decision = decideRetry({ ...question, ...change, policy, random: () => chance })
        if (!decision.retry) return
        expect(decision.waitMs).toBeGreaterThanOrEqual(defaultRetryPolicy.shortestMs)
        expect(decision.waitMs).toBeLessThanOrEqual(defaultRetryPolicy.longestMs)
        expect(decision.waitMs).toBeGreaterThanOrEqual((change.retryAfterSeconds ?? 0) * 1000)
        expect(decision.waitMs + question.minAttemptMs).toBeLessThanOrEqual(change.remainingMs)
      },
    ),
  )
})

test('an attempt is repeated after its pause, until the last one', async () => {
  const waits: number[] = []
  const sleep = async (ms: number) => void waits.push(ms)
  const repeats = []
  for (const attempt of [1, 2, 3]) {
    repeats.push(await waitToRepeat(attempt, 1, { policy, random: () => 0, sleep }))
  }
  expect(repeats).toEqual([true, true, false])
  expect(waits).toEqual([1_000, 1_000])
})

const now = Date.parse('2026-11-20T14:00:00.000Z')

test.each([
  ['120', 120],
  ['0', 0],
  [' 7 ', 7],
  [['5', '9'], 5],
  ['Fri, 20 Nov 2026 14:00:30 GMT', 30],
  ['Friday, 20-Nov-26 14:00:30 GMT', 30],
  ['Fri, 20 Nov 2026 13:59:00 GMT', 0],
  [undefined, null],
  ['', null],
  ['-1', null],
  ['1.5', null],
  ['soon', null],
  ['12345678901', null],
  ['2026-11-20T14:00:30Z', null],
])('Retry-After %j is %j seconds', (header, seconds) => {
  expect(parseRetryAfter(header, now)).toBe(seconds)
})

test('a Retry-After date of a fraction of a second ahead is a whole second', () => {
  expect(parseRetryAfter('Fri, 20 Nov 2026 14:00:01 GMT', now + 100)).toBe(1)
})
