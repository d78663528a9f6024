import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { triesOfAddress, triesOfName } from '../../src/payments/people/sign-in.ts'
import {
  by,
  codeAt,
  codeOf,
  cookieOf,
  cookiesOf,
  goodPassword,
  join,
  ownPage,
  signInAs,
} from '../support/people.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, createStore, enrol, type Till } from '../support/till.ts'

/** Hashing a password takes 0.1 s of processor time, and other work keeps the processors busy. */
vi.setConfig({ testTimeout: 120_000 })

let service: TestService
let acme: Till
let other: Till
beforeAll(async () => {
  service = await startTestService({ env: { AUTH_FAILURES_PER_MINUTE: '100000' } })
  acme = await enrol(service, 'acme', '9100001')
  other = await enrol(service, 'other', '9100002')
  await createStore(service, acme, { id: 'SUC-1', boxes: ['CAJA-1'] })
})
// Failed attempts are also counted by address, which is the same in every test.
beforeEach(() => service.database.db.deleteFrom('sign_in_failures').execute())
afterAll(() => service.stop())

const lastEntries = async (action: string) =>
  (await asAdmin(service, { url: `/admin/activity?action=${action}` })).json().logs

describe('an invitation of a person', () => {
  test('sets the password once and starts a session; neither code nor password is stored', async () => {
    const invited = await asAdmin(service, {
      url: '/people',
      body: { name: 'Ana', role: 'viewer', client: 'acme' },
    })
    expect(invited.statusCode).toBe(201)
    expect(invited.headers['cache-control']).toBe('no-store')
    const { link } = invited.json().invitation
    // In the fragment, which browsers do not send to servers.
    expect(link).toMatch(
      /^http:\/\/127\.0\.0\.1:3000\/dashboard#\/invitation\/[\w-]{43}\?name=Ana$/,
    )
    const body = { code: codeOf(invited), password: goodPassword }
    const accept = () => call(service, { url: '/account/invitation', headers: ownPage, body })
    const answers = await Promise.all([accept(), accept()])
    expect(answers.map(({ statusCode }) => statusCode).toSorted()).toEqual([200, 409])
    expect((await accept()).json().code).toBe('INVITATION_INVALID')
    const row = await service.database.db
      .selectFrom('people')
      .selectAll()
      .where('name', '=', 'Ana')
      .executeTakeFirstOrThrow()
    expect(row.password_hash).toMatch(/^scrypt\$10\$8\$1\$[\w-]{22}\$[\w-]{43}$/)
    const sessions = await service.database.db.selectFrom('sessions').selectAll().execute()
    const stored = JSON.stringify([row, sessions])
    expect(stored).not.toContain(body.code)
    expect(stored).not.toContain(goodPassword)
    const begun = answers.find(({ statusCode }) => statusCode === 200)
    expect(stored).not.toContain(cookieOf(begun as never).split('person.')[1])
    expect(begun?.json()).toMatchObject({ valid: true, type: 'client', client: 'acme' })
    expect(begun?.json().person).toMatchObject({ name: 'Ana', role: 'viewer' })
    expect(service.logLines.join('\n')).not.toContain(body.code)
  })

  test('ends after three days, and when a new one is made', async () => {
    const body = { name: 'late', role: 'viewer', client: 'acme' }
    const invited = await asAdmin(service, { url: '/people', body })
    const { id } = invited.json().person
    const again = await asAdmin(service, { method: 'POST', url: `/people/${id}/reset` })
    const accept = (code: string) =>
      call(service, {
        url: '/account/invitation',
        headers: ownPage,
        body: { code, password: goodPassword },
      })
    expect((await accept(codeOf(invited))).statusCode).toBe(409)
    service.clock.advance(3 * 24 * 3_600_000 + 1)
    expect((await accept(codeOf(again))).statusCode).toBe(409)
    const { people } = (await asAdmin(service, { url: '/people?client=acme' })).json()
    expect(people.find((one: { id: string }) => one.id === id).state).toBe('expired')
  })

  test.each([
    ['a short password', { password: 'elevenchars' }, 422],
    ['a page of another site', { headers: { ...ownPage, 'sec-fetch-site': 'cross-site' } }, 403],
    ['another code', { code: 'x'.repeat(43) }, 409],
  ])('is refused with %s', async (_name, given, status) => {
    const invited = await asAdmin(service, {
      url: '/people',
      body: { name: `refused ${status}`, role: 'viewer', client: 'acme' },
    })
    const { headers = ownPage, ...wrong } = given as { headers?: Record<string, string> }
    const body = { code: codeOf(invited), password: goodPassword, ...wrong }
    const answer = await call(service, { url: '/account/invitation', headers, body })
    expect(answer.statusCode).toBe(status)
  })

  beforeAll(async () => {
    const body = { name: 'Eli', role: 'viewer', client: 'acme' }
    expect((await asAdmin(service, { url: '/people', body })).statusCode).toBe(201)
  })

  test.each([
    ['a supervisor without stores', { role: 'supervisor', client: 'acme' }, 422],
    ['a store that does not exist', { role: 'supervisor', client: 'acme', stores: ['NONE'] }, 422],
    ['a viewer with stores', { role: 'viewer', client: 'acme', stores: ['SUC-1'] }, 422],
    ['a supervisor of no client', { role: 'supervisor', stores: ['SUC-1'] }, 422],
    ['a flow operator of a client', { role: 'flow_operator', client: 'acme' }, 422],
    ['an unknown client', { role: 'viewer', client: 'nobody' }, 404],
    ['an existing name with a space', { name: ' ELI', role: 'viewer', client: 'acme' }, 422],
    ['an existing name in another case', { name: 'ELI', role: 'viewer', client: 'acme' }, 409],
  ])('is refused for %s', async (_what, body, status) => {
    const answer = await asAdmin(service, { url: '/people', body: { name: 'nobody new', ...body } })
    expect(answer.statusCode).toBe(status)
  })
})

