import { expect, test } from 'vitest'
import { answer, startServer } from '../outbound/raw-server.ts'
import { orderId, paymentId, providerAt, providerFailure } from './provider-setup.ts'

test('a full grant and a refresh without the optional fields are both read', async () => {
  await using server = await startServer(
    answer(200, {
      access_token: 'APP_USR-1',
      token_type: 'bearer',
      expires_in: 15552000,
      scope: 'offline_access read write',
      user_id: 2025701502,
      refresh_token: 'TG-1',
      public_key: 'APP_USR-2',
      live_mode: true,
    }),
    answer(200, { access_token: 'APP_USR-3', refresh_token: 'TG-2', expires_in: 15552000 }),
  )
  const { oauth } = providerAt(server.url).provider
  const parameters = { code: 'c', codeVerifier: 'v', redirectUri: 'r' }
  expect(await oauth.exchangeCode(parameters)).toEqual({
    accessToken: 'APP_USR-1',
    refreshToken: 'TG-1',
    expiresInSeconds: 15552000,
    mpUserId: 2025701502,
    publicKey: 'APP_USR-2',
    liveMode: true,
    scope: 'offline_access read write',
  })
  expect(await oauth.refresh('TG-1')).toEqual({
    accessToken: 'APP_USR-3',
    refreshToken: 'TG-2',
    expiresInSeconds: 15552000,
    mpUserId: null,
    publicKey: null,
    liveMode: null,
    scope: null,
  })
})

test('invalid optional fields beside the tokens do not lose the tokens', async () => {
  await using server = await startServer(
    answer(200, {
      access_token: 'A',
      refresh_token: 'TG-2',
      expires_in: 'soon',
      user_id: 'me',
      live_mode: 'yes',
      public_key: 7,
    }),
  )
  const grant = await providerAt(server.url).provider.oauth.refresh('TG-1')
  expect(grant).toMatchObject({
    accessToken: 'A',
    refreshToken: 'TG-2',
    expiresInSeconds: 21_600,
    mpUserId: null,
    liveMode: null,
  })
})

test('a grant without an access token is invalid, and may have used up the refresh token', async () => {
  await using server = await startServer(answer(200, { expires_in: 60, refresh_token: 'TG-2' }))
  const error = await providerFailure(providerAt(server.url).provider.oauth.refresh('TG-1'))
  expect(error).toMatchObject({ kind: 'invalid_answer', effect: 'unknown', status: 200 })
})

test('a user is read with its id; a test account has a tag', async () => {
  await using server = await startServer(
    answer(200, {
      id: 2025701502,
      nickname: 'TESTUSER',
      site_id: 'MLA',
      tags: ['normal', 'test_user'],
    }),
    answer(200, { id: '77' }),
  )
  const { users } = providerAt(server.url).provider
  expect(await users.me('t')).toEqual({
    id: 2025701502,
    nickname: 'TESTUSER',
    siteId: 'MLA',
    isTestUser: true,
  })
  expect(await users.me('t')).toEqual({ id: 77, nickname: null, siteId: null, isTestUser: false })
})

test('stores and boxes are found by their exact external id, whatever else the search returns', async () => {
  const stores = {
    paging: { total: 2 },
    results: [
      { id: '1', external_id: 'SUC0011' },
      { id: 87482378, name: 'Centro', external_id: 'SUC001' },
    ],
  }
  const boxes = { data: [{ id: 138301467, store_id: 87482378, external_id: 'B1' }, { id: 2 }] }
  await using server = await startServer(
    answer(200, stores),
    answer(200, stores),
    answer(200, boxes),
    answer(200, { results: [] }),
  )
  const { provider } = providerAt(server.url)
  expect(await provider.stores.findByExternalId('t', 1, 'SUC001')).toEqual({
    mpStoreId: '87482378',
    name: 'Centro',
  })
  expect(await provider.stores.findByExternalId('t', 1, 'SUC00')).toBeUndefined()
  expect(await provider.pos.findByExternalId('t', 'B1')).toEqual({
    mpPosId: '138301467',
    mpStoreId: '87482378',
  })
  expect(await provider.pos.findByExternalId('t', 'B1')).toBeUndefined()
})

