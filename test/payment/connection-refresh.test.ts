import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { DatabaseUnavailableError } from '../../src/db/database-failures.ts'
import type { AppError } from '../../src/errors/app-error.ts'
import { renewConnection, renewDueConnections } from '../../src/payments/connection/oauth-tokens.ts'
import type { PaymentDeps } from '../../src/payments/deps.ts'
import { serviceActor } from '../../src/payments/request-context.ts'
import nock, { useNock } from '../support/nock.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, connect, enrol, openShop, sandboxCall, type Till } from '../support/till.ts'

const dayMs = 24 * 3600_000

// Before the service starts, because nock does not intercept connections that are already open.
useNock()
let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterEach(async () => {
  // Hooks run from the last to the first: a reply that is still planned would answer the request below.
  nock.cleanAll()
  await sandboxCall(service, 'DELETE', '/_sandbox/faults')
})
afterAll(async () => {
  await service.stop()
})

function refresh({ key }: Till) {
  return call(service, { method: 'POST', url: '/oauth/refresh', token: key })
}

async function tokensOf(client: string): Promise<{ access_token: string; refresh_token: string }> {
  return (await asAdmin(service, { url: `/admin/clients/${client}` })).json().oauth
}

async function rowOf(client: string) {
  return service.database.db
    .selectFrom('oauth_connections')
    .selectAll()
    .where('client', '=', client as never)
    .executeTakeFirstOrThrow()
}

async function refreshCalls(): Promise<number> {
  const { requests } = (await sandboxCall(service, 'GET', '/_sandbox/requests')) as {
    requests: { path: string; body: { grant_type?: string } }[]
  }
  return requests.filter(
    ({ path, body }) => path === '/oauth/token' && body.grant_type === 'refresh_token',
  ).length
}

const forgetCalls = () => sandboxCall(service, 'DELETE', '/_sandbox/requests')
const fault = (rule: object) => sandboxCall(service, 'PUT', '/_sandbox/faults', [rule])

test('a refresh stores a new pair with a later expiry and is audited', async () => {
  const till = await enrol(service, 'acme', '801')
  const before = await tokensOf('acme')
  service.clock.advance(dayMs)
  const answer = await refresh(till)
  expect(answer.statusCode).toBe(200)
  expect(answer.json()).toEqual({
    message: expect.any(String),
    clientName: 'acme',
    expiresAt: expect.stringMatching(/Z$/),
  })
  const after = await tokensOf('acme')
  expect(after.access_token).not.toBe(before.access_token)
  expect(after.refresh_token).not.toBe(before.refresh_token)
  const row = await rowOf('acme')
  expect(row.expires_at.toISOString()).toBe(answer.json().expiresAt)
  expect(row.refresh_started_at).toBeNull()
  expect(row.version).toBe(2)
  const log = (await asAdmin(service, { url: '/admin/activity?client=acme' })).json().logs
  expect(log).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ action: 'oauth.refreshed', status: 'success' }),
    ]),
  )
  // The new pair works, and so does the next refresh made from it.
  expect((await call(service, { url: '/terminals', token: till.key })).statusCode).toBe(200)
  expect((await refresh(till)).statusCode).toBe(200)
})

test('no table and no log line contains a token in clear', async () => {
  await enrol(service, 'encrypted', '802')
  const { access_token, refresh_token } = await tokensOf('encrypted')
  expect(access_token).toMatch(/^APP_USR-/)
  expect(refresh_token).toMatch(/^TG-/)
  const tables = await sql<{ name: string }>`
    select tablename as name from pg_tables where schemaname = 'public'`.execute(
    service.database.db,
  )
  for (const { name } of tables.rows) {
    const dump = await sql`select to_jsonb(t) as row from ${sql.table(name)} t`.execute(
      service.database.db,
    )
    const text = JSON.stringify(dump.rows)
    expect(text.includes(access_token), name).toBe(false)
    expect(text.includes(refresh_token), name).toBe(false)
  }
  const log = service.logLines.join('')
  expect(log.includes(access_token) || log.includes(refresh_token)).toBe(false)
})

