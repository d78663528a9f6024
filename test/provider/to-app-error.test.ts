import { expect, test } from 'vitest'
import { type ErrorCode, errorCatalogue } from '../../src/errors/app-error.ts'
import { errorRows, rowsOfRefusal } from '../../src/provider/error-codes.ts'
import { type ProviderOperation, toAppError } from '../../src/provider/provider.ts'
import { ProviderError, type ProviderErrorFields } from '../../src/provider/provider-error.ts'

const money: ProviderOperation[] = ['order.create', 'order.cancel', 'order.refund']
const all = Object.keys(errorRows) as ProviderOperation[]

function failure(fields: Partial<ProviderErrorFields>): ProviderError {
  return new ProviderError({
    kind: 'refused',
    effect: 'none',
    status: 400,
    failure: null,
    providerCode: null,
    codes: fields.providerCode ? [fields.providerCode] : [],
    providerMessage: 'raw text of the provider',
    retryAfterSeconds: null,
    requestId: null,
    attempts: 1,
    ...fields,
  })
}

/** Every refusal that the provider documents: operation, status, its code and the code of our answer. */
const documented: [ProviderOperation, number, string, ErrorCode][] = [
  ['oauth.exchange', 400, 'invalid_client', 'PROVIDER_REJECTED'],
  ['oauth.exchange', 400, 'invalid_grant', 'OAUTH_DENIED'],
  ['oauth.exchange', 400, 'invalid_request', 'PROVIDER_REJECTED'],
  ['oauth.exchange', 400, 'invalid_scope', 'OAUTH_DENIED'],
  ['oauth.exchange', 400, 'unsupported_grant_type', 'PROVIDER_REJECTED'],
  ['oauth.exchange', 400, 'unauthorized_client', 'OAUTH_DENIED'],
  ['oauth.exchange', 403, 'forbidden', 'OAUTH_DENIED'],
  ['oauth.exchange', 429, 'local_rate_limited', 'RATE_LIMITED'],
  ['oauth.exchange', 401, 'invalid_client', 'PROVIDER_REJECTED'],
  ['oauth.refresh', 400, 'invalid_client', 'PROVIDER_REJECTED'],
  ['oauth.refresh', 400, 'invalid_grant', 'CONNECTION_LOST'],
  ['oauth.refresh', 400, 'invalid_request', 'PROVIDER_REJECTED'],
  ['oauth.refresh', 400, 'invalid_scope', 'PROVIDER_REJECTED'],
  ['oauth.refresh', 400, 'unsupported_grant_type', 'PROVIDER_REJECTED'],
  ['oauth.refresh', 400, 'unauthorized_client', 'CONNECTION_LOST'],
  ['oauth.refresh', 403, 'forbidden', 'CONNECTION_LOST'],
  ['oauth.refresh', 429, 'local_rate_limited', 'RATE_LIMITED'],
  ['order.create', 400, 'empty_required_header', 'PROVIDER_REJECTED'],
  ['order.create', 400, 'invalid_idempotency_key_length', 'PROVIDER_REJECTED'],
  ['order.create', 400, 'required_properties', 'PROVIDER_REJECTED'],
  ['order.create', 400, 'unsupported_properties', 'PROVIDER_REJECTED'],
  ['order.create', 400, 'minimum_properties', 'PROVIDER_REJECTED'],
  ['order.create', 400, 'property_type', 'PROVIDER_REJECTED'],
  ['order.create', 400, 'property_value', 'PROVIDER_REJECTED'],
  ['order.create', 400, 'minimum_items', 'PROVIDER_REJECTED'],
  ['order.create', 400, 'maximum_items', 'PROVIDER_REJECTED'],
  ['order.create', 400, 'json_syntax_error', 'PROVIDER_REJECTED'],
  ['order.create', 401, 'unauthorized', 'CONNECTION_LOST'],
  ['order.create', 403, 'forbidden_checking_terminal_owner', 'TERMINAL_NOT_FOUND'],
  ['order.create', 409, 'already_queued_order_on_terminal', 'TERMINAL_BUSY'],
  ['order.create', 409, 'already_queued_order_for_terminal', 'TERMINAL_BUSY'],
  ['order.create', 409, 'idempotency_key_already_used', 'PROVIDER_REJECTED'],
  ['order.create', 423, 'resource_locked', 'PROVIDER_REJECTED'],
  ['order.create', 429, 'usage_quota_exceeded', 'RATE_LIMITED'],
  ['order.create', 400, 'unsupported_site', 'PROVIDER_REJECTED'],
  ['order.create', 400, 'marketplace_not_valid', 'PROVIDER_REJECTED'],
  ['order.create', 400, 'sponsor_id_not_valid', 'PROVIDER_REJECTED'],
  ['order.create', 404, 'pos_not_found', 'PROVIDER_REJECTED'],
  ['order.create', 404, 'marketplace_fee_not_allowed', 'PROVIDER_REJECTED'],
  ['order.create', 400, 'bad_request', 'PROVIDER_REJECTED'],
  ['order.cancel', 409, 'in_store_order_locked_error', 'ORDER_NOT_CANCELABLE'],
  ['order.cancel', 409, 'idempotency_key_already_used', 'PROVIDER_REJECTED'],
  ['order.search', 400, 'missing_required_params', 'PROVIDER_REJECTED'],
  ['order.search', 400, 'invalid_parameter', 'PROVIDER_REJECTED'],
  ['order.search', 400, 'bad_request', 'PROVIDER_REJECTED'],
  ['order.refund', 409, 'idempotency_key_already_used', 'PROVIDER_REJECTED'],
  ['payment.read', 404, '2000', 'NOT_FOUND'],
  ['store.find', 400, 'INVALID_USER_ID', 'PROVIDER_REJECTED'],
  ['store.find', 400, 'INVALID_OFFSET', 'PROVIDER_REJECTED'],
  ['store.find', 400, 'INVALID_LIMIT', 'PROVIDER_REJECTED'],
  ['store.find', 400, 'INVALID_EXTERNAL_ID', 'PROVIDER_REJECTED'],
  ['store.update', 400, 'INVALID_STORE_ID', 'PROVIDER_REJECTED'],
  ['store.update', 400, 'INVALID_USER_ID', 'PROVIDER_REJECTED'],
  ['store.update', 400, 'UNKNOWN_FIELD', 'PROVIDER_REJECTED'],
  ['pos.find', 400, 'INVALID_LIMIT', 'PROVIDER_REJECTED'],
  ['pos.find', 400, 'INVALID_OFFSET', 'PROVIDER_REJECTED'],
  ['pos.find', 400, 'INVALID_EXTERNAL_ID', 'PROVIDER_REJECTED'],
  ['pos.update', 400, 'INVALID_POS_ID', 'PROVIDER_REJECTED'],
  ['pos.update', 400, 'INVALID_NAME', 'PROVIDER_REJECTED'],
  ['pos.update', 400, 'NAME_TOO_LONG', 'PROVIDER_REJECTED'],
  ['order.read', 400, 'invalid_path_param', 'PROVIDER_REJECTED'],
  ['order.read', 400, 'bad_request', 'PROVIDER_REJECTED'],
  ['order.read', 401, 'unauthorized', 'CONNECTION_LOST'],
  ['order.read', 404, 'order_not_found', 'NOT_FOUND'],
  ['order.cancel', 400, 'empty_required_header', 'PROVIDER_REJECTED'],
  ['order.cancel', 400, 'bad_request', 'PROVIDER_REJECTED'],
  ['order.cancel', 400, 'invalid_path_param', 'PROVIDER_REJECTED'],
  ['order.cancel', 401, 'unauthorized', 'CONNECTION_LOST'],
  ['order.cancel', 404, 'order_not_found', 'NOT_FOUND'],
  ['order.cancel', 409, 'cannot_cancel_order', 'ORDER_NOT_CANCELABLE'],
  ['order.cancel', 409, 'order_already_canceled', 'ORDER_NOT_CANCELABLE'],
  ['order.refund', 400, 'empty_required_header', 'PROVIDER_REJECTED'],
  ['order.refund', 400, 'invalid_path_param', 'PROVIDER_REJECTED'],
  ['order.refund', 400, 'unsupported_partially_refunds', 'PARTIAL_REFUND_NOT_SUPPORTED'],
  ['order.refund', 400, 'refund_amount_exceeds', 'REFUND_AMOUNT_EXCEEDS'],
  ['order.refund', 401, 'unauthorized', 'CONNECTION_LOST'],
  ['order.refund', 401, 'user_not_authorized', 'ACCOUNT_MISMATCH'],
  ['order.refund', 400, 'invalid_order_owner', 'ACCOUNT_MISMATCH'],
  ['order.refund', 400, 'in_store_payment_refund_order', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 404, '2024', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 404, '15016', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 404, '2000', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 404, '2032', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 404, '3024', 'PARTIAL_REFUND_NOT_SUPPORTED'],
  ['order.refund', 400, '2017', 'REFUND_AMOUNT_EXCEEDS'],
  ['order.refund', 400, '2018', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 400, '2022', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 400, '2025', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 400, '2027', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 400, '2029', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 400, '2030', 'PROVIDER_REJECTED'],
  ['order.refund', 400, '2031', 'PROVIDER_REJECTED'],
  ['order.refund', 400, '2063', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 400, '2085', 'PROVIDER_REJECTED'],
  ['order.refund', 400, '4040', 'PROVIDER_REJECTED'],
  ['order.refund', 400, '4041', 'PROVIDER_REJECTED'],
  ['order.refund', 400, '4292', 'PROVIDER_REJECTED'],
  ['order.refund', 403, 'partial_refund_forbidden_with_tips', 'PARTIAL_REFUND_NOT_SUPPORTED'],
  ['order.refund', 404, 'order_not_found', 'NOT_FOUND'],
  ['order.refund', 404, 'transaction_not_found', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 409, 'order_already_refunded', 'ORDER_ALREADY_REFUNDED'],
  ['order.refund', 409, 'cannot_refund_order', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 409, 'refund_period_exceeded', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 409, 'action_not_allowed_for_current_state', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 409, 'refund_in_progress', 'REFUND_IN_PROGRESS'],
  ['order.refund', 409, 'movement_operations_pending', 'REFUND_IN_PROGRESS'],
  ['order.refund', 422, 'payment_not_refundable', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 422, 'amount_not_refundable', 'REFUND_AMOUNT_EXCEEDS'],
  ['order.refund', 422, 'max_refunds_exceeded', 'ORDER_NOT_REFUNDABLE'],
  ['order.refund', 425, 'order_payment_not_yet_enabled_for_refund', 'REFUND_IN_PROGRESS'],
  ['order.refund', 428, 'insufficient_money_for_refund', 'PROVIDER_REJECTED'],
  ['order.simulate', 400, 'bad_request', 'PROVIDER_REJECTED'],
  ['order.simulate', 401, 'unauthorized', 'CONNECTION_LOST'],
  ['order.simulate', 403, 'forbidden', 'NOT_SANDBOX'],
  ['order.simulate', 404, 'order_not_found', 'NOT_FOUND'],
  ['store.create', 400, 'UNKNOWN_FIELD', 'PROVIDER_REJECTED'],
  ['store.create', 400, 'INVALID_USER_ID', 'PROVIDER_REJECTED'],
  ['store.create', 400, 'INVALID_BUSINESS_HOURS', 'PROVIDER_REJECTED'],
  ['store.create', 400, 'INVALID_DAY', 'PROVIDER_REJECTED'],
  ['store.create', 403, 'Forbidden', 'PROVIDER_REJECTED'],
  ['store.delete', 400, 'INVALID_USER_ID', 'PROVIDER_REJECTED'],
  ['store.delete', 400, 'INVALID_STORE_ID', 'PROVIDER_REJECTED'],
  ['store.delete', 400, 'UNKNOWN_FIELD', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'MISSING_BODY', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'UNKNOWN_FIELD_EXCEPTION', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'INVALID_FIXED_AMOUNT', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'INVALID_CATEGORY', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'UNKNOWN_MCC', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'INVALID_STORE_ID', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'INVALID_EXTERNAL_STORE_ID', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'EXTERNAL_STORE_ID_NOT_MATCH', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'INEXISTENT_EXTERNAL_STORE_ID', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'INVALID_URL', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'URL_TOO_LONG', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'FIXED_AMOUNT_FALSE', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'non_existent_external_store_id', 'PROVIDER_REJECTED'],
  ['pos.create', 409, 'point_of_sale_exists', 'CONFLICT'],
  ['pos.create', 400, 'bad_request', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'idempotency_key_already_used', 'PROVIDER_REJECTED'],
  ['pos.create', 400, 'invalid_external_store_id', 'PROVIDER_REJECTED'],
  ['pos.create', 401, 'unauthorized', 'CONNECTION_LOST'],
  ['pos.create', 404, 'store_not_found', 'PROVIDER_REJECTED'],
  ['pos.create', 409, 'pos_already_exists', 'CONFLICT'],
  ['pos.create', 409, 'conflict', 'PROVIDER_REJECTED'],
  ['pos.create', 422, 'unprocessable_entity', 'PROVIDER_REJECTED'],
  ['pos.create', 424, 'internal_error_check_store_owner', 'PROVIDER_REJECTED'],
  ['pos.delete', 400, 'INVALID_POS_ID', 'PROVIDER_REJECTED'],
  ['terminal.list', 401, 'unauthorized', 'CONNECTION_LOST'],
  ['terminal.mode', 400, 'unsupported_site', 'PROVIDER_REJECTED'],
  ['terminal.mode', 400, 'unsupported_properties', 'PROVIDER_REJECTED'],
  ['terminal.mode', 400, 'required_properties', 'PROVIDER_REJECTED'],
  ['terminal.mode', 400, 'property_value', 'PROVIDER_REJECTED'],
  ['terminal.mode', 400, 'invalid_payload', 'PROVIDER_REJECTED'],
  ['terminal.mode', 401, 'unauthorized', 'CONNECTION_LOST'],
  ['terminal.mode', 403, 'terminal_not_allowed_action', 'PROVIDER_REJECTED'],
  ['terminal.mode', 403, 'store_pos_not_found', 'TERMINAL_NOT_FOUND'],
  ['terminal.mode', 404, 'not_found', 'TERMINAL_NOT_FOUND'],
  ['terminal.mode', 429, 'too_many_requests', 'RATE_LIMITED'],
  ['user.read', 401, 'unauthorized', 'CONNECTION_LOST'],
  ['user.read', 403, 'PA_UNAUTHORIZED_RESULT_FROM_POLICIES', 'PROVIDER_REJECTED'],
]