test('deleting a missing store or box succeeds; any other refusal is an error', async () => {
  await using server = await startServer(
    answer(404, {}),
    answer(404, { error: 'not_found' }),
    answer(400, { error: 'INVALID_POS_ID' }),
  )
  const { provider } = providerAt(server.url)
  await expect(provider.stores.delete('t', 1, '2')).resolves.toBeUndefined()
  await expect(provider.pos.delete('t', '2')).resolves.toBeUndefined()
  expect(await providerFailure(provider.pos.delete('t', 'x'))).toMatchObject({
    kind: 'refused',
    providerCode: 'INVALID_POS_ID',
  })
})

test('terminals keep the provider’s name of their mode; only PDV counts as PDV', async () => {
  await using server = await startServer(
    answer(200, {
      data: {
        terminals: [
          {
            id: 'NEWLAND_N950__1',
            pos_id: 138301467,
            store_id: '87482378',
            external_pos_id: 'B1',
            operating_mode: 'PDV',
          },
          { id: 'PAX_A910__2', pos_id: '5', operating_mode: 'SELF_SERVICE' },
          { id: 'PAX_A910__3' },
        ],
      },
      paging: { total: '7', offset: 0, limit: 3 },
    }),
    answer(200, { data: { terminals: [{ id: 'PAX_A910__3', operating_mode: 'STANDALONE' }] } }),
    answer(200, { terminals: [] }),
  )
  const { terminals } = providerAt(server.url).provider
  const unknown = { mpPosId: null, mpStoreId: null, externalPosId: null }
  expect(await terminals.list('t', {})).toEqual({
    terminals: [
      {
        id: 'NEWLAND_N950__1',
        mpPosId: '138301467',
        mpStoreId: '87482378',
        externalPosId: 'B1',
        operatingMode: 'PDV',
        providerMode: 'PDV',
      },
      {
        ...unknown,
        id: 'PAX_A910__2',
        mpPosId: '5',
        operatingMode: 'STANDALONE',
        providerMode: 'SELF_SERVICE',
      },
      { ...unknown, id: 'PAX_A910__3', operatingMode: 'STANDALONE', providerMode: 'UNDEFINED' },
    ],
    rows: 3,
    total: 7,
  })
  expect((await terminals.list('t', {})).total).toBe(1)
  expect(await providerFailure(terminals.list('t', {}))).toMatchObject({ kind: 'invalid_answer' })
})

test('the answer to a refund is read in its short form', async () => {
  const refund = {
    id: 'REF1',
    transaction_id: paymentId,
    reference_id: 2214001377,
    amount: '234.50',
    status: 'processing',
  }
  await using server = await startServer(
    answer(201, {
      id: orderId,
      status: 'processed',
      status_detail: 'partially_refunded',
      transactions: { refunds: [refund] },
    }),
    answer(200, { id: orderId, status: 'refunded', status_detail: 'refunded' }),
  )
  const { orders } = providerAt(server.url).provider
  expect(await orders.refund('t', orderId, 'k', { paymentId, amountCents: 23450 })).toEqual({
    mpOrderId: orderId,
    currency: null,
    status: 'partially_refunded',
    providerStatus: 'processed',
    statusDetail: 'partially_refunded',
    refunds: [
      {
        id: 'REF1',
        transactionId: paymentId,
        referenceId: '2214001377',
        amountCents: 23450,
        status: 'processing',
      },
    ],
  })
  expect(await orders.refund('t', orderId, 'k', null)).toMatchObject({
    status: 'refunded',
    refunds: [],
  })
})

test('T45: an answer with another order id is invalid', async () => {
  await using server = await startServer(answer(200, { id: 'ORDOTHER', status: 'processed' }))
  const { orders } = providerAt(server.url).provider
  const invalid = { kind: 'invalid_answer', status: 200 }
  expect(await providerFailure(orders.get('t', orderId))).toMatchObject({
    ...invalid,
    effect: 'none',
  })
  expect(await providerFailure(orders.cancel('t', orderId, 'k'))).toMatchObject({
    ...invalid,
    effect: 'unknown',
  })
  expect(await providerFailure(orders.refund('t', orderId, 'k', null))).toMatchObject({
    ...invalid,
    effect: 'unknown',
  })
})

test('an order read by the lower-case id of a webhook is the same order', async () => {
  await using server = await startServer(answer(200, { id: orderId, status: 'created' }))
  const { orders } = providerAt(server.url).provider
  expect((await orders.get('t', orderId.toLowerCase())).mpOrderId).toBe(orderId)
})