test('T14: a token that was moved to the row of another client cannot be decrypted', async () => {
  const till = await enrol(service, 'swap-1', '803')
  await enrol(service, 'swap-2', '804')
  await service.database.db
    .updateTable('oauth_connections')
    .set({ access_token: (await rowOf('swap-2')).access_token })
    .where('client', '=', 'swap-1' as never)
    .execute()
  await forgetCalls()
  const answer = await call(service, { url: '/terminals', token: till.key })
  expect([answer.statusCode, answer.json().code]).toEqual([409, 'CONNECTION_LOST'])
  const { requests } = (await sandboxCall(service, 'GET', '/_sandbox/requests')) as {
    requests: unknown[]
  }
  expect(requests).toEqual([])
})

test('concurrent refreshes make one provider call and all answer with the same expiry', {
  tags: ['long'],
}, async () => {
  const till = await enrol(service, 'crowd', '805')
  // Long enough that on the busiest machine the last request comes before the first answer.
  await fault({ path: '/oauth/token', kind: 'latency', delay_ms: 500 })
  for (let round = 0; round < 2; round++) {
    await forgetCalls()
    const answers = await Promise.all(Array.from({ length: 6 }, () => refresh(till)))
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 200, 200, 200])
    expect(new Set(answers.map((answer) => answer.json().expiresAt)).size).toBe(1)
    expect(await refreshCalls()).toBe(1)
  }
})

test('T13: two processes that refresh at the same time make one provider call', async () => {
  const till = await enrol(service, 'two-processes', '806')
  const other = anotherProcess()
  const { version } = await rowOf('two-processes')
  await fault({ path: '/oauth/token', kind: 'latency', delay_ms: 30 })
  await forgetCalls()
  const actor = serviceActor(service.clock.now())
  const [answer, row] = await Promise.all([
    refresh(till),
    renewConnection(other, 'two-processes' as never, version, actor),
  ])
  expect(answer.statusCode).toBe(200)
  expect(row.expires_at.toISOString()).toBe(answer.json().expiresAt)
  expect(row.version).toBe(version + 1)
  expect(await refreshCalls()).toBe(1)
})

test('a refused refresh loses the connection: routes that call the provider are 409, local reads still work', async () => {
  const till = await openShop(service, 'refused', '807')
  await sandboxCall(service, 'POST', '/_sandbox/users/807/revoke')
  const answer = await refresh(till)
  expect([answer.statusCode, answer.json().code]).toEqual([409, 'CONNECTION_LOST'])
  await forgetCalls()
  const ask = async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, body?: object) => {
    const response = await call(service, { method, url, token: till.key, ...(body && { body }) })
    return `${response.statusCode} ${response.json().code ?? ''}`.trim()
  }
  const lost = '409 CONNECTION_LOST'
  expect(await ask('POST', '/oauth/refresh')).toBe(lost)
  expect(await ask('GET', '/terminals')).toBe(lost)
  expect(
    await ask('PATCH', '/terminals/operating-mode', {
      caja_id: 'CAJA-1',
      operating_mode: 'STANDALONE',
    }),
  ).toBe(lost)
  expect(await ask('DELETE', '/stores/SUC-1/pos/CAJA-1')).toBe(lost)
  expect(
    await ask('POST', '/stores/SUC-1/pos', { pos: [{ name: 'Caja 2', external_id: 'C2' }] }),
  ).toBe(lost)
  expect(
    await ask('POST', '/orders', {
      caja_id: 'CAJA-1',
      external_reference: 'T-1',
      amount: '1,00',
    }),
  ).toBe(lost)
  expect(await ask('GET', '/stores')).toBe('200')
  expect(await ask('GET', '/oauth/status')).toBe('200')
  expect(await refreshCalls()).toBe(0)
  expect((await asAdmin(service, { url: '/admin/clients' })).json().clients).toEqual(
    expect.arrayContaining([expect.objectContaining({ client: 'refused', connection: 'lost' })]),
  )
  const log = (await asAdmin(service, { url: '/admin/activity?client=refused' })).json().logs
  expect(log).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        action: 'oauth.refreshed',
        status: 'failed',
        error_message: expect.stringMatching(/^CONNECTION_LOST/),
      }),
    ]),
  )
})