function kindOf(status: number): ProviderErrorFields['kind'] {
  if (status === 401) return 'unauthorized'
  return status === 429 ? 'rate_limited' : 'refused'
}

test.each(documented)('the table names %s %i %s', (operation, status, code) => {
  const { rows, unknown } = rowsOfRefusal(operation, status, [code])
  // Words that repeat the status are known without a row.
  expect(unknown).toBeNull()
  if (!/^(bad_request|not_found|forbidden|Forbidden)$/.test(code)) expect(rows).toHaveLength(1)
})

test.each(documented)('%s %i %s is %s', (operation, status, providerCode, code) => {
  const error = failure({ kind: kindOf(status), status, providerCode })
  const appError = toAppError(error, operation)
  expect(appError).toMatchObject({ code, status: errorCatalogue[code].status, cause: error })
  expect(appError.message).not.toContain('raw text')
  if (code === 'PROVIDER_REJECTED') expect(appError.message).toContain(providerCode)
})

test('every row of the table is tested by a documented refusal or names a field', () => {
  const tested = new Set(documented.map(([operation, , code]) => `${operation} ${code}`))
  const rows = all.flatMap((operation) =>
    errorRows[operation]
      .filter((row) => typeof row.on === 'string' && row.field === undefined)
      .map((row) => `${operation} ${row.on}`),
  )
  // Spellings and shared codes that no page lists for the operation.
  const spare = rows.filter((row) => !tested.has(row))
  expect(spare.every((row) => /forbidden|order\.(cancel|refund|read) /.test(row))).toBe(true)
  expect(rows.length - spare.length).toBeGreaterThan(120)
})

