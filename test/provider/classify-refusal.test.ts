import { expect, test } from 'vitest'
import { judgeRefusal } from '../../src/provider/classify-refusal.ts'
import { errorRows } from '../../src/provider/error-codes.ts'

const money = ['order.create', 'order.cancel', 'order.refund'] as const
const withCode = (code: string) => ({ errors: [{ code, message: 'x' }] })

test.each(money)(
  'a refusal of %s is a proof only by a code that is documented for it',
  (operation) => {
    const documented = errorRows[operation]
      .map(({ on }) => on)
      .filter((on) => typeof on === 'string')
    expect(documented.length).toBeGreaterThan(3)
    const judgements = new Set(
      documented.map((code) => judgeRefusal(operation, 400, withCode(code))),
    )
    expect(judgements).toContain('proof')
    for (const code of ['', 'no_such_code', 'forbidden', 'terminal_is_asleep']) {
      expect(judgeRefusal(operation, 400, withCode(code)), code).toBe('ambiguous')
    }
    for (const status of [400, 401, 403, 404, 409, 422, 429]) {
      for (const body of [undefined, null, '<html>', {}, { message: 'x' }]) {
        expect(judgeRefusal(operation, status, body), String(status)).toBe('ambiguous')
      }
    }
  },
)

test.each(money)('a refusal about the key or a lock leaves the outcome of %s open', (operation) => {
  for (const code of [
    'idempotency_key_already_used',
    'idempotency_validation_failed',
    'resource_locked',
    'conflict',
  ]) {
    expect(judgeRefusal(operation, 409, withCode(code)), code).toBe('ambiguous')
  }
  // Whatever its code, a lock may be that of our own earlier attempt.
  const [{ on } = { on: '' }] = errorRows[operation].filter((row) => typeof row.on === 'string')
  expect(judgeRefusal(operation, 423, withCode(String(on)))).toBe('ambiguous')
})

test.each(money)(
  'a refusal that our own earlier attempt can have caused proves nothing about %s',
  (operation) => {
    for (const code of [
      'order_already_canceled',
      'order_already_refunded',
      'refund_in_progress',
      'movement_operations_pending',
      'PA_UNAUTHORIZED_RESULT_FROM_POLICIES',
    ]) {
      expect(judgeRefusal(operation, 409, withCode(code)), code).toBe('silent')
    }
  },
)

test.each(money)('a refusal before the key is checked proves nothing about %s', (operation) => {
  expect(judgeRefusal(operation, 401, withCode('unauthorized'))).toBe('silent')
  expect(judgeRefusal(operation, 429, withCode('too_many_requests'))).toBe('silent')
  expect(judgeRefusal(operation, 429, withCode('usage_quota_exceeded'))).toBe('silent')
  expect(judgeRefusal(operation, 429, withCode('local_rate_limited'))).toBe('silent')
  // The same code with another status comes from another system.
  expect(judgeRefusal(operation, 403, withCode('unauthorized'))).toBe('ambiguous')
  expect(judgeRefusal(operation, 400, withCode('too_many_requests'))).toBe('ambiguous')
})

test('a refusal of other operations is a proof, and a conflict without a code is ambiguous', () => {
  for (const operation of ['store.create', 'terminal.mode']) {
    expect(judgeRefusal(operation, 409, {}), operation).toBe('ambiguous')
    expect(judgeRefusal(operation, 404, {}), operation).toBe('silent')
    expect(judgeRefusal(operation, 401, withCode('unauthorized')), operation).toBe('silent')
    expect(judgeRefusal(operation, 400, withCode('anything')), operation).toBe('proof')
    expect(judgeRefusal(operation, 423, withCode('anything')), operation).toBe('ambiguous')
    for (const code of ['idempotency_key_already_used', 'resource_locked']) {
      expect(judgeRefusal(operation, 409, withCode(code)), operation).toBe('ambiguous')
    }
  }
})