describe('T59: guesses of a password', () => {
  beforeAll(async () => {
    await join(service, { name: 'known', role: 'viewer', client: 'acme' })
  })

  test('all get the same answer, which reveals neither name nor password', async () => {
    const invited = await asAdmin(service, {
      url: '/people',
      body: { name: 'without password', role: 'viewer', client: 'acme' },
    })
    const revoked = await join(service, { name: 'revoked', role: 'viewer', client: 'acme' })
    await asAdmin(service, { method: 'POST', url: `/people/${revoked.id}/revoke` })
    expect(invited.statusCode).toBe(201)
    const answers = [
      await signInAs(service, { name: 'known', password: 'canary-wrong' }),
      await signInAs(service, { name: 'nobody at all' }),
      await signInAs(service, { name: 'without password' }),
      await signInAs(service, { name: 'revoked' }),
    ].map((answer) => {
      const { request_id, ...body } = answer.json()
      return JSON.stringify([answer.statusCode, body, answer.headers['set-cookie'] ?? null])
    })
    expect(new Set(answers).size).toBe(1)
    expect(answers[0]).toContain('[401,')
  })

  test('are limited to five a name from one address, known or not, and then the right password is refused too', async () => {
    await join(service, { name: 'locked', role: 'viewer', client: 'acme' })
    for (const name of ['locked', 'no such person']) {
      const statuses: number[] = []
      for (let round = 0; round < 7; round += 1) {
        // In another case it is the same name.
        const typed = round % 2 === 0 ? name : name.toUpperCase()
        const answer = await signInAs(service, { name: typed, password: 'canary-wrong' })
        statuses.push(answer.statusCode)
      }
      expect([name, statuses]).toEqual([name, [401, 401, 401, 401, 401, 429, 429]])
      const refused = await signInAs(service, { name })
      expect(refused.statusCode).toBe(429)
      expect(Number(refused.headers['retry-after'])).toBeGreaterThan(800)
    }
    service.clock.advance(15 * 60_000)
    expect((await signInAs(service, { name: 'locked' })).statusCode).toBe(200)
  })

  test('from elsewhere lock out neither a known browser, nor its open session, nor another address', async () => {
    const owner = await join(service, { name: 'owner', role: 'administrator' })
    const wrong = { name: 'owner', password: 'canary-wrong' }
    for (let round = 0; round < 7; round += 1) await signInAs(service, wrong)
    expect((await signInAs(service, { name: 'owner' })).statusCode).toBe(429)
    expect((await signInAs(service, { name: 'owner' }, { cookie: owner.device })).statusCode).toBe(
      200,
    )
    const elsewhere = await service.app.inject({
      method: 'POST',
      url: '/session',
      headers: ownPage,
      remoteAddress: '10.9.9.9',
      payload: { name: 'owner', password: goodPassword },
    })
    expect(elsewhere.statusCode).toBe(200)
    const change = await by(service, owner, {
      url: '/account/password',
      body: { current: goodPassword, password: goodPassword },
    })
    expect(change.statusCode).toBe(200)
  })

  test('of a whole address lock out no known browser', { tags: ['long'] }, async () => {
    const owner = await join(service, { name: 'behind a proxy', role: 'administrator' })
    const name = 'no such person'
    for (let round = 0; round < triesOfAddress + 1; round += 1) {
      await signInAs(service, { name: `${name} ${round}`, password: 'canary-wrong' })
    }
    expect((await signInAs(service, { name: owner.name })).statusCode).toBe(429)
    const known = await signInAs(service, { name: owner.name }, { cookie: owner.device })
    expect(known.statusCode).toBe(200)
  })

  test('in a known browser are limited to five too, and count for this browser and this person alone', async () => {
    const one = await join(service, { name: 'one', role: 'viewer', client: 'acme' })
    const two = await join(service, { name: 'two', role: 'viewer', client: 'acme' })
    // Both use this browser.
    const shared = cookiesOf(await signInAs(service, { name: 'two' }, { cookie: one.device }))[1]
    const headers = { cookie: String(shared) }
    const statuses: number[] = []
    for (let round = 0; round < 6; round += 1) {
      const wrong = { name: 'one', password: 'canary-wrong' }
      statuses.push((await signInAs(service, wrong, headers)).statusCode)
    }
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429])
    expect((await signInAs(service, { name: 'one' }, headers)).statusCode).toBe(429)
    expect((await signInAs(service, { name: 'two' }, headers)).statusCode).toBe(200)
    expect((await signInAs(service, { name: 'one' })).statusCode).toBe(200)
    expect((await signInAs(service, { name: 'two' }, { cookie: two.device })).statusCode).toBe(200)
  })

  test('with the cookie of another person or a made-up one count as those of an unknown browser', async () => {
    await join(service, { name: 'aim', role: 'viewer', client: 'acme' })
    const mallory = await join(service, { name: 'mallory', role: 'viewer', client: 'acme' })
    const statuses: number[] = []
    for (const cookie of [mallory.device, 'tillbridge-device=made-up', mallory.device, '', 'a=b']) {
      const wrong = { name: 'aim', password: 'canary-wrong' }
      statuses.push((await signInAs(service, wrong, { cookie })).statusCode)
    }
    const next = await signInAs(service, { name: 'aim' }, { cookie: mallory.device })
    expect([...statuses, next.statusCode]).toEqual([401, 401, 401, 401, 401, 429])
  })

  test('from many addresses are limited by the name', { tags: ['long'] }, async () => {
    await join(service, { name: 'spread', role: 'viewer', client: 'acme' })
    const statuses: number[] = []
    for (let round = 0; round < triesOfName + 1; round += 1) {
      const answer = await service.app.inject({
        method: 'POST',
        url: '/session',
        headers: ownPage,
        remoteAddress: `10.8.0.${round}`,
        payload: { name: 'spread', password: 'canary-wrong' },
      })
      statuses.push(answer.statusCode)
    }
    expect(statuses).toEqual([...Array(triesOfName).fill(401), 429])
  })

  test('inside a session are limited to five, and lock neither the name nor another session', async () => {
    const user = await join(service, { name: 'user', role: 'viewer', client: 'acme' })
    const confirm = (cookie: string, current: string) =>
      by(
        service,
        { cookie },
        { url: '/account/password', body: { current, password: goodPassword } },
      )
    const statuses: number[] = []
    for (let round = 0; round < 6; round += 1) {
      statuses.push((await confirm(user.cookie, 'canary-wrong')).statusCode)
    }
    expect(statuses).toEqual([422, 422, 422, 422, 422, 429])
    const other = await signInAs(service, { name: 'user' })
    expect(other.statusCode).toBe(200)
    expect((await confirm(cookieOf(other), goodPassword)).statusCode).toBe(200)
  })

  test('cannot exceed the limit by concurrent attempts', async () => {
    await join(service, { name: 'raced', role: 'viewer', client: 'acme' })
    const wrong = () => signInAs(service, { name: 'raced', password: 'canary-wrong' })
    const answers = await Promise.all(Array.from({ length: 12 }, wrong))
    const checked = answers.filter(({ statusCode }) => statusCode === 401)
    expect(checked.length).toBeLessThanOrEqual(5)
    expect((await signInAs(service, { name: 'raced' })).statusCode).toBe(429)
  })

  test('are limited by address too, and a sign-in resets the attempts of the name', async () => {
    await service.database.db
      .insertInto('sign_in_failures')
      .values({
        subject: 'address 127.0.0.1',
        failures: triesOfAddress - 1,
        until: new Date(service.clock.now().getTime() + 60_000),
      })
      .execute()
    const other = await signInAs(service, { name: 'nobody of that name', password: 'canary-wrong' })
    expect(other.statusCode).toBe(401)
    expect((await signInAs(service, { name: 'known' })).statusCode).toBe(429)
    service.clock.advance(61_000)
    for (let round = 0; round < 3; round += 1) {
      for (let wrong = 0; wrong < 4; wrong += 1) {
        await signInAs(service, { name: 'known', password: 'canary-wrong' })
      }
      expect((await signInAs(service, { name: 'known' })).statusCode).toBe(200)
    }
  })

  test('are logged with the person of that name, and never with the text typed', async () => {
    await signInAs(service, { name: 'canary-typed-a-password-here', password: 'canary-wrong' })
    await signInAs(service, { name: 'known', password: 'canary-wrong' })
    const logs = await lastEntries('session.refused')
    expect(JSON.stringify(logs)).not.toContain('canary')
    expect(
      logs.some((log: { metadata: { person?: string } }) => log.metadata.person === 'known'),
    ).toBe(true)
  })
})

