import { expect, test } from 'vitest'
import { judgeRefusal } from '../../src/provider/classify-refusal.ts'
import { parseErrorBody } from '../../src/provider/provider-error.ts'

test.each([
  [
    'envelope A',
    { errors: [{ code: 'order_not_found', message: 'Order not found.', details: ['x'] }] },
    { code: 'order_not_found', codes: ['order_not_found'], message: 'Order not found.' },
  ],
  [
    'envelope B',
    { code: 'unauthorized', message: 'user not found' },
    { code: 'unauthorized', codes: ['unauthorized'], message: 'user not found' },
  ],
  [
    'envelope C',
    { message: 'expired', error: 'invalid_grant', status: 400, cause: [] },
    { code: 'invalid_grant', codes: ['invalid_grant'], message: 'expired' },
  ],
  [
    'causes under either name, with codes of either type',
    { error: 'bad_request', cause: [{ code: 5 }], causes: [{ code: 'INVALID_CITY_NAME' }] },
    { code: 'bad_request', codes: ['bad_request', '5', 'INVALID_CITY_NAME'], message: null },
  ],
  [
    'only causes',
    { cause: [{ code: 'INVALID_NAME', description: 'd' }] },
    { code: 'INVALID_NAME', codes: ['INVALID_NAME'], message: null },
  ],
  [
    'error_description',
    { error: 'invalid_client', error_description: 'wrong' },
    { code: 'invalid_client', codes: ['invalid_client'], message: 'wrong' },
  ],
  [
    'a policy block',
    { code: 'PA_UNAUTHORIZED_RESULT_FROM_POLICIES', blocked_by: 'PolicyAgent', message: 'm' },
    {
      code: 'PA_UNAUTHORIZED_RESULT_FROM_POLICIES',
      codes: ['PA_UNAUTHORIZED_RESULT_FROM_POLICIES'],
      message: 'm',
    },
  ],
  ['a number as code', { errors: [{ code: 412 }] }, { code: '412', codes: ['412'], message: null }],
])('an error body with %s is parsed', (_name, body, read) => {
  expect(parseErrorBody(body)).toEqual(read)
})

test.each([
  [null],
  [undefined],
  ['<html>'],
  [7],
  [[]],
  [{}],
  [{ errors: 'no' }],
  [{ errors: [] }],
  [{ errors: ['text'] }],
  [{ code: { a: 1 } }],
  [{ cause: 'x', causes: {} }],
  [{ error: 'two words' }],
  [{ error: '<script>' }],
  [{ error: 'x'.repeat(65) }],
  [{ error: 'line\nbreak' }],
])('the body %j has no code and causes no exception', (body) => {
  expect(parseErrorBody(body)).toMatchObject({ code: null, codes: [] })
})

test('all errors of a body are parsed, the first as the main one', () => {
  const body = { errors: [{ code: 'property_type' }, { code: 'property_value', message: 'm' }] }
  expect(parseErrorBody(body)).toMatchObject({
    code: 'property_type',
    codes: ['property_type', 'property_value'],
  })
})

const coded = (code: string) => ({ errors: [{ code }] })

test.each([
  [409, coded('already_queued_order_on_terminal'), 'proof'],
  [409, coded('already_queued_order_for_terminal'), 'proof'],
  [400, coded('property_value'), 'proof'],
  [403, coded('forbidden_checking_terminal_owner'), 'proof'],
  [404, coded('order_not_found'), 'proof'],
  [425, coded('order_payment_not_yet_enabled_for_refund'), 'proof'],
  [409, coded('idempotency_key_already_used'), 'ambiguous'],
  [400, coded('idempotency_key_already_used'), 'ambiguous'],
  [409, coded('conflict'), 'ambiguous'],
  [423, coded('resource_locked'), 'ambiguous'],
  [423, null, 'ambiguous'],
  [409, null, 'ambiguous'],
  [401, { code: 'unauthorized' }, 'silent'],
  [429, { error: 'too_many_requests' }, 'silent'],
  [403, { code: 'PA_UNAUTHORIZED_RESULT_FROM_POLICIES' }, 'silent'],
  [404, null, 'silent'],
])('a refusal %i with %j means %s', (status, body, meaning) => {
  expect(judgeRefusal('store.create', status, body)).toBe(meaning)
})

test.each([
  ['order.create', 400, coded('property_value'), 'proof'],
  ['order.create', 409, coded('already_queued_order_on_terminal'), 'proof'],
  ['order.create', 404, coded('order_not_found'), 'ambiguous'],
  ['order.create', 403, coded('403'), 'ambiguous'],
  ['order.create', 403, null, 'ambiguous'],
  ['order.create', 404, null, 'ambiguous'],
  ['order.create', 401, null, 'ambiguous'],
  ['order.create', 401, { code: 'unauthorized' }, 'silent'],
  ['order.create', 401, { code: 'forbidden' }, 'ambiguous'],
  ['order.create', 429, coded('limit'), 'ambiguous'],
  ['order.create', 429, null, 'ambiguous'],
  ['order.create', 429, { error: 'too_many_requests' }, 'silent'],
  ['order.create', 429, coded('usage_quota_exceeded'), 'silent'],
  ['order.refund', 400, coded('refund_amount_exceeds'), 'proof'],
  ['order.refund', 404, null, 'ambiguous'],
] as const)(
  'of a money operation, %s refused with %i and %j means %s',
  (operation, status, body, meaning) => {
    expect(judgeRefusal(operation, status, body)).toBe(meaning)
  },
)
