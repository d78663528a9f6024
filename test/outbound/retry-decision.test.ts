import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  type AttemptFailure,
  decideRetry,
  defaultRetryPolicy,
  type RetryQuestion,
} from '../../src/outbound/retry-decision.ts'
import { parseRetryAfter } from '../../src/outbound/send-attempt.ts'

const keyedWrite: RetryQuestion = {
  method: 'POST',
  hasIdempotencyKey: true,
  status: 500,
  failure: null,
  attempt: 1,
  maxAttempts: 3,
  retryAfterSeconds: null,
  remainingMs: Number.POSITIVE_INFINITY,
  minAttemptMs: 1_000,
  jitter: 1,
  policy: { baseMs: 200, floorMs: 100, ceilingMs: 5_000 },
}
const stop = { retry: false }
const wait = (waitMs: number) => ({ retry: true, waitMs })

test.each([
  ...[408, 423, 429, 500, 502, 503, 504].map((status) => [status, true] as const),
  ...[301, 304, 400, 401, 403, 404, 409, 412, 422, 425, 428].map(
    (status) => [status, false] as const,
  ),
])('status %i is repeated: %s', (status, retry) => {
  expect(decideRetry({ ...keyedWrite, status }).retry).toBe(retry)
  expect(
    decideRetry({ ...keyedWrite, method: 'GET', hasIdempotencyKey: false, status }).retry,
  ).toBe(retry)
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
])('failure %s is repeated: %s', (failure, retry) => {
  expect(decideRetry({ ...keyedWrite, status: null, failure }).retry).toBe(retry)
})

test.each(['POST', 'PUT', 'PATCH', 'DELETE'] as const)(
  '%s without an idempotency key is never repeated',
  (method) => {
    for (const ended of [
      { status: 500, failure: null },
      { status: 429, failure: null },
      { status: null, failure: 'connect' as const },
    ]) {
      expect(decideRetry({ ...keyedWrite, ...ended, method, hasIdempotencyKey: false })).toEqual(
        stop,
      )
    }
  },
)

test.each<[string, Partial<RetryQuestion>, { retry: boolean; waitMs?: number }]>([
  ['the first wait is the base', {}, wait(200)],
  ['waits double', { attempt: 2 }, wait(400)],
  ['jitter takes off up to half', { attempt: 2, jitter: 0 }, wait(200)],
  ['the floor holds', { policy: { baseMs: 20, floorMs: 100, ceilingMs: 5_000 } }, wait(100)],
  ['the ceiling holds', { attempt: 9, maxAttempts: 10 }, wait(5_000)],
  ['the last attempt is the last', { attempt: 3 }, stop],
  ['Retry-After is obeyed', { status: 429, retryAfterSeconds: 3 }, wait(3_000)],
  ['a short Retry-After does not shorten', { status: 429, retryAfterSeconds: 0 }, wait(200)],
  ['Retry-After at the ceiling is obeyed', { status: 429, retryAfterSeconds: 5 }, wait(5_000)],
  ['Retry-After above the ceiling ends the call', { status: 429, retryAfterSeconds: 6 }, stop],
  ['wait and attempt fit exactly', { remainingMs: 1_200 }, wait(200)],
  ['wait and attempt do not fit', { remainingMs: 1_199 }, stop],
  [
    'a Retry-After beyond the budget ends the call',
    { retryAfterSeconds: 3, remainingMs: 3_500 },
    stop,
  ],
])('%s', (_name, change, decision) => {
  expect(decideRetry({ ...keyedWrite, ...change })).toEqual(decision)
})

test('no wait is outside floor and ceiling or shorter than asked, and none overruns the budget', () => {
  fc.assert(
    fc.property(
      fc.record({
        attempt: fc.integer({ min: 1, max: 40 }),
        retryAfterSeconds: fc.option(fc.nat(20)),
        remainingMs: fc.nat(30_000),
        jitter: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
      (change) => {
        const question = { ...keyedWrite, maxAttempts: 50, policy: defaultRetryPolicy, ...change }
        const decision = decideRetry(question)
        if (!decision.retry) return
        expect(decision.waitMs).toBeGreaterThanOrEqual(defaultRetryPolicy.floorMs)
        expect(decision.waitMs).toBeLessThanOrEqual(defaultRetryPolicy.ceilingMs)
        expect(decision.waitMs).toBeGreaterThanOrEqual((change.retryAfterSeconds ?? 0) * 1000)
        expect(decision.waitMs + question.minAttemptMs).toBeLessThanOrEqual(change.remainingMs)
      },
    ),
  )
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
