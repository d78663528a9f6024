import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { connectionContext, createEncryption } from '../../src/domain/encryption.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, charge, openShop, type Till } from '../support/till.ts'

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService()
  till = await openShop(service, 'acme', '1801')
})
afterAll(() => service.stop())

/** What a process does that got a new encryption key before this one. */
async function encryptElsewhere(): Promise<void> {
  const encryption = createEncryption([{ id: 'elsewhere', key: randomBytes(32) }])
  await service.database.db
    .updateTable('oauth_connections')
    .set({
      access_token: encryption.encrypt('APP_USR-1', connectionContext('acme', 'access_token')),
      refresh_token: encryption.encrypt('TG-1', connectionContext('acme', 'refresh_token')),
    })
    .execute()
}

test('a token encrypted with a key that is not configured is CONNECTION_LOST, logged with its key id, and never a 500', async () => {
  const { order_id: orderId } = (await charge(service, till, { reference: 'T-1' })).json()
  await encryptElsewhere()

  const refused = await charge(service, till, { reference: 'T-2' })
  expect([refused.statusCode, refused.json()]).toEqual([
    409,
    expect.objectContaining({ code: 'CONNECTION_LOST', outcome: 'not_charged' }),
  ])
  const read = await call(service, { url: `/orders/${orderId}`, token: till.key })
  expect([read.statusCode, read.json().stale]).toEqual([200, true])
  const answers = await Promise.all([
    call(service, { url: '/terminals', token: till.key }),
    call(service, { url: '/oauth/refresh', method: 'POST', token: till.key }),
    call(service, { url: '/orders/cancel', token: till.key, body: { order_id: orderId } }),
    call(service, { url: '/orders/refund', token: till.key, body: { order_id: orderId } }),
  ])
  for (const answer of answers) {
    expect([answer.statusCode, answer.json().code]).toEqual([409, 'CONNECTION_LOST'])
  }
  const shown = await asAdmin(service, { url: '/admin/clients/acme' })
  expect([shown.statusCode, shown.json().oauth.access_token]).toEqual([200, null])
  expect(
    service.logLines.filter((line) => line.includes('"keyId":"elsewhere"')).length,
  ).toBeGreaterThan(0)
  // With the key everything works again: the connection was not marked as lost.
  expect(
    await service.database.db.selectFrom('oauth_connections').select('status').execute(),
  ).toEqual([{ status: 'connected' }])
})

test('a login that another process began under such a key ends as OAUTH_STATE_INVALID', async () => {
  const login = await call(service, { url: '/oauth/login?client=other' })
  const encryption = createEncryption([{ id: 'elsewhere', key: randomBytes(32) }])
  await service.database.db
    .updateTable('oauth_states')
    .set({
      code_verifier: encryption.encrypt('verifier', connectionContext('other', 'code_verifier')),
    })
    .execute()
  const state = new URL(String(login.headers.location)).searchParams.get('state')
  const back = await call(service, { url: `/oauth/callback?code=abc&state=${state}` })
  expect([back.statusCode, back.json().code]).toEqual([400, 'OAUTH_STATE_INVALID'])
})