test('wrong credentials of the application do not disconnect a client', async () => {
  const till = await enrol(service, 'innocent', '808')
  await fault({ path: '/oauth/token', kind: 'status', status: 400, code: 'invalid_client' })
  const answer = await refresh(till)
  expect([answer.statusCode, answer.json().code]).toEqual([502, 'PROVIDER_REJECTED'])
  expect((await rowOf('innocent')).status).toBe('connected')
  await sandboxCall(service, 'DELETE', '/_sandbox/faults')
  expect((await refresh(till)).statusCode).toBe(200)
})

test('a refresh that had no effect at the provider can be repeated', async () => {
  const till = await enrol(service, 'patient', '809')
  for (const kind of ['drop_before', '500', '429']) {
    await fault({ path: '/oauth/token', kind, count: 1 })
    const answer = await refresh(till)
    expect(answer.statusCode, kind).toBe({ drop_before: 504, '500': 502, '429': 429 }[kind])
    expect((await refresh(till)).statusCode, kind).toBe(200)
  }
})

test('after a renewal whose answer was lost the old token is tried once more, then the access token stays in use', async () => {
  const till = await enrol(service, 'unlucky', '810')
  await fault({ path: '/oauth/token', kind: 'drop_after', count: 1 })
  const answer = await refresh(till)
  expect([answer.statusCode, answer.json().code]).toEqual([504, 'PROVIDER_TIMEOUT'])
  // No process can receive the pair any more, so none waits for it.
  expect((await rowOf('unlucky')).refresh_started_at).toBeNull()
  // The connection is not lost: the old access token still works.
  expect((await call(service, { url: '/terminals', token: till.key })).statusCode).toBe(200)
  const again = await refresh(till)
  expect([again.statusCode, again.json().code]).toEqual([409, 'CONFLICT'])
  expect(service.logLines.join('\n')).toContain('connect the client again before')
  expect(await rowOf('unlucky')).toMatchObject({ status: 'connected', refresh_token: null })
  expect((await call(service, { url: '/terminals', token: till.key })).statusCode).toBe(200)
})

/** Renews while the answer of the provider is delayed until `meanwhile` is done. */
async function renewDuring(
  client: string,
  meanwhile: () => Promise<unknown>,
  more: Partial<PaymentDeps> = {},
): Promise<unknown> {
  const { provider } = service.deps
  const asked = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const delayedRefresh = async (token: string) => {
    const outcome = await Promise.allSettled([provider.oauth.refresh(token)])
    asked.resolve()
    await release.promise
    if (outcome[0].status === 'rejected') throw outcome[0].reason
    return outcome[0].value
  }
  const deps = {
    ...service.deps,
    provider: { ...provider, oauth: { ...provider.oauth, refresh: delayedRefresh } },
    ...more,
  }
  const actor = serviceActor(service.clock.now())
  const { version } = await rowOf(client)
  const renewal = renewConnection(deps, client as never, version, actor).catch(String)
  await asked.promise
  try {
    await meanwhile()
  } finally {
    release.resolve()
  }
  return renewal
}

/** Connects another account in place of the first. */
async function reconnect(till: Till, account: string): Promise<void> {
  const { client } = till
  await call(service, { method: 'POST', url: '/oauth/logout', token: till.key })
  await asAdmin(service, { method: 'POST', url: `/admin/clients/${client}/unpin` })
  expect((await connect(service, client, account, adminToken)).statusCode).toBe(200)
}

