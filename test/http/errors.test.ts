import { Writable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { expect, test } from 'vitest'
import { AppError, type ErrorCode, errorCatalogue } from '../../src/errors/app-error.ts'
import { ErrorBody, ValidationErrorBody } from '../../src/http/error-body.ts'
import { createLogger } from '../../src/http/logging.ts'
import { publicServer } from './sample-app.ts'

const databaseDown = Object.assign(new Error('connect ECONNREFUSED 10.1.1.1'), {
  code: 'ECONNREFUSED',
})

/** An app whose routes throw what the test hands over. */
function throwingApp(style: 'coded' | 'plain' = 'coded') {
  const lines: Record<string, unknown>[] = []
  const sink = new Writable({
    write(chunk, _encoding, done) {
      lines.push(JSON.parse(String(chunk)))
      done()
    },
  })
  const app = publicServer({
    logger: createLogger('info', sink),
    errorStyle: style,
    isUnavailable: (error) => error === databaseDown,
  })
  let next: unknown
  const fail = async (request: FastifyRequest) => {
    request.isLetIn = true
    throw next
  }
  app.post('/plain', fail)
  app.post('/cancel', { config: { money: { retrySafeWhenUnknown: true, namesOrder: true } } }, fail)
  app.post('/charge', { config: { money: { retrySafeWhenUnknown: true } } }, fail)
  app.post('/refund', { config: { money: { retrySafeWhenUnknown: false } } }, fail)
  return async (url: string, error: unknown) => {
    next = error
    lines.length = 0
    const answer = await app.inject({ method: 'POST', url })
    const log = lines.find((line) => typeof line.code === 'string')
    return { status: answer.statusCode, body: answer.json(), headers: answer.headers, log }
  }
}

const call = throwingApp()

test('T44: every code of the catalogue is answered with its status and text, in the documented shape', async () => {
  for (const [code, { status, text }] of Object.entries(errorCatalogue)) {
    const answer = await call('/plain', new AppError(code as ErrorCode))
    expect([code, answer.status]).toEqual([code, status])
    expect(answer.body).toEqual({ error: text, code, request_id: answer.headers['x-request-id'] })
    expect(ErrorBody.parse(answer.body)).toEqual(answer.body)
  }
})

test('details, outcome, retry_safe and the order of an error have their wire names', async () => {
  const { body, headers } = await call(
    '/charge',
    new AppError('TERMINAL_BUSY', {
      message: 'Finish order A-1 first',
      details: [{ path: 'caja_id', message: 'is busy' }],
      extra: {
        outcome: 'not_charged',
        retrySafe: true,
        orderId: 'o-1',
        status: 'created',
        openOrder: { orderId: 'o-0', externalReference: 'A-1', ageSeconds: 12 },
        retryAfterSeconds: 1.2,
      },
    }),
  )
  expect(body).toEqual({
    error: 'Finish order A-1 first',
    code: 'TERMINAL_BUSY',
    details: [{ path: 'caja_id', message: 'is busy' }],
    request_id: expect.any(String),
    outcome: 'not_charged',
    retry_safe: true,
    retry: 'after_change',
    order_id: 'o-1',
    status: 'created',
    open_order: { order_id: 'o-0', external_reference: 'A-1', age_seconds: 12 },
  })
  expect(headers['retry-after']).toBe('2')
  expect(ErrorBody.parse(body)).toEqual(body)
})

test.each([
  new Error('password=hunter2 at /srv/app.ts:1'),
  new TypeError('x is not a function'),
  'a thrown text',
  undefined,
  { statusCode: 404, message: 'a foreign object' },
  // What an HTTP client throws about the provider: its status is not ours.
  Object.assign(new Error('Response Error'), { statusCode: 401, code: 'UND_ERR_RESPONSE' }),
  Object.assign(new Error('x'), { statusCode: 422, validation: [] }),
])('an unknown error %# is a constant 500', async (error) => {
  const { status, body } = await call('/plain', error)
  expect(status).toBe(500)
  expect(body).toEqual({
    error: 'Internal error of the service',
    code: 'INTERNAL_ERROR',
    request_id: expect.any(String),
  })
})

test('T44: a database that is away is 503 with Retry-After, without its address', async () => {
  const { status, body, headers } = await call('/plain', databaseDown)
  expect([status, body.code]).toEqual([503, 'SERVICE_UNAVAILABLE'])
  expect(Number(headers['retry-after'])).toBeGreaterThan(0)
  expect(JSON.stringify(body)).not.toContain('10.1.1.1')
})

test.each<[ErrorCode, string, boolean, boolean]>([
  // code, outcome, retry_safe with a duplicate guard, and without
  ['BAD_REQUEST', 'not_charged', false, false],
  ['UNAUTHORIZED', 'unknown', false, false],
  ['FORBIDDEN', 'unknown', false, false],
  ['NOT_FOUND', 'not_charged', false, false],
  ['ORDER_NOT_REFUNDABLE', 'not_charged', false, false],
  ['PAYLOAD_TOO_LARGE', 'not_charged', false, false],
  ['UNSUPPORTED_MEDIA_TYPE', 'not_charged', false, false],
  ['VALIDATION_ERROR', 'not_charged', false, false],
  ['REQUEST_TIMEOUT', 'unknown', true, true],
  ['CALLER_GONE', 'unknown', true, true],
  ['RATE_LIMITED', 'unknown', true, true],
  ['INTERNAL_ERROR', 'unknown', true, false],
  ['PROVIDER_ERROR', 'unknown', true, false],
  ['SERVICE_UNAVAILABLE', 'unknown', true, false],
  ['PROVIDER_TIMEOUT', 'unknown', true, false],
])(
  'on a money route %s has the outcome %s by default',
  async (code, outcome, guarded, unguarded) => {
    for (const [url, safe] of [
      ['/charge', guarded],
      ['/refund', unguarded],
    ] as const) {
      const { body } = await call(url, new AppError(code))
      expect([url, body.outcome, body.retry_safe]).toEqual([url, outcome, safe])
    }
  },
)

test.each<[ErrorCode, string, boolean]>([
  ['NOT_FOUND', 'not_charged', false],
  ['BAD_REQUEST', 'unknown', false],
  ['PAYLOAD_TOO_LARGE', 'unknown', false],
  ['UNSUPPORTED_MEDIA_TYPE', 'unknown', false],
  ['VALIDATION_ERROR', 'unknown', false],
  ['UNAUTHORIZED', 'unknown', false],
  ['RATE_LIMITED', 'unknown', true],
  ['INTERNAL_ERROR', 'unknown', true],
])(
  'on a route of an order that may be paid %s has the outcome %s by default',
  async (code, outcome, safe) => {
    const { body } = await call('/cancel', new AppError(code))
    expect([body.outcome, body.retry_safe]).toEqual([outcome, safe])
  },
)

test('an unexpected error on a money route has the outcome unknown', async () => {
  const { body } = await call('/refund', new Error('x'))
  expect([body.outcome, body.retry_safe]).toEqual(['unknown', false])
})

test('an error after a charge is never retry_safe', async () => {
  const { body } = await call(
    '/charge',
    new AppError('ORDER_ALREADY_PAID', { extra: { outcome: 'charged' } }),
  )
  expect([body.outcome, body.retry_safe]).toEqual(['charged', false])
})

test('5xx are logged at error with their causes, 4xx at info', async () => {
  const cause = new Error('deadlock', { cause: new Error('lock timeout') })
  const failed = await call('/plain', new AppError('INTERNAL_ERROR', { cause }))
  expect(failed.log).toMatchObject({
    level: 'error',
    requestId: failed.body.request_id,
    err: { cause: { message: 'deadlock', cause: { message: 'lock timeout' } } },
  })
  const refused = await call('/plain', new AppError('NOT_FOUND'))
  expect(refused.log).toMatchObject({ level: 'info', code: 'NOT_FOUND' })
})

test('an error of the control API has one field, and 400 in place of 422', async () => {
  const plain = throwingApp('plain')
  const invalid = new AppError('VALIDATION_ERROR', {
    details: [
      { path: 'count', message: 'must be 1 to 1000000' },
      { path: 'force', message: 'must be true or false' },
    ],
  })
  expect(await plain('/plain', invalid)).toMatchObject({
    status: 400,
    body: { error: 'count: must be 1 to 1000000; force: must be true or false' },
  })
  const missing = await plain('/plain', new AppError('NOT_FOUND', { message: 'No flow x' }))
  expect([missing.status, missing.body]).toEqual([404, { error: 'No flow x' }])
  const failed = await plain('/charge', new Error('secret'))
  expect([failed.status, failed.body]).toEqual([500, { error: 'Internal error of the service' }])
})

test('the validation error keeps its own schema', async () => {
  const { body } = await call(
    '/charge',
    new AppError('VALIDATION_ERROR', { details: [{ path: 'amount', message: 'like 1234,50' }] }),
  )
  expect(ValidationErrorBody.parse(body)).toEqual(body)
})