describe('T54: a code of an authenticator app', () => {
  test('is required once it was confirmed, and each code is valid once', async () => {
    const eva = await join(service, { name: 'eva', role: 'viewer', client: 'acme' })
    const begun = await by(service, eva, { method: 'POST', url: '/account/totp' })
    const { secret, uri, qr } = begun.json()
    expect(uri).toContain(`secret=${secret}`)
    expect(qr.path).toMatch(/^(M\d+ \d+h1v1h-1z)+$/)
    expect(qr.size).toBeGreaterThan(20)
    // It is not required until the app has confirmed it.
    expect((await signInAs(service, { name: 'eva' })).statusCode).toBe(200)
    const confirm = (code: string) =>
      by(service, eva, { url: '/account/totp/confirm', body: { code } })
    expect((await confirm('000000')).statusCode).toBe(422)
    const first = codeAt(secret, service.clock.now())
    expect((await confirm(first)).statusCode).toBe(200)
    expect((await by(service, eva, { method: 'POST', url: '/account/totp' })).statusCode).toBe(409)
    const stored = await service.database.db
      .selectFrom('people')
      .select('totp_secret')
      .where('name', '=', 'eva')
      .executeTakeFirstOrThrow()
    expect(stored.totp_secret).not.toContain(secret)

    expect((await signInAs(service, { name: 'eva' })).statusCode).toBe(401)
    // The code that confirmed it is used up.
    expect((await signInAs(service, { name: 'eva', code: first })).statusCode).toBe(401)
    service.clock.advance(60_000)
    const code = codeAt(secret, service.clock.now())
    const both = await Promise.all([
      signInAs(service, { name: 'eva', code }),
      signInAs(service, { name: 'eva', code }),
    ])
    expect(both.map(({ statusCode }) => statusCode).toSorted()).toEqual([200, 401])
    expect((await signInAs(service, { name: 'eva', code })).statusCode).toBe(401)
    const spaced = `${codeAt(secret, new Date(service.clock.now().getTime() + 30_000)).slice(0, 3)} ${codeAt(secret, new Date(service.clock.now().getTime() + 30_000)).slice(3)}`
    expect((await signInAs(service, { name: 'eva', code: spaced })).statusCode).toBe(200)
    service.clock.advance(15 * 60_000)
    const old = codeAt(secret, new Date(service.clock.now().getTime() - 90_000))
    expect((await signInAs(service, { name: 'eva', code: old })).statusCode).toBe(401)

    const removed = (password: string) =>
      by(service, eva, { url: '/account/totp/remove', body: { password } })
    expect((await removed('canary-wrong')).statusCode).toBe(422)
    expect((await removed(goodPassword)).statusCode).toBe(200)
    expect((await signInAs(service, { name: 'eva' })).statusCode).toBe(200)
  })

  test('a wrong code does not use up a code, and a right one without the password does not either', async () => {
    const leo = await join(service, { name: 'leo', role: 'viewer', client: 'acme' })
    const { secret } = (await by(service, leo, { method: 'POST', url: '/account/totp' })).json()
    const confirmed = codeAt(secret, service.clock.now())
    await by(service, leo, { url: '/account/totp/confirm', body: { code: confirmed } })
    service.clock.advance(60_000)
    const code = codeAt(secret, service.clock.now())
    const wrong = await signInAs(service, { name: 'leo', code, password: 'canary-wrong' })
    expect(wrong.statusCode).toBe(401)
    expect((await signInAs(service, { name: 'leo', code: '000000' })).statusCode).toBe(401)
    expect((await signInAs(service, { name: 'leo', code })).statusCode).toBe(200)
  })
})

