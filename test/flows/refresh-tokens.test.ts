import { randomBytes } from 'node:crypto'
import { Agent } from 'undici'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { createEncryption, grantContext } from '../../src/domain/encryption.ts'
import { Secret } from '../../src/domain/flow-secret.ts'
import { GrantKeeper, type GrantKeeperDeps } from '../../src/flows/oauth/refresh-token-grants.ts'
import { checkEncryptionKeys } from '../../src/payments/encryption/check-encryption-keys.ts'
import { rotateSecrets } from '../../src/payments/encryption/rotate-encryption-keys.ts'
import { openTestDatabase } from '../support/database.ts'
import { serveShop } from './shops/double.ts'
import { createIssuer, type Issuer } from './shops/token-issuer.ts'

/** An access whose refresh token works once. Only we have the newest one, and two renewals with the same token would lose it. */
const key = { id: 'k1', key: randomBytes(32) }
const start = Date.parse('2026-11-21T12:00:00.000Z')
const seconds = 1_000
const hours = 3_600_000

let database: Database
let serial = 0
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

/** An issuer with a client and a first refresh token, and the processes that use it. */
async function openIssuer() {
  serial += 1
  const first = `TG-canary-first-${serial}`
  const clock = { at: start }
  const issuer: Issuer = createIssuer({
    clientId: '4242',
    clientSecret: 'canary-client-secret',
    refreshToken: first,
  })
  const forced: { status?: number } = {}
  const shop = await serveShop((asked) => {
    const answer = issuer.answer(asked)
    return forced.status === undefined
      ? answer
      : { status: forced.status, body: { error: 'unknown' } }
  })
  onTestFinished(() => shop.close())
  const agent = new Agent()
  onTestFinished(() => agent.close())
  const logged: string[] = []
  const note = (fields: object, message: string) => {
    logged.push(JSON.stringify({ ...fields, message }))
  }
  const process = (processId: string, change: Partial<GrantKeeperDeps> = {}) => {
    const keeper = new GrantKeeper({
      database,
      encryption: createEncryption([key]),
      now: () => new Date(clock.at),
      sleep: () => new Promise((resolve) => setTimeout(resolve, 5)),
      processId,
      log: { warn: note, error: note },
      ...change,
    })
    const settings = (refreshToken = first) => ({
      grant: 'refresh_token' as const,
      tokenUrl: written(`${shop.url}/oauth/token`),
      clientId: written('4242'),
      clientSecret: new Secret('canary-client-secret', 'X'),
      refreshToken: new Secret(refreshToken, `\${env:MELI_REFRESH_TOKEN}`),
      clientAuth: 'form' as const,
    })
    const usedBy = { flow: `precios-${serial}`, destination: 'tienda' }
    const tokensOf = (refreshToken?: string) =>
      keeper.tokens(settings(refreshToken), { agent, timeoutMs: 5_000, usedBy })
    return { ...tokensOf(), keeper, tokensOf }
  }
  const rows = () => database.db.selectFrom('oauth_grants').selectAll().execute()
  const row = async () =>
    (await rows()).find(({ used_by }) => used_by === `precios-${serial}/tienda`)
  const errors = () =>
    database.db
      .selectFrom('flow_errors')
      .selectAll()
      .where('flow', '=', `precios-${serial}`)
      .execute()
  return { first, clock, issuer, shop, forced, logged, process, row, errors }
}