test('a running renewal does not change a connection that was made again meanwhile', async () => {
  const till = await enrol(service, 'restless', '830')
  let made: unknown
  await renewDuring('restless', async () => {
    await reconnect(till, '831')
    made = await tokensOf('restless')
  })
  expect(made).toMatchObject({ access_token: expect.stringMatching(/-831$/) })
  expect(await tokensOf('restless')).toEqual(made)
})

test('a refused renewal does not lose a connection that was made again meanwhile', async () => {
  const till = await enrol(service, 'phoenix', '832')
  await sandboxCall(service, 'POST', '/_sandbox/users/832/revoke')
  await renewDuring('phoenix', () => reconnect(till, '833'))
  expect(await rowOf('phoenix')).toMatchObject({ status: 'connected', mp_user_id: 833 })
})

/** The same database, keys and provider under another process id and without shared memory. */
const anotherProcess = () => ({
  ...service.deps,
  processId: 'another-process',
  once: <T>(_key: string, work: () => Promise<T>) => work(),
})

/** Another process renews the current pair, because the first has lost its lease. Returns what happened, or the error code. */
async function renewElsewhere(client: string): Promise<unknown> {
  await service.database.db
    .updateTable('leases')
    .set({ deadline: new Date(0) })
    .where('name', '=', `oauth:${client}`)
    .execute()
  const { version } = await rowOf(client)
  const renewal = renewConnection(
    anotherProcess(),
    client as never,
    version,
    serviceActor(service.clock.now()),
  )
  return renewal.then(
    (row) => (row.version === version ? 'kept' : 'renewed'),
    (error: AppError) => error.code,
  )
}

test('while a renewing process is suspended no other uses the refresh token, and its pair is stored', async () => {
  const till = await enrol(service, 'stands still', '834')
  let elsewhere: unknown
  await forgetCalls()
  await renewDuring('stands still', async () => {
    service.clock.advance(13_000)
    elsewhere = await renewElsewhere('stands still')
  })
  expect(elsewhere).toBe('SERVICE_UNAVAILABLE')
  expect(await refreshCalls()).toBe(1)
  expect(await rowOf('stands still')).toMatchObject({ status: 'connected', version: 2 })
  expect((await refresh(till)).statusCode).toBe(200)
})

test('a pair that comes after its old refresh token was refused replaces it', async () => {
  const till = await enrol(service, 'late pair', '835')
  let elsewhere: unknown
  await renewDuring('late pair', async () => {
    service.clock.advance(31_000)
    elsewhere = await renewElsewhere('late pair')
    expect(await rowOf('late pair')).toMatchObject({ status: 'connected', refresh_token: null })
  })
  expect(elsewhere).toBe('kept')
  expect(await rowOf('late pair')).toMatchObject({ status: 'connected', version: 2 })
  expect((await call(service, { url: '/terminals', token: till.key })).statusCode).toBe(200)
  expect((await refresh(till)).statusCode).toBe(200)
})

test('T13: after a crash during a renewal the old token is tried once the answer can no longer come', async () => {
  const till = await enrol(service, 'crashed renewing', '836')
  await service.database.db
    .updateTable('oauth_connections')
    .set({ refresh_started_at: service.clock.now() })
    .where('client', '=', 'crashed renewing' as never)
    .execute()
  await forgetCalls()
  const early = await refresh(till)
  expect([early.statusCode, early.json().code]).toEqual([503, 'SERVICE_UNAVAILABLE'])
  expect(await refreshCalls()).toBe(0)
  service.clock.advance(31_000)
  expect((await refresh(till)).statusCode).toBe(200)
})

/** A database that commits nothing while `isAway`. */
function unsteady() {
  const state = { isAway: false, refused: 0 }
  const transaction: Database['transaction'] = (work) => {
    if (!state.isAway) return service.database.transaction(work)
    state.refused += 1
    return Promise.reject(new DatabaseUnavailableError('away'))
  }
  return { state, database: { ...service.database, transaction } }
}

