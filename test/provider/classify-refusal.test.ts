import { expect, test } from 'vitest'
import { judgeRefusal } from '../../src/provider/classify-refusal.ts'
import { errorRows, rowsOfRefusal } from '../../src/provider/error-codes.ts'

const money = ['order.create', 'order.cancel', 'order.refund'] as const
const withCode = (code: string) => ({ errors: [{ code, message: 'x' }] })

test.each(money)(
  'a refusal of %s is a proof only by a code that is documented for it',
  (operation) => {
    const documented = errorRows[operation]
      .filter(({ proves }) => proves === undefined)
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

test.each([
  ['order.cancel', 409, 'order_already_canceled'],
  ['order.cancel', 409, 'in_store_order_locked_error'],
  ['order.refund', 409, 'order_already_refunded'],
  ['order.refund', 409, 'refund_in_progress'],
  ['order.refund', 409, 'movement_operations_pending'],
  ['order.refund', 401, 'user_not_authorized'],
  ['order.refund', 400, 'invalid_order_owner'],
  ...money.map((operation) => [operation, 403, 'PA_UNAUTHORIZED_RESULT_FROM_POLICIES'] as const),
] as const)(
  'a refusal of %s with %i %s had no effect and proves nothing about earlier calls',
  (operation, status, code) => {
    expect(judgeRefusal(operation, status, withCode(code))).toBe('silent')
  },
)

/** As the Payments API answers: the main code repeats the status, and the number of the cause says why. */
const withCause = (error: string, cause: number | string) => ({
  message: 'x',
  error,
  status: 400,
  cause: [{ code: cause, description: 'x', data: null }],
})

test.each([
  ['2024', 'proof'],
  ['15016', 'proof'],
  ['3024', 'proof'],
  ['2000', 'proof'],
  ['2032', 'proof'],
  ['2022', 'proof'],
  ['2030', 'proof'],
  ['4040', 'proof'],
  // Our own earlier refund may be the cause.
  ['2063', 'silent'],
  ['2018', 'silent'],
  ['2017', 'silent'],
  ['9876', 'ambiguous'],
])('the cause %s of a refused refund of a payment is %s', (cause, judgement) => {
  for (const error of ['bad_request', 'not_found']) {
    expect(judgeRefusal('order.refund', 400, withCause(error, Number(cause))), error).toBe(
      judgement,
    )
    expect(judgeRefusal('order.refund', 404, withCause(error, cause)), error).toBe(judgement)
  }
})

test('a cause of another operation proves nothing, and a word of the status alone neither', () => {
  expect(judgeRefusal('order.create', 400, withCause('bad_request', 2024))).toBe('ambiguous')
  expect(judgeRefusal('order.refund', 404, { error: 'not_found' })).toBe('ambiguous')
  expect(judgeRefusal('order.create', 400, { error: 'bad_request' })).toBe('ambiguous')
})

test('of several errors, one about the key leaves the outcome open', () => {
  const codes = ['property_value', 'idempotency_key_already_used']
  for (const order of [codes, codes.toReversed()]) {
    const errors = order.map((code) => ({ code, message: 'x' }))
    expect(judgeRefusal('order.refund', 400, { errors })).toBe('ambiguous')
  }
})

test('a code of which no row tells is named; the words of a status and known codes are not', () => {
  const unknownOf = (status: number, codes: string[]) =>
    rowsOfRefusal('order.refund', status, codes).unknown
  expect(unknownOf(400, ['brand_new'])).toBe('brand_new')
  expect(unknownOf(400, ['bad_request', '9876'])).toBe('9876')
  for (const codes of [['bad_request', '2024'], ['order_not_found'], ['not_found'], ['400'], []]) {
    expect(unknownOf(400, codes), codes.join()).toBeNull()
  }
})

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
  for (const operation of ['store.create', 'terminal.mode'] as const) {
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