/** A database that fails where `when` returns true. */
function failing(when: (name: PropertyKey) => boolean): Database {
  const db = new Proxy(database.db, {
    get(target, name) {
      if (when(name)) throw new Error('the database is away')
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  return { ...database, db }
}

const written = (text: string) => new Secret([{ text, isWritten: true }], text)

test('each renewal uses the token of the one before, which is encrypted in the database and nowhere else', async () => {
  const { first, clock, issuer, logged, process, row } = await openIssuer()
  const one = process('one')
  expect(await one.get()).toBe('APP_USR-canary-access-1')
  expect(await one.get()).toBe('APP_USR-canary-access-1')
  clock.at += 6 * hours
  expect(await one.get()).toBe('APP_USR-canary-access-2')
  expect(issuer.renewals).toEqual([first, 'TG-canary-refresh-1'])
  const kept = await row()
  expect(JSON.stringify(kept)).not.toContain('canary')
  expect(
    createEncryption([key]).decrypt(kept?.refresh_token ?? '', grantContext(kept?.id ?? '')),
  ).toBe('TG-canary-refresh-2')
  expect(one.secrets()).toEqual(expect.arrayContaining([first, 'canary-client-secret']))
  expect(logged).toEqual([])
})

test('T13: processes that need a token at once renew it once, and use the same one', async () => {
  const { clock, issuer, process } = await openIssuer()
  const all = ['one', 'two', 'three'].map((name) => process(name))
  const again = () => Promise.all([...all, ...all].map((one) => one.get()))
  expect(new Set(await again())).toEqual(new Set(['APP_USR-canary-access-1']))
  clock.at += 6 * hours
  expect(new Set(await again())).toEqual(new Set(['APP_USR-canary-access-2']))
  expect(issuer.renewals).toHaveLength(2)
})

test('a restarted process uses the newest token, and requests none while the access token is valid', async () => {
  const { first, clock, issuer, process } = await openIssuer()
  await process('one').get()
  expect(await process('two').get()).toBe('APP_USR-canary-access-1')
  expect(issuer.renewals).toHaveLength(1)
  clock.at += 6 * hours
  await process('three').get()
  expect(issuer.renewals).toEqual([first, 'TG-canary-refresh-1'])
})

test('a receiver that refuses every token causes at most one renewal a minute', async () => {
  const { clock, issuer, process } = await openIssuer()
  const one = process('one')
  one.refused(await one.get())
  expect(await one.get()).toBe('APP_USR-canary-access-1')
  clock.at += 61 * seconds
  one.refused(await one.get())
  expect(await one.get()).toBe('APP_USR-canary-access-2')
  one.refused(await one.get())
  await one.get()
  expect(issuer.renewals).toHaveLength(2)
})

test('a renewed token is stored although the database fails at first, and a stop waits for it', async () => {
  const { clock, issuer, process } = await openIssuer()
  let left = 3
  const failsNow = failing((name) => {
    if (name !== 'updateTable' || issuer.renewals.length === 0 || left === 0) return false
    left -= 1
    return true
  })
  const one = process('one', { database: failsNow })
  const got = one.get()
  await expect.poll(() => issuer.renewals.length).toBe(1)
  await one.keeper.stop()
  expect(await got).toBe('APP_USR-canary-access-1')
  clock.at += 6 * hours
  expect(await process('two').get()).toBe('APP_USR-canary-access-2')
})

/** Simulates a process that is killed after the issuer has responded: it writes nothing more. */
async function killedBeforeCommit(one: Awaited<ReturnType<typeof openIssuer>>) {
  const killed = one.process('killed', {
    database: failing(() => one.issuer.renewals.length > 0),
  })
  const got = killed.get().catch((error: Error) => error.message)
  await expect.poll(() => one.issuer.renewals.length).toBe(1)
  await killed.keeper.stop()
  expect(await got).toBe('the database is away')
}

test('T13: a process killed between the answer and its commit loses the access: the next one waits, tries, and reports it', {
  tags: ['long'],
}, async () => {
  const one = await openIssuer()
  await killedBeforeCommit(one)
  const next = one.process('next')
  // The killed process might only be paused: its tokens could still arrive.
  await expect(next.get()).rejects.toThrow('another process renews it, or was cut while it did')
  expect(one.shop.asked).toHaveLength(1)
  one.clock.at += 31 * seconds
  const reason =
    /^no access token: the issuer refused the refresh token \(invalid_grant\)\. A renewal of 2026-11-21T12:00:00.000Z ended before its answer was stored, so the new token is lost. Authorize the application again, put the new refresh token into \$\{env:MELI_REFRESH_TOKEN\}/
  await expect(next.get()).rejects.toThrow(reason)
  expect(one.shop.asked).toHaveLength(2)
  // From then on no token is requested.
  one.clock.at += hours
  await expect(next.get()).rejects.toThrow(reason)
  await expect(one.process('later').get()).rejects.toThrow(reason)
  expect(one.shop.asked).toHaveLength(2)
  expect(await one.errors()).toMatchObject([
    { adapter: 'tienda', pk: '', error: expect.stringMatching(reason) },
  ])
  expect(one.logged.filter((line) => line.includes('OAuth access lost'))).toHaveLength(1)
  expect(JSON.stringify([one.logged, await one.errors()])).not.toContain('canary')
})

test('an issuer that used the token before its answer was lost may accept it again: the access continues', async () => {
  const one = await openIssuer()
  one.forced.status = 503
  await expect(one.process('one').get()).rejects.toThrow('no access token: HTTP 503')
  expect(await one.row()).toMatchObject({ renewal_began_at: null, unheard_since: new Date(start) })
  delete one.forced.status
  // Simulates an issuer that accepts the previous token for a while.
  const fresh = createIssuer({
    clientId: '4242',
    clientSecret: 'canary-client-secret',
    refreshToken: one.first,
  })
  one.issuer.answer = fresh.answer
  expect(await one.process('two').get()).toBe('APP_USR-canary-access-1')
  expect(await one.row()).toMatchObject({ unheard_since: null, lost_at: null })
})

test('a suspended process that stores its tokens late restores an access that was given up meanwhile', async () => {
  const one = await openIssuer()
  let isBlocked = true
  const stuck = failing(
    (name) => name === 'updateTable' && one.issuer.renewals.length > 0 && isBlocked,
  )
  const slow = one.process('slow', { database: stuck })
  const brought = slow.get()
  await expect.poll(() => one.issuer.renewals.length).toBe(1)
  one.clock.at += 31 * seconds
  await expect(one.process('other').get()).rejects.toThrow('invalid_grant')
  isBlocked = false
  expect(await brought).toBe('APP_USR-canary-access-1')
  expect(await one.process('third').get()).toBe('APP_USR-canary-access-1')
})

test('a page in place of the answer of the issuer loses no access and blocks nothing', async () => {
  const { clock, shop, process, row } = await openIssuer()
  for (const status of [200, 400, 401, 403, 404]) {
    shop.interrupt(() => ({ status, body: '<!DOCTYPE html><html></html>' }))
    await expect(process('one').get()).rejects.toMatchObject({ isForeign: true, isOutage: true })
    expect(await row()).toMatchObject({ lost_at: null, unheard_since: expect.any(Date) })
    clock.at += 60 * seconds
  }
  shop.interrupt(() => undefined)
  expect(await process('one').get()).toBe('APP_USR-canary-access-1')
})

test('an issuer that issues no other refresh token gets the same one again', async () => {
  const one = await openIssuer()
  let asked = 0
  one.issuer.answer = ({ body }) => {
    asked += 1
    expect(new URLSearchParams(String(body)).get('refresh_token')).toBe(one.first)
    return { status: 200, body: { access_token: `APP_USR-canary-${asked}`, expires_in: 3_600 } }
  }
  const tokens = one.process('one')
  expect(await tokens.get()).toBe('APP_USR-canary-1')
  one.clock.at += hours
  expect(await tokens.get()).toBe('APP_USR-canary-2')
})

test('another first token in the flow file starts again, also after a loss', async () => {
  const one = await openIssuer()
  await one.process('one').get()
  one.issuer.revoke()
  one.clock.at += 6 * hours
  await expect(one.process('one').get()).rejects.toThrow(
    'it was revoked, another installation used it',
  )
  const again = createIssuer({
    clientId: '4242',
    clientSecret: 'canary-client-secret',
    refreshToken: 'TG-canary-other-one',
  })
  one.issuer.answer = again.answer
  expect(await one.process('two').tokensOf('TG-canary-other-one').get()).toMatch(/^APP_USR/)
  expect(again.renewals).toEqual(['TG-canary-other-one'])
})

test('a client that the issuer does not know loses no access: a token is requested again when that is repaired', async () => {
  const one = await openIssuer()
  const answer = one.issuer.answer
  one.issuer.answer = () => ({ status: 401, body: { error: 'invalid_client' } })
  await expect(one.process('one').get()).rejects.toThrow(
    'no access token: HTTP 401 invalid_client; see tokenUrl, clientId, clientSecret',
  )
  one.issuer.answer = answer
  expect(await one.process('one').get()).toBe('APP_USR-canary-access-1')
})

test('T14: secrets:rotate encrypts it again; with a lost key the access is given up, and its reason says so', async () => {
  const one = await openIssuer()
  await one.process('one').get()
  const fresh = { id: 'k2', key: randomBytes(32) }
  // A start without the key is refused.
  expect(await checkEncryptionKeys(database.db, [fresh])).toEqual([
    { id: 'k1', kind: 'missing', uses: ['tokens of destinations of flows'] },
  ])
  const deps = { database, now: () => new Date(one.clock.at) }
  const rotated = await rotateSecrets(deps, [fresh, key])
  expect(rotated).toMatchObject({ unreadable: [], left: [] })
  expect(rotated.renewed).toBeGreaterThanOrEqual(2)
  // A process without the new key waits and loses nothing.
  await expect(one.process('old').get()).rejects.toThrow('sealed with the key k2')
  const encryption = createEncryption([fresh])
  expect(await one.process('new', { encryption }).get()).toBe('APP_USR-canary-access-1')
  one.clock.at += 6 * hours
  expect(await one.process('new', { encryption }).get()).toBe('APP_USR-canary-access-2')

  const third = { id: 'k3', key: randomBytes(32) }
  const givenUp = await rotateSecrets(deps, [third], ['k2'])
  expect(givenUp).toMatchObject({ left: [] })
  expect(givenUp.givenUp).toContainEqual({
    use: 'tokens of destinations of flows',
    owner: (await one.row())?.used_by,
  })
  const last = one.process('new', { encryption: createEncryption([third]) })
  await expect(last.get()).rejects.toThrow(
    'the encryption key of the newest refresh token was lost',
  )
})