test('a new pair is stored although the database was unavailable when it came', async () => {
  const till = await enrol(service, 'away', '837')
  const { state, database } = unsteady()
  const renewal = renewDuring(
    'away',
    async () => {
      state.isAway = true
    },
    { database },
  )
  await expect.poll(() => state.refused, { interval: 5 }).toBeGreaterThan(3)
  expect(await rowOf('away')).toMatchObject({ status: 'connected', version: 1 })
  state.isAway = false
  expect(await renewal).toMatchObject({ version: 2 })
  expect((await refresh(till)).statusCode).toBe(200)
})

test('a process that stops first stores the pair that it has received', {
  tags: ['long'],
}, async () => {
  const till = await enrol(service, 'stops', '838')
  const { state, database } = unsteady()
  const stopping = await startTestService({ twinOf: service, database })
  await fault({ path: '/oauth/token', kind: 'latency_after', delay_ms: 200, count: 1 })
  await forgetCalls()
  const answer = call(stopping, { method: 'POST', url: '/oauth/refresh', token: till.key })
  answer.catch(() => undefined)
  await expect.poll(refreshCalls, { interval: 5 }).toBe(1)
  state.isAway = true
  const ended = stopping.close()
  await expect.poll(() => state.refused, { interval: 5 }).toBeGreaterThan(1)
  state.isAway = false
  await ended
  expect(await rowOf('stops')).toMatchObject({ status: 'connected', version: 2 })
  await answer
  await stopping.app.close()
  expect((await refresh(till)).statusCode).toBe(200)
})

test('fields that the provider omits in a renewal keep their values', async () => {
  const till = await enrol(service, 'sparse', '811')
  const before = await rowOf('sparse')
  nock(service.sandbox.url)
    .post('/oauth/token')
    .reply(200, { access_token: 'APP_USR-new-token', token_type: 'bearer', expires_in: 3600 })
  expect((await refresh(till)).statusCode).toBe(200)
  const after = await rowOf('sparse')
  expect((await tokensOf('sparse')).access_token).toBe('APP_USR-new-token')
  expect(after.refresh_token).toBe(before.refresh_token)
  expect(after).toMatchObject({
    public_key: before.public_key,
    live_mode: before.live_mode,
    mp_user_id: 811,
  })
})

test('a token that the provider refuses is renewed once, and the call is repeated', async () => {
  const till = await enrol(service, 'stale', '812')
  await forgetCalls()
  await fault({ path: '/terminals/v1/list', kind: 'status', status: 401, count: 1 })
  expect((await call(service, { url: '/terminals', token: till.key })).statusCode).toBe(200)
  expect(await refreshCalls()).toBe(1)
})

test('a provider that refuses every token causes one renewal a minute, not one a call', async () => {
  const till = await enrol(service, 'every token refused', '851')
  await forgetCalls()
  const refusal = { path: '/terminals/v1/list', kind: 'status', status: 401 }
  await fault({ ...refusal, count: 100 })
  const list = () => call(service, { url: '/terminals', token: till.key })
  for (let round = 0; round < 5; round += 1) {
    expect((await list()).statusCode).toBe(409)
    service.clock.advance(10_000)
  }
  expect(await refreshCalls()).toBe(1)
  service.clock.advance(10_000)
  expect((await list()).statusCode).toBe(409)
  expect(await refreshCalls()).toBe(2)
  await sandboxCall(service, 'DELETE', '/_sandbox/faults')
  expect((await list()).statusCode).toBe(200)
  expect(await refreshCalls()).toBe(2)
})

test('a token close to its expiry is renewed before it is used', async () => {
  const till = await enrol(service, 'aged', '813')
  const { expires_at } = await rowOf('aged')
  service.clock.advance(expires_at.getTime() - service.clock.now().getTime() - 30_000)
  await forgetCalls()
  expect((await call(service, { url: '/terminals', token: till.key })).statusCode).toBe(200)
  expect(await refreshCalls()).toBe(1)
})

