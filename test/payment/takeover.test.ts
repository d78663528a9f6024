import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { acceptInvitation, consent, login, returnOf } from '../support/oauth.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, enrol, type Till } from '../support/till.ts'

/**
 * T11: nobody connects an account of his own under the name of a shop. Without the administrator a client is connected
 * only on its pinned account, or when the name was never connected and enrolment is open.
 */
describe.each(['open', 'invite'])('enrolment %s', (enrolment) => {
  let service: TestService
  beforeAll(async () => {
    service = await startTestService({
      env: { OAUTH_ENROLMENT: enrolment, AUTH_FAILURES_PER_MINUTE: '100000' },
    })
  })
  afterAll(() => service.stop())

  /** A shop that its owner connected to an account, with an API key. */
  async function shop(client: string, account: string): Promise<Till> {
    const begun = await login(service, client, {}, { token: adminToken })
    await call(service, { url: await consent(begun.headers.location, { account }) })
    const { key, mp_user_id } = (
      await asAdmin(service, { url: '/api-keys', body: { client } })
    ).json()
    return { client, key, mpUserId: mp_user_id }
  }
  const logout = ({ key }: Till) =>
    call(service, { method: 'POST', url: '/oauth/logout', token: key })
  const unpin = ({ client }: Till) =>
    asAdmin(service, { method: 'POST', url: `/admin/clients/${client}/unpin` })
  const works = async (key: string): Promise<boolean> =>
    (await call(service, { url: '/oauth/validate', token: key })).json().valid
  const accountOf = async (client: string): Promise<number | null> =>
    (await asAdmin(service, { url: `/admin/clients/${client}` })).json().oauth.mp_user_id
  const asAdministrator = async (client: string, account: string) => {
    const begun = await login(service, client, {}, { token: adminToken })
    return call(service, { url: await consent(begun.headers.location, { account }) })
  }

  test('T11: after logout and unpin only the administrator connects the shop', async () => {
    const till = await shop('acme', '7110001')
    await logout(till)
    await unpin(till)
    for (const token of [undefined, till.key]) {
      const answer = await login(service, 'acme', {}, token === undefined ? {} : { token })
      expect([answer.statusCode, answer.json().code]).toEqual([403, 'FORBIDDEN'])
    }
    expect(await accountOf('acme')).toBeNull()
  })

  test('T11: after unpin and expiry of the tokens only the administrator connects the shop', async () => {
    const till = await shop('ended', '7110002')
    await unpin(till)
    await service.database.db
      .updateTable('oauth_connections')
      .set({ expires_at: service.clock.now() })
      .where('client', '=', 'ended' as never)
      .execute()
    expect((await login(service, 'ended')).statusCode).toBe(403)
  })

  test('T11: a login that began before the unpin cannot connect the shop', async () => {
    const till = await shop('early', '7110003')
    await logout(till)
    const back = await returnOf(service, 'early', '7110666')
    await unpin(till)
    const answer = await call(service, { url: back })
    expect([answer.statusCode, answer.json().code]).toEqual([403, 'FORBIDDEN'])
    expect(await accountOf('early')).toBeNull()
    // The administrator still connects the owner's account.
    expect((await asAdministrator('early', '7110004')).statusCode).toBe(200)
  })

  test('a client connects again on its pinned account without the administrator', async () => {
    const till = await shop('back', '7110005')
    await logout(till)
    expect(
      (await call(service, { url: await returnOf(service, 'back', '7110005') })).statusCode,
    ).toBe(200)
    expect(await works(till.key)).toBe(true)
  })

  test('connecting another account revokes all keys of the client, and the audit log gives the reason', async () => {
    const till = await shop('moved', '7110006')
    const spare = (await asAdmin(service, { url: '/api-keys', body: { client: 'moved' } })).json()
      .key
    await logout(till)
    await unpin(till)
    expect(await works(till.key)).toBe(true)
    expect((await asAdministrator('moved', '7110007')).statusCode).toBe(200)
    expect([await works(till.key), await works(spare)]).toEqual([false, false])
    const { keys } = (await asAdmin(service, { url: '/api-keys' })).json()
    const own = keys.filter((key: { client: string }) => key.client === 'moved')
    expect(own).toMatchObject([
      { active: false, mp_user_id: 7110006 },
      { active: false, mp_user_id: 7110006 },
    ])
    const { logs } = (await asAdmin(service, { url: '/admin/activity?client=moved' })).json()
    expect(logs.slice(0, 2)).toMatchObject([
      { action: 'oauth.connected', status: 'success' },
      {
        action: 'api_key.revoked',
        status: 'success',
        metadata: { revoked: 2, reason: 'account_changed', mp_user_id: 7110007 },
      },
    ])
    const made = await asAdmin(service, { url: '/api-keys', body: { client: 'moved' } })
    expect(made.json().mp_user_id).toBe(7110007)
    expect(await works(made.json().key)).toBe(true)
  })

  test('a key stays valid when the client is unpinned and connected on the same account', async () => {
    const till = await shop('same', '7110008')
    await logout(till)
    await unpin(till)
    expect((await asAdministrator('same', '7110008')).statusCode).toBe(200)
    expect(await works(till.key)).toBe(true)
  })

  test('a key that is created while the account changes never works for the new account', {
    tags: ['long'],
  }, async () => {
    const till = await shop('raced', '7110010')
    for (let round = 0; round < 10; round += 1) {
      const account = 7110011 + round
      await unpin(till)
      await asAdmin(service, { method: 'POST', url: '/oauth/logout?client=raced' })
      const begun = await login(service, 'raced', {}, { token: adminToken })
      const back = await consent(begun.headers.location, { account: String(account) })
      // Connected on the old account again, so that a key can be created during the change.
      await asAdministrator('raced', String(account - 1))
      await unpin(till)
      const [made] = await Promise.all([
        asAdmin(service, { url: '/api-keys', body: { client: 'raced' } }),
        call(service, { url: back }),
      ])
      const now = await accountOf('raced')
      if (made.json().mp_user_id !== now) expect(await works(made.json().key)).toBe(false)
    }
  })

  test('a key without a recorded account works, and is revoked with the next account', async () => {
    const till = await shop('legacy', '7110040')
    await service.database.db
      .updateTable('api_keys')
      .set({ mp_user_id: null })
      .where('client', '=', 'legacy' as never)
      .execute()
    await logout(till)
    await asAdministrator('legacy', '7110040')
    expect(await works(till.key)).toBe(true)
    await logout(till)
    await unpin(till)
    await asAdministrator('legacy', '7110041')
    expect(await works(till.key)).toBe(false)
  })

  test('an invitation lets the owner of an unpinned shop choose an account, also when its keys are revoked', async () => {
    const till = await shop('invited', '7110050')
    const early = await asAdmin(service, { url: '/admin/invitations', body: { client: 'invited' } })
    expect([early.statusCode, early.json().code]).toEqual([409, 'CONFLICT'])
    await logout(till)
    await unpin(till)
    await asAdmin(service, { url: '/api-keys/revoke', body: { client: 'invited' } })
    const made = await asAdmin(service, { url: '/admin/invitations', body: { client: 'invited' } })
    expect(made.statusCode).toBe(201)
    const begun = await acceptInvitation(service, made.json().url)
    expect(begun.statusCode).toBe(200)
    const back = await consent(begun.json().url, { account: '7110051' })
    expect((await call(service, { url: back })).statusCode).toBe(200)
    expect(await accountOf('invited')).toBe(7110051)
  })
})

test('with open enrolment the second of two first logins under one name connects nothing after an unpin', async () => {
  const service = await startTestService({ env: { AUTH_FAILURES_PER_MINUTE: '100000' } })
  const attackerReturn = await returnOf(service, 'fresh', '7110666')
  const till = await enrol(service, 'fresh', '7110060')
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  await asAdmin(service, { method: 'POST', url: '/admin/clients/fresh/unpin' })
  const answer = await call(service, { url: attackerReturn })
  await service.stop()
  expect([answer.statusCode, answer.json().code]).toEqual([403, 'FORBIDDEN'])
})