describe('T55: a session of a person', () => {
  beforeAll(async () => {
    await join(service, { name: 'bea', role: 'viewer', client: 'acme' })
  })

  test('has a new id at each sign-in, and the earlier session of that browser ends', async () => {
    const planted = cookieOf(await signInAs(service, { name: 'bea' }))
    expect((await by(service, { cookie: planted }, { url: '/orders' })).statusCode).toBe(200)
    const answer = await signInAs(service, { name: 'bea' }, { cookie: planted })
    const own = cookieOf(answer)
    expect(own).not.toBe(planted)
    expect(answer.headers['set-cookie']).toEqual([
      expect.stringMatching(
        /^tillbridge-session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/,
      ),
      expect.stringMatching(
        /^tillbridge-device=[^;]+; Max-Age=15552000; Path=\/; HttpOnly; SameSite=Strict$/,
      ),
    ])
    expect((await by(service, { cookie: planted }, { url: '/orders' })).statusCode).toBe(401)
    expect((await by(service, { cookie: own }, { url: '/orders' })).statusCode).toBe(200)
    // A made-up cookie starts no session.
    const made = `tillbridge-session=${'A'.repeat(43)}`
    const fixed = cookieOf(await signInAs(service, { name: 'bea' }, { cookie: made }))
    expect(fixed).not.toBe(made)
    expect((await by(service, { cookie: made }, { url: '/orders' })).statusCode).toBe(401)
  })

  test('over https the cookie is bound to this host and to https', async () => {
    const secure = await startTestService({
      twinOf: service,
      publicUrl: 'https://pay.example',
    })
    const begun = await signInAs(secure, { name: 'bea' })
    expect(begun.headers['set-cookie']).toEqual([
      expect.stringMatching(
        /^__Host-tillbridge-session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
      ),
      expect.stringMatching(
        /^__Host-tillbridge-device=.*; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
      ),
    ])
    await secure.stop()
  })

  test('is accepted from a page of this service only, and for writing as JSON only', async () => {
    const { cookie } = { cookie: cookieOf(await signInAs(service, { name: 'bea' })) }
    const ask = (headers: Record<string, string>, url = '/account/password') =>
      service.app.inject({
        method: url === '/account' ? 'GET' : 'POST',
        url,
        headers: { cookie, ...headers },
        ...(url !== '/account' && { payload: '{"current":"x","password":"canary-another one"}' }),
      })
    const json = { 'content-type': 'application/json' }
    expect((await ask({ ...json, 'sec-fetch-site': 'same-origin' })).statusCode).toBe(422)
    for (const headers of [
      { ...json, 'sec-fetch-site': 'cross-site' },
      { ...json, 'sec-fetch-site': 'same-site' },
      { ...json, 'sec-fetch-site': 'none' },
      { ...json, origin: 'http://127.0.0.1:8080', host: '127.0.0.1:3000' },
      json,
      { 'sec-fetch-site': 'same-origin', 'content-type': 'text/plain' },
    ]) {
      expect([headers, (await ask(headers)).statusCode]).toEqual([headers, 401])
    }
    expect((await ask({ 'sec-fetch-site': 'cross-site' }, '/account')).statusCode).toBe(401)
    const foreign = await signInAs(service, { name: 'bea' }, { 'sec-fetch-site': 'cross-site' })
    expect([foreign.statusCode, foreign.headers['set-cookie']]).toEqual([403, undefined])
  })

  test('ends two hours after the last request, and twelve hours after the sign-in', async () => {
    const cookie = cookieOf(await signInAs(service, { name: 'bea' }))
    const status = async () => (await by(service, { cookie }, { url: '/orders' })).statusCode
    for (let hour = 0; hour < 11; hour += 1) {
      service.clock.advance(3_600_000)
      expect([hour, await status()]).toEqual([hour, 200])
    }
    service.clock.advance(3_600_000)
    expect(await status()).toBe(401)
    const idle = cookieOf(await signInAs(service, { name: 'bea' }))
    service.clock.advance(2 * 3_600_000 + 60_000)
    expect((await by(service, { cookie: idle }, { url: '/orders' })).statusCode).toBe(401)
  })

  test('ends at once by signing out, by its owner, by an administrator, and with the person', async () => {
    const third = await join(service, { name: 'dora', role: 'viewer', client: 'acme' })
    const one = async () => ({ cookie: cookieOf(await signInAs(service, { name: 'dora' })) })
    const [here, there] = [await one(), await one()]
    const isOpen = async (session: { cookie: string }) =>
      (await by(service, session, { url: '/session' })).json().valid
    await by(service, third, { method: 'DELETE', url: '/session' })
    expect(await isOpen(third)).toBe(false)
    const { sessions, person } = (await by(service, here, { url: '/account' })).json()
    const current = sessions.find((session: { is_current: boolean }) => session.is_current)
    const [elsewhere] = sessions.filter((session: { is_current: boolean }) => !session.is_current)
    await by(service, here, { method: 'DELETE', url: `/account/sessions/${elsewhere.id}` })
    expect([await isOpen(here), await isOpen(there)]).toEqual([true, false])
    const listed = await asAdmin(service, { url: `/people/${person.id}/sessions` })
    expect(listed.json().sessions.map(({ id }: { id: string }) => id)).toContain(current.id)
    await asAdmin(service, { method: 'DELETE', url: `/people/${person.id}/sessions` })
    expect(await isOpen(here)).toBe(false)
    const last = await one()
    await asAdmin(service, { method: 'POST', url: `/people/${person.id}/revoke` })
    expect(await isOpen(last)).toBe(false)
    expect((await by(service, last, { url: '/orders' })).statusCode).toBe(401)
    expect((await signInAs(service, { name: 'dora' })).statusCode).toBe(401)
    const again = await asAdmin(service, { method: 'POST', url: `/people/${person.id}/reset` })
    expect(again.statusCode).toBe(404)
  })

  test('cannot be ended by another person with its id', async () => {
    const one = await join(service, { name: 'one of two', role: 'viewer', client: 'acme' })
    const two = await join(service, { name: 'two of two', role: 'viewer', client: 'acme' })
    const { sessions } = (await by(service, two, { url: '/account' })).json()
    const url = `/account/sessions/${sessions[0].id}`
    expect((await by(service, one, { method: 'DELETE', url })).statusCode).toBe(404)
    expect((await by(service, two, { url: '/account' })).statusCode).toBe(200)
  })

  test('ends when another session changes the password, and the old password is refused', async () => {
    const ida = await join(service, { name: 'ida', role: 'viewer', client: 'acme' })
    const other = { cookie: cookieOf(await signInAs(service, { name: 'ida' })) }
    const change = (current: string) =>
      by(service, ida, {
        url: '/account/password',
        body: { current, password: 'canary-quite another' },
      })
    expect((await change('canary-wrong')).statusCode).toBe(422)
    expect((await change(goodPassword)).statusCode).toBe(200)
    expect((await by(service, ida, { url: '/account' })).statusCode).toBe(200)
    expect((await by(service, other, { url: '/account' })).statusCode).toBe(401)
    expect((await signInAs(service, { name: 'ida' })).statusCode).toBe(401)
    const changed = { name: 'ida', password: 'canary-quite another' }
    expect((await signInAs(service, changed)).statusCode).toBe(200)
  })

  test('has a changed role from the next request on', async () => {
    const rui = await join(service, { name: 'rui', role: 'administrator', client: 'acme' })
    expect((await by(service, rui, { url: '/people' })).statusCode).toBe(200)
    const changed = await asAdmin(service, {
      method: 'PATCH',
      url: `/people/${rui.id}`,
      body: { role: 'viewer', stores: null },
    })
    expect(changed.json()).toMatchObject({ role: 'viewer', stores: null })
    expect((await by(service, rui, { url: '/people' })).statusCode).toBe(403)
    expect((await by(service, rui, { url: '/orders' })).statusCode).toBe(200)
  })
})