test('tokens past half of their lifetime are renewed by the background job', async () => {
  await enrol(service, 'young', '814')
  service.clock.advance(89 * dayMs)
  await enrol(service, 'younger', '815')
  const youngBefore = await rowOf('young')
  await renewDueConnections(service.deps)
  expect((await rowOf('young')).version).toBe(youngBefore.version)
  service.clock.advance(2 * dayMs)
  await renewDueConnections(service.deps)
  expect((await rowOf('young')).version).toBe(youngBefore.version + 1)
  expect((await rowOf('younger')).version).toBe(1)
})

test('a connection without a refresh token is usable until the access token expires', async () => {
  const till = await enrol(service, 'unrenewable', '816')
  const { expires_at } = await rowOf('unrenewable')
  await service.database.db
    .updateTable('oauth_connections')
    .set({ refresh_token: null })
    .where('client', '=', 'unrenewable' as never)
    .execute()
  const read = () => call(service, { url: '/terminals', token: till.key })

  service.clock.advance(expires_at.getTime() - service.clock.now().getTime() - 30_000)
  await renewDueConnections(service.deps)
  expect((await rowOf('unrenewable')).status).toBe('connected')
  const manual = await refresh(till)
  expect(manual.statusCode).toBe(409)
  expect(manual.json()).toMatchObject({ code: 'CONFLICT' })
  expect((await rowOf('unrenewable')).status).toBe('connected')
  expect((await read()).statusCode).toBe(200)

  service.clock.advance(31_000)
  expect((await read()).json()).toMatchObject({ code: 'CONNECTION_LOST' })
  expect((await rowOf('unrenewable')).status).toBe('lost')
})

const withoutRefresh = (till: Till, without: boolean) =>
  sandboxCall(service, 'PUT', '/_sandbox/tokens', {
    user_id: till.mpUserId,
    without_refresh: without,
  })

test('a refused refresh token does not lose an access token that still works', async () => {
  const till = await enrol(service, 'kept', '817')
  // The renewal brings no new refresh token, so the old one is kept; it works once.
  await withoutRefresh(till, true)
  expect((await refresh(till)).statusCode).toBe(200)
  const { expires_at: expiresAt } = await rowOf('kept')
  service.clock.advance(91 * dayMs)
  await renewDueConnections(service.deps)
  expect(await rowOf('kept')).toMatchObject({ status: 'connected', refresh_token: null })
  expect((await call(service, { url: '/terminals', token: till.key })).statusCode).toBe(200)
  const health = async () =>
    (await asAdmin(service, { url: '/health/fleet' }))
      .json()
      .connections.find(({ client }: { client: string }) => client === 'kept')
  expect((await health()).cause).not.toBe('connection_expiring')
  service.clock.advance(expiresAt.getTime() - service.clock.now().getTime() - 3 * dayMs)
  // An operator is warned days before the expiry.
  expect(await health()).toMatchObject({ state: 'attention', cause: 'connection_expiring' })
  expect((await call(service, { url: '/terminals', token: till.key })).statusCode).toBe(200)
  service.clock.advance(3 * dayMs)
  const over = await call(service, { url: '/terminals', token: till.key })
  expect([over.statusCode, over.json().code]).toEqual([409, 'CONNECTION_LOST'])
})

test('a single 401 does not lose a connection without a refresh token that the provider still accepts', async () => {
  const account = '818'
  await sandboxCall(service, 'POST', '/_sandbox/users', { id: Number(account) })
  await withoutRefresh({ mpUserId: Number(account) } as Till, true)
  const till = await enrol(service, 'one 401', account)
  await fault({ path: '^/terminals', kind: 'status', status: 401, count: 1 })
  expect((await call(service, { url: '/terminals', token: till.key })).statusCode).toBe(200)
  expect(await rowOf('one 401')).toMatchObject({ status: 'connected', refresh_token: null })
  await sandboxCall(service, 'POST', `/_sandbox/users/${account}/revoke`)
  const revoked = await call(service, { url: '/terminals', token: till.key })
  expect([revoked.statusCode, revoked.json().code]).toEqual([409, 'CONNECTION_LOST'])
  expect((await rowOf('one 401')).status).toBe('lost')
})
