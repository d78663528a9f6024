import { afterAll, beforeAll, expect, test } from 'vitest'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, connect, createStore, enrol, sandboxCall } from '../support/till.ts'

let service: TestService
/** The same database behind a service that masks tokens. */
let masking: TestService
beforeAll(async () => {
  service = await startTestService()
  masking = await startTestService({ twinOf: service, env: { ADMIN_MASK_TOKENS: 'true' } })
})
afterAll(async () => {
  await masking.stop()
  await service.stop()
})

const read = (client: string, at = service) =>
  asAdmin(at, { url: `/admin/clients/${encodeURIComponent(client)}` })

const auditedReads = async (client: string) => {
  const query = new URLSearchParams({ client, action: 'client.tokens_read' })
  return (await asAdmin(service, { url: `/admin/activity?${query}` })).json().logs
}

const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)

test('T8: GET /admin/clients/:name shows connection, tokens and the masked key, and forbids caching', async () => {
  const till = await enrol(service, 'acme', '1501')
  await call(service, { url: '/stores', token: till.key })
  const answer = await read('acme')
  expect(answer.statusCode).toBe(200)
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(answer.json()).toEqual({
    client: 'acme',
    nickname: 'TESTUSER1501',
    pinned_mp_user_id: 1501,
    created_at: timestamp,
    oauth: {
      authenticated: true,
      mp_user_id: 1501,
      live_mode: false,
      expires_at: timestamp,
      access_token: expect.stringMatching(/^APP_USR-.{20,}/),
      refresh_token: expect.stringMatching(/^TG-.{10,}/),
      public_key: expect.stringMatching(/^APP_USR-/),
    },
    api_key: {
      active: true,
      key: `${till.key.slice(0, 7)}…${till.key.slice(-4)}`,
      last_used_at: timestamp,
    },
  })
  // The token is the one that works at the provider.
  const me = await fetch(`${service.sandbox.url}/users/me`, {
    headers: { authorization: `Bearer ${answer.json().oauth.access_token}` },
  })
  expect(await me.json()).toMatchObject({ id: 1501 })
})

test('T8: every read of the tokens is audited, and the entry does not contain them', async () => {
  await enrol(service, 'watched', '1502')
  const { access_token, refresh_token } = (await read('watched')).json().oauth
  await read('watched')
  const reads = await auditedReads('watched')
  expect(reads).toHaveLength(2)
  expect(reads[0]).toMatchObject({
    client_name: 'watched',
    ip_address: '127.0.0.1',
    resource_type: 'client',
    resource_id: 'watched',
    status: 'success',
    metadata: { masked: false },
  })
  const written = JSON.stringify(reads) + service.logLines.join('')
  for (const secret of [access_token, refresh_token]) expect(written).not.toContain(secret)
})

test('a read that cannot be audited shows no token', async () => {
  await enrol(service, 'unseen', '1503')
  const { access_token } = (await read('unseen')).json().oauth
  const { db } = service.database
  await db.schema.alterTable('activity_unsealed').renameTo('unsealed_away').execute()
  const answer = await read('unseen')
  await db.schema.alterTable('unsealed_away').renameTo('activity_unsealed').execute()
  expect([answer.statusCode, answer.json().code]).toEqual([500, 'INTERNAL_ERROR'])
  expect(answer.body).not.toContain(access_token)
})

test('the database stores the tokens encrypted', async () => {
  await enrol(service, 'encrypted', '1504')
  const { access_token, refresh_token } = (await read('encrypted')).json().oauth
  const rows = await service.database.db
    .selectFrom('oauth_connections')
    .selectAll()
    .where('client', '=', 'encrypted' as never)
    .execute()
  expect(rows).toMatchObject([
    {
      access_token: expect.stringMatching(/^v1\.k1\./),
      refresh_token: expect.stringMatching(/^v1\.k1\./),
    },
  ])
  for (const secret of [access_token, refresh_token]) {
    expect(JSON.stringify(rows)).not.toContain(secret)
  }
})