describe('an administrator resets a person', () => {
  /** Resets the person when the next password was checked, which takes a tenth of a second. */
  const resetDuringCheck = (id: string) => {
    const { matches } = service.deps.passwords
    vi.spyOn(service.deps.passwords, 'matches').mockImplementationOnce(async (...given) => {
      const isRight = await matches(...given)
      const reset = await asAdmin(service, { method: 'POST', url: `/people/${id}/reset` })
      expect(reset.statusCode).toBe(200)
      return isRight
    })
  }
  const rowOf = (id: string) =>
    service.database.db
      .selectFrom('people')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow()

  test('while a sign-in checks the old password: it begins no session', async () => {
    const { id, name } = await join(service, { name: 'rita', role: 'viewer', client: 'acme' })
    resetDuringCheck(id)
    expect((await signInAs(service, { name })).statusCode).toBe(401)
    const { sessions } = (await asAdmin(service, { url: `/people/${id}/sessions` })).json()
    expect(sessions).toEqual([])
  })

  test('while that person changes the password: no password is set', async () => {
    const rosa = await join(service, { name: 'rosa', role: 'viewer', client: 'acme' })
    resetDuringCheck(rosa.id)
    const body = { current: goodPassword, password: 'canary-another long one' }
    const answer = await by(service, rosa, { url: '/account/password', body })
    expect([answer.statusCode, answer.json().details?.[0]?.path]).toEqual([422, 'password'])
    expect((await rowOf(rosa.id)).password_hash).toBeNull()
  })

  test('while that person removes the codes: nothing is removed', async () => {
    const ruth = await join(service, { name: 'ruth', role: 'viewer', client: 'acme' })
    resetDuringCheck(ruth.id)
    const body = { password: goodPassword }
    expect((await by(service, ruth, { url: '/account/totp/remove', body })).statusCode).toBe(422)
    const entries = await lastEntries('person.totp_off')
    expect(entries.map((one: { resource_id: string }) => one.resource_id)).not.toContain(ruth.id)
  })

  test('while that person confirms a code: the next sign-in needs none', async () => {
    const rene = await join(service, { name: 'rene', role: 'viewer', client: 'acme' })
    const { secret } = (await by(service, rene, { method: 'POST', url: '/account/totp' })).json()
    const code = codeAt(secret, service.clock.now())
    const { transaction } = service.database
    vi.spyOn(service.database, 'transaction').mockImplementationOnce(async (work) => {
      await asAdmin(service, { method: 'POST', url: `/people/${rene.id}/reset` })
      return transaction(work)
    })
    const answer = await by(service, rene, { url: '/account/totp/confirm', body: { code } })
    expect(answer.statusCode).toBe(409)
    expect(await rowOf(rene.id)).toMatchObject({ totp_on: false, totp_secret: null })
  })
})

