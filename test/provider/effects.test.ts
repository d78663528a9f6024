import { describe, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { answer, drop, startServer, torn } from '../outbound/raw-server.ts'
import nock, { useNock } from '../support/nock.ts'
import { orderId, providerAt, providerFailure, sale } from './provider-setup.ts'

const refusal = (status: number, code: string) =>
  answer(status, { errors: [{ code, message: 'm' }] })
const created = answer(201, { id: orderId, status: 'created' })

test('a create whose answer was lost is repeated under its key and found', async () => {
  await using server = await startServer(drop, torn(201), created)
  const evidence = await providerAt(server.url).provider.orders.create('t', 'key-1', sale)
  expect(evidence.mpOrderId).toBe(orderId)
  expect(server.seen.map((call) => call.headers['x-idempotency-key'])).toEqual(
    Array.from({ length: 3 }, () => 'key-1'),
  )
  expect(new Set(server.seen.map((call) => call.body)).size).toBe(1)
})

test.each([
  [
    'a definite refusal proves nothing: the first may still arrive',
    refusal(409, 'already_queued_order_on_terminal'),
    'refused',
    'unknown',
  ],
  ['a used key proves nothing', refusal(409, 'idempotency_key_already_used'), 'refused', 'unknown'],
  ['a lock proves nothing', refusal(423, 'resource_locked'), 'refused', 'unknown'],
  [
    'a rate limit proves nothing',
    answer(429, { error: 'too_many_requests' }),
    'rate_limited',
    'unknown',
  ],
  [
    'a refused token proves nothing',
    answer(401, { code: 'unauthorized' }),
    'unauthorized',
    'unknown',
  ],
  [
    'a failed key check proves nothing',
    refusal(500, 'idempotency_validation_failed'),
    'ambiguous',
    'unknown',
  ],
] as const)('after a lost create %s', async (_name, last, kind, effect) => {
  await using server = await startServer(drop, last)
  const { orders } = providerAt(server.url).provider
  expect(await providerFailure(orders.create('t', 'k', sale))).toMatchObject({ kind, effect })
})

test.each([
  [refusal(409, 'already_queued_order_for_terminal'), 'none'],
  [refusal(400, 'property_value'), 'none'],
  [answer(401, { code: 'unauthorized' }), 'none'],
  [answer(429, { error: 'too_many_requests' }), 'none'],
  [answer(429, {}), 'unknown'],
  [answer(403, undefined), 'unknown'],
  [refusal(409, 'idempotency_key_already_used'), 'unknown'],
  [refusal(423, 'resource_locked'), 'unknown'],
] as const)('a lone refusal of a create has this effect (%#)', async (answerOf, effect) => {
  await using server = await startServer(answerOf)
  const { orders } = providerAt(server.url).provider
  const error = await providerFailure(orders.create('t', 'k', sale, { maxAttempts: 1 }))
  expect(error.effect).toBe(effect)
})

test.each([
  [refusal(409, 'already_queued_order_for_terminal'), true],
  [refusal(400, 'property_value'), true],
  [refusal(409, 'idempotency_key_already_used'), false],
  [answer(401, { code: 'unauthorized' }), false],
  [answer(403, { code: 'PA_UNAUTHORIZED_RESULT_FROM_POLICIES' }), false],
  [answer(429, {}), false],
  [answer(404, undefined), false],
  [answer(500, {}), false],
] as const)(
  'provesAbsence: whether a refusal also excludes earlier calls under the key (%#)',
  async (answerOf, proof) => {
    await using server = await startServer(answerOf)
    const { orders } = providerAt(server.url).provider
    const create = orders.create('t', 'k', sale, { maxAttempts: 1 })
    expect((await providerFailure(create)).provesAbsence).toBe(proof)
  },
)

test('a refusal of a call without a key proves nothing about other calls', async () => {
  await using server = await startServer(answer(400, { error: 'invalid_grant' }))
  const refresh = providerAt(server.url).provider.oauth.refresh('TG')
  expect(await providerFailure(refresh)).toMatchObject({ effect: 'none', provesAbsence: false })
})

test('a refund that exists after a lost answer may be ours', async () => {
  await using server = await startServer(drop, refusal(409, 'order_already_refunded'))
  const { orders } = providerAt(server.url).provider
  const error = await providerFailure(orders.refund('t', orderId, 'k', null))
  expect(error).toMatchObject({ kind: 'refused', effect: 'unknown' })
})

test('a 201 whose body is not an order leaves the effect unknown', async () => {
  await using server = await startServer(answer(201, { ok: true }), answer(200, undefined))
  const { orders } = providerAt(server.url).provider
  for (let call = 0; call < 2; call += 1) {
    expect(await providerFailure(orders.create('t', 'k', sale))).toMatchObject({
      kind: 'invalid_answer',
      effect: 'unknown',
    })
  }
})

test('token calls, store creations, deletions and mode changes are sent once', async () => {
  await using server = await startServer(answer(503, {}))
  const { provider } = providerAt(server.url)
  const location = {
    streetName: 's',
    streetNumber: '1',
    cityName: 'c',
    stateName: 's',
    latitude: 0,
    longitude: 0,
    reference: null,
  }
  const calls = [
    () => provider.oauth.refresh('TG'),
    () => provider.oauth.exchangeCode({ code: 'c', codeVerifier: 'v', redirectUri: 'r' }),
    () => provider.stores.create('t', 1, { name: 'n', externalId: 'E', location }),
    () => provider.stores.delete('t', 1, '2'),
    () => provider.pos.delete('t', '2'),
    () => provider.terminals.setMode('t', 'T', 'PDV'),
    () => provider.orders.simulate('t', orderId, { status: 'processed' }),
  ]
  for (const call of calls) {
    expect(await providerFailure(call())).toMatchObject({ kind: 'ambiguous', effect: 'unknown' })
  }
  expect(server.seen).toHaveLength(calls.length)
})

test('POS v1 takes no key, so its creation is sent once; that of v2 is repeated', async () => {
  const box = { name: 'n', externalId: 'B', mpStoreId: '1', mpExternalStoreId: null }
  for (const [posApi, calls] of [
    ['v1', 1],
    ['v2', 3],
  ] as const) {
    await using server = await startServer(answer(500, {}))
    await providerFailure(providerAt(server.url, { posApi }).provider.pos.create('t', 'k', box))
    expect(server.seen).toHaveLength(calls)
  }
})

test('a failure has the provider’s code and request id; its text is in a field of its own', async () => {
  await using server = await startServer(
    answer(
      409,
      { errors: [{ code: 'cannot_cancel_order', message: 'The order status does not allow it.' }] },
      { 'x-request-id': 'req-9' },
    ),
  )
  const error = await providerFailure(
    providerAt(server.url).provider.orders.cancel('t', orderId, 'k'),
  )
  expect(error).toMatchObject({
    kind: 'refused',
    status: 409,
    providerCode: 'cannot_cancel_order',
    providerMessage: 'The order status does not allow it.',
    requestId: 'req-9',
    attempts: 1,
    message: 'the provider refused the request',
  })
})

test('each attempt writes one log entry, without body, token, key or query', async () => {
  await using server = await startServer(
    drop,
    answer(500, { errors: [{ code: '500' }] }, { 'x-request-id': 'r-2' }),
    answer(201, { id: orderId, status: 'created' }, { 'x-request-id': 'r-3' }),
    answer(200, { data: [] }),
    answer(200, { access_token: 'new-token', expires_in: 60 }),
  )
  const { provider, log } = providerAt(server.url)
  const about = { client: asClientName('acme'), orderId: 'o-1', source: 'api' }
  await provider.orders.create('token-secret', 'key-secret', sale, { about })
  await provider.orders.search('token-secret', {
    externalReference: 'reference-secret',
    from: new Date(0),
    to: new Date(1),
  })
  await provider.oauth.refresh('refresh-secret')
  expect(log.map(({ durationMs, ...entry }) => entry)).toEqual([
    {
      operation: 'order.create',
      method: 'POST',
      path: '/v1/orders',
      attempt: 1,
      status: null,
      requestId: null,
      code: null,
      unknownCode: null,
      failure: 'reset',
      about,
    },
    {
      operation: 'order.create',
      method: 'POST',
      path: '/v1/orders',
      attempt: 2,
      status: 500,
      requestId: 'r-2',
      code: '500',
      unknownCode: null,
      failure: null,
      about,
    },
    {
      operation: 'order.create',
      method: 'POST',
      path: '/v1/orders',
      attempt: 3,
      status: 201,
      requestId: 'r-3',
      code: null,
      unknownCode: null,
      failure: null,
      about,
    },
    {
      operation: 'order.search',
      method: 'GET',
      path: '/v1/orders',
      attempt: 1,
      status: 200,
      requestId: null,
      code: null,
      unknownCode: null,
      failure: null,
      about: null,
    },
    {
      operation: 'oauth.refresh',
      method: 'POST',
      path: '/oauth/token',
      attempt: 1,
      status: 200,
      requestId: null,
      code: null,
      unknownCode: null,
      failure: null,
      about: null,
    },
  ])
  expect(JSON.stringify(log)).not.toMatch(/secret|new-token|1234/)
})

test('an id that would change the path is refused before anything is sent', async () => {
  await using server = await startServer(created)
  const { orders, pos } = providerAt(server.url).provider
  await expect(orders.get('t', '..')).rejects.toThrow(RangeError)
  await expect(pos.delete('t', '')).rejects.toThrow(RangeError)
  expect(server.seen).toEqual([])
})

describe('single answers of the provider', () => {
  useNock()

  const host = 'https://api.mercadopago.example'

  test.each([
    [401, { code: 'unauthorized', message: 'user not found' }, 'unauthorized', 'unauthorized'],
    [
      404,
      { errors: [{ code: 'order_not_found', message: 'Order not found.' }] },
      'refused',
      'order_not_found',
    ],
    [
      400,
      { errors: [{ code: 'invalid_path_param', message: 'path param order id is invalid' }] },
      'refused',
      'invalid_path_param',
    ],
    [
      403,
      { code: 'PA_UNAUTHORIZED_RESULT_FROM_POLICIES', blocked_by: 'PolicyAgent' },
      'refused',
      'PA_UNAUTHORIZED_RESULT_FROM_POLICIES',
    ],
    [
      412,
      { message: 'Only one pos-store with PDV mode ON or SUSPENDED is allowed' },
      'refused',
      null,
    ],
  ] as const)('%i %j is %s', async (status, body, kind, providerCode) => {
    nock(host)
      .get(`/v1/orders/${orderId}`)
      .matchHeader('authorization', 'Bearer t')
      .reply(status, body)
    const error = await providerFailure(providerAt(host).provider.orders.get('t', orderId))
    expect(error).toMatchObject({ kind, providerCode, status, effect: 'none' })
    expect(nock.isDone()).toBe(true)
  })

  test('a read succeeds after two bad gateways', async () => {
    nock(host).get(`/v1/orders/${orderId}`).twice().reply(502, '<html>bad gateway</html>')
    nock(host).get(`/v1/orders/${orderId}`).reply(200, { id: orderId, status: 'expired' })
    const evidence = await providerAt(host).provider.orders.get('t', orderId)
    expect(evidence.status).toBe('expired')
    expect(nock.isDone()).toBe(true)
  })
})