test('with ADMIN_MASK_TOKENS the tokens are recognisable and not usable', async () => {
  await enrol(masking, 'masked', '1505')
  const { oauth } = (await read('masked', masking)).json()
  expect(oauth.access_token).toMatch(/^APP_USR-…[^…]{4}$/)
  expect(oauth.refresh_token).toMatch(/^TG-[^…]{5}…[^…]{4}$/)
  expect((await auditedReads('masked'))[0]).toMatchObject({ metadata: { masked: true } })
})

test('without a connection the tokens are null, and the read is not audited', async () => {
  const till = await enrol(service, 'parted', '1506')
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  await asAdmin(service, { url: '/api-keys/revoke', body: { client: 'parted' } })
  expect((await read('parted')).json()).toMatchObject({
    pinned_mp_user_id: 1506,
    oauth: {
      authenticated: false,
      mp_user_id: null,
      live_mode: null,
      expires_at: null,
      access_token: null,
      refresh_token: null,
      public_key: null,
    },
    api_key: { active: false, key: null, last_used_at: null },
  })
  expect(await auditedReads('parted')).toEqual([])
})

test('of several keys the newest active one is shown', async () => {
  await enrol(service, 'keys', '1507')
  service.clock.advance(1000)
  const { key } = (await asAdmin(service, { url: '/api-keys', body: { client: 'keys' } })).json()
  expect((await read('keys')).json().api_key.key).toBe(`${key.slice(0, 7)}…${key.slice(-4)}`)
})

test('a client name in any script is found by its exact spelling only', async () => {
  await enrol(service, 'Café «Ñandú»', '1508')
  expect((await read('Café «Ñandú»')).json().client).toBe('Café «Ñandú»')
  for (const name of ['café «ñandú»', 'Cafe «Ñandu»', '__proto__', '%']) {
    const answer = await read(name)
    expect([answer.statusCode, answer.json().code], name).toEqual([404, 'NOT_FOUND'])
  }
})

test('the list shows the state of every connection and no token', async () => {
  const state = async (client: string) => {
    const answer = await asAdmin(service, { url: '/admin/clients' })
    expect(answer.body).not.toMatch(/APP_USR-|TG-|mk_/)
    const { clients, total } = answer.json()
    expect(total).toBe(clients.length)
    return clients.find((row: { client: string }) => row.client === client)
  }
  const till = await enrol(service, 'states', '1509')
  expect(await state('states')).toEqual({
    client: 'states',
    nickname: 'TESTUSER1509',
    connection: 'connected',
    live_mode: false,
    expires_at: timestamp,
    active_keys: 1,
    created_at: timestamp,
  })
  await service.database.db
    .updateTable('oauth_connections')
    .set({ expires_at: new Date(0) })
    .where('client', '=', 'states' as never)
    .execute()
  expect(await state('states')).toMatchObject({ connection: 'expired' })
  await sandboxCall(service, 'POST', '/_sandbox/users/1509/revoke')
  await call(service, { method: 'POST', url: '/oauth/refresh', token: till.key })
  expect(await state('states')).toMatchObject({ connection: 'lost' })
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  expect(await state('states')).toMatchObject({
    connection: 'none',
    live_mode: null,
    expires_at: null,
    active_keys: 1,
  })
})

test('after an unpin the administrator connects another account; the stores stay, the keys are revoked', async () => {
  const till = await enrol(service, 'moved', '1510')
  await createStore(service, till, { id: 'M-1', boxes: [] })
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  expect((await connect(service, 'moved', '1511')).json().code).toBe('ACCOUNT_MISMATCH')
  const unpin = () => asAdmin(service, { method: 'POST', url: '/admin/clients/moved/unpin' })
  expect((await unpin()).json()).toEqual({
    message: expect.any(String),
    client: 'moved',
    mp_user_id: 1510,
  })
  expect((await unpin()).json().mp_user_id).toBeNull()
  expect((await connect(service, 'moved', '1511', adminToken)).statusCode).toBe(200)
  expect((await read('moved')).json()).toMatchObject({ pinned_mp_user_id: 1511 })
  expect((await call(service, { url: '/stores', token: till.key })).statusCode).toBe(401)
  expect((await asAdmin(service, { url: '/stores?client=moved' })).json().total).toBe(1)
})