test.each([
  ['INVALID_NAME', 'name'],
  ['INVALID_LOCATION', 'location'],
  ['INVALID_STREET_NAME', 'location.street_name'],
  ['INVALID_STREET_NUMBER', 'location.street_number'],
  ['INVALID_CITY_NAME', 'location.city_name'],
  ['INVALID_STATE_NAME', 'location.state_name'],
  ['INVALID_ZIP_CODE', 'location'],
  ['INVALID_LATITUDE', 'location.latitude'],
  ['INVALID_LONGITUDE', 'location.longitude'],
  ['INVALID_REFERENCE', 'location.reference'],
])('a store refused with %s is a VALIDATION_ERROR on %j', (providerCode, path) => {
  for (const codes of [[providerCode], ['bad_request', providerCode]]) {
    const appError = toAppError(failure({ providerCode: codes[0] ?? null, codes }), 'store.create')
    expect(appError).toMatchObject({
      code: 'VALIDATION_ERROR',
      status: 422,
      details: [
        { path, message: `the provider refused it (${providerCode}: raw text of the provider)` },
      ],
    })
  }
})

test('the words of the provider about a field are cut to 300 characters, without a token', () => {
  const secrets = ['APP_USR-123-456-abc-789', 'TG-0123456789abcdef-1', 'a'.repeat(40)]
  const providerMessage = `${secrets.join(' ')} ${'word '.repeat(100)}`
  const { details } = toAppError(
    failure({ providerCode: 'INVALID_NAME', providerMessage }),
    'store.create',
  )
  const text = details?.[0]?.message ?? ''
  for (const secret of secrets) expect(text).not.toContain(secret)
  expect(text).toContain('word word')
  expect(text.length).toBeLessThan(360)
})