test('T56: an administrator of a client manages the people of that client only', {
  tags: ['long'],
}, async () => {
  const boss = await join(service, { name: 'boss', role: 'administrator', client: 'acme' })
  const theirs = await join(service, { name: 'theirs', role: 'viewer', client: 'other' })
  const global = await join(service, { name: 'global', role: 'administrator' })
  const listed = (await by(service, boss, { url: '/people' })).json().people
  expect(new Set(listed.map(({ client }: { client: string }) => client))).toEqual(new Set(['acme']))
  expect((await by(service, boss, { url: '/people?client=other' })).statusCode).toBe(403)
  for (const { id } of [theirs, global]) {
    const missing = '3f8e1f0e-6c2d-4b5a-9a51-0c7c4f2f9d11'
    for (const [method, path, body] of [
      ['PATCH', '', { role: 'viewer', stores: null }],
      ['POST', '/reset', undefined],
      ['POST', '/revoke', undefined],
      ['GET', '/sessions', undefined],
      ['DELETE', '/sessions', undefined],
    ] as const) {
      const ask = async (of: string) => {
        const answer = await by(service, boss, { method, url: `/people/${of}${path}`, body })
        const { request_id, ...rest } = answer.json()
        return [answer.statusCode, rest]
      }
      expect(await ask(id)).toEqual(await ask(missing))
      expect((await ask(id))[0]).toBe(404)
    }
  }
  const invite = (client: string | null, role = 'viewer') =>
    by(service, boss, { url: '/people', body: { name: `of ${client} ${role}`, role, client } })
  expect((await invite('other')).statusCode).toBe(403)
  expect((await invite(null, 'flow_operator')).statusCode).toBe(422)
  const own = await invite(null)
  expect([own.statusCode, own.json().person.client]).toEqual([201, 'acme'])
  expect((await by(service, theirs, { url: '/orders' })).statusCode).toBe(200)
  expect((await by(service, theirs, { url: '/orders?client=acme' })).statusCode).toBe(403)
  expect((await by(service, global, { url: '/orders?client=acme' })).statusCode).toBe(200)
  expect(other.client).toBe('other')
  // An entry of a client names the person who acted.
  const entries = await lastEntries('person.invited')
  const entry = entries.find(
    (log: { metadata: { name: string } }) => log.metadata.name === 'of null viewer',
  )
  expect(entry).toMatchObject({
    client_name: 'acme',
    metadata: { person: 'boss', person_id: boss.id },
  })
})

test('API keys cannot manage people; the admin token can', async () => {
  expect((await call(service, { url: '/people', token: acme.key })).statusCode).toBe(403)
  expect((await call(service, { url: '/account', token: acme.key })).statusCode).toBe(403)
  expect((await asAdmin(service, { url: '/account' })).statusCode).toBe(403)
  expect((await asAdmin(service, { url: '/people' })).statusCode).toBe(200)
})