test('of the names that the provider accepts, the nearest to the given one come first', () => {
  const names = ['Belgrano', 'Constitución', 'Núñez', 'Palermo', 'Balvanera', 'Recoleta']
  const providerMessage = `location.city_name is not valid. Valid names: ${names.join(', ')}`
  const error = failure({ providerCode: 'INVALID_CITY_NAME', providerMessage })
  const given = { 'location.city_name': 'palermo viejo' }
  const [detail] = toAppError(error, 'store.create', given).details ?? []
  expect(detail?.message).toMatch(/Valid names: Palermo, /)
})

test.each(['VALIDATION_ERROR', 'validation_error', 'BAD_REQUEST', 'bad_request'])(
  'a store refused with %s alone names the fields that may be wrong',
  (providerCode) => {
    const appError = toAppError(failure({ providerCode }), 'store.create')
    expect(appError).toMatchObject({
      code: 'VALIDATION_ERROR',
      details: [{ path: '', message: expect.stringContaining('external_id or location') }],
    })
  },
)

test.each([
  ['INVALID_NAME', 'pos.name'],
  ['NAME_TOO_LONG', 'pos.name'],
  ['INVALID_EXTERNAL_ID', 'pos.external_id'],
  ['EXTERNAL_ID_TOO_LONG', 'pos.external_id'],
])('a box refused with %s is a VALIDATION_ERROR on %s', (providerCode, path) => {
  const appError = toAppError(failure({ providerCode }), 'pos.create')
  expect(appError).toMatchObject({ code: 'VALIDATION_ERROR', details: [{ path }] })
})

test('a second PDV on a box is recognised by its status alone', () => {
  for (const providerCode of [null, '412', 'whatever']) {
    expect(toAppError(failure({ status: 412, providerCode }), 'terminal.mode').code).toBe(
      'ONE_PDV_PER_BOX',
    )
  }
  expect(toAppError(failure({ status: 412 }), 'order.create').code).toBe('PROVIDER_REJECTED')
})

test('an undocumented refusal is PROVIDER_REJECTED with its code, or else its status', () => {
  for (const operation of all) {
    const named = toAppError(failure({ status: 418, providerCode: 'brand_new' }), operation)
    expect(named.code).toBe('PROVIDER_REJECTED')
    expect(named.message).toContain('brand_new')
    expect(toAppError(failure({ status: 418 }), operation).message).toContain('status 418')
  }
})

test('a Retry-After of the provider is passed on, as at least a second', () => {
  for (const operation of all) {
    const limited = { kind: 'rate_limited', status: 429 } as const
    const appError = toAppError(failure({ ...limited, retryAfterSeconds: 7 }), operation)
    expect(appError).toMatchObject({ code: 'RATE_LIMITED', extra: { retryAfterSeconds: 7 } })
    for (const retryAfterSeconds of [null, 0]) {
      const withoutWait = toAppError(failure({ ...limited, retryAfterSeconds }), operation)
      expect(withoutWait.extra.retryAfterSeconds).toBe(1)
    }
  }
})

test.each(money)(
  '%s whose effect is unknown is answered as unknown, whatever the last failure was',
  (operation) => {
    const ends: Partial<ProviderErrorFields>[] = [
      { kind: 'ambiguous', status: null, failure: 'timeout' },
      { kind: 'ambiguous', status: null, failure: 'connect' },
      { kind: 'ambiguous', status: 500 },
      { kind: 'invalid_answer', status: 201 },
      { kind: 'rate_limited', status: 429 },
      { kind: 'unauthorized', status: 401 },
      { kind: 'refused', status: 423, providerCode: 'resource_locked' },
      { kind: 'refused', status: 409, providerCode: 'idempotency_key_already_used' },
      { kind: 'refused', status: 409, providerCode: 'order_already_refunded' },
    ]
    for (const end of ends) {
      const appError = toAppError(failure({ ...end, effect: 'unknown' }), operation)
      expect(appError).toMatchObject({
        code: 'PROVIDER_TIMEOUT',
        status: 504,
        extra: { outcome: 'unknown', retrySafe: false },
      })
    }
  },
)

test.each(money)('%s without an effect is retry_safe', (operation) => {
  const ends: [Partial<ProviderErrorFields>, ErrorCode][] = [
    [{ kind: 'unreachable', status: null, failure: 'connect' }, 'PROVIDER_ERROR'],
    [{ kind: 'unreachable', status: null, failure: 'deadline' }, 'PROVIDER_ERROR'],
    [{ kind: 'rate_limited', status: 429 }, 'RATE_LIMITED'],
    [{ kind: 'unauthorized', status: 401 }, 'CONNECTION_LOST'],
    [{ kind: 'refused', status: 400, providerCode: 'property_value' }, 'PROVIDER_REJECTED'],
  ]
  for (const [end, code] of ends) {
    const appError = toAppError(failure(end), operation)
    expect(appError).toMatchObject({ code, extra: { retrySafe: true } })
    // Only a creation proves that nothing was charged: a cancel or refund names an order that may be paid.
    expect(appError.extra.outcome).toBe(operation === 'order.create' ? 'not_charged' : 'unknown')
  }
})

test('every refusal of a money operation has outcome and retrySafe', () => {
  for (const [operation, status, providerCode] of documented) {
    const { extra } = toAppError(failure({ kind: kindOf(status), status, providerCode }), operation)
    const isComplete = extra.outcome !== undefined && extra.retrySafe !== undefined
    expect([operation, isComplete]).toEqual([operation, money.includes(operation)])
  }
})

test('cancelling an order that is already canceled is not_charged', () => {
  const error = failure({ status: 409, providerCode: 'order_already_canceled' })
  expect(toAppError(error, 'order.cancel').extra.outcome).toBe('not_charged')
})

test('of other operations only a missing answer is a PROVIDER_TIMEOUT', () => {
  for (const operation of all.filter((name) => !money.includes(name))) {
    const code = (fields: Partial<ProviderErrorFields>) =>
      toAppError(failure(fields), operation).code
    expect(code({ kind: 'unreachable', status: null, failure: 'timeout' })).toBe('PROVIDER_TIMEOUT')
    expect(code({ kind: 'ambiguous', effect: 'unknown', status: null, failure: 'reset' })).toBe(
      'PROVIDER_TIMEOUT',
    )
    expect(code({ kind: 'unreachable', status: null, failure: 'connect' })).toBe('PROVIDER_ERROR')
    expect(code({ kind: 'unreachable', status: 503 })).toBe('PROVIDER_ERROR')
    expect(code({ kind: 'ambiguous', effect: 'unknown', status: 500 })).toBe('PROVIDER_ERROR')
    expect(code({ kind: 'invalid_answer', status: 200 })).toBe('PROVIDER_ERROR')
  }
})
