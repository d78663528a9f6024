import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, connect, enrol, type Till } from '../support/till.ts'

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService({ env: { AUTH_FAILURES_PER_MINUTE: '100000' } })
  till = await enrol(service, 'acme', '901')
})
afterAll(() => service.stop())

async function works(key: string): Promise<boolean> {
  return (await call(service, { url: '/oauth/validate', token: key })).json().valid
}

async function listed(client: string) {
  const { keys } = (await asAdmin(service, { url: '/api-keys' })).json()
  return (keys as { client: string }[]).filter((key) => key.client === client)
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const revokeOne = (id: string) =>
  asAdmin(service, { url: '/api-keys/revoke', body: { key_id: id } })
const make = (body: object) => asAdmin(service, { url: '/api-keys', body })
const revoke = (client: string) => asAdmin(service, { url: '/api-keys/revoke', body: { client } })

test('POST /api-keys returns the value of a key once, with the account that it charges for', async () => {
  const answer = await make({ client: 'acme', description: 'Caja central' })
  expect(answer.statusCode).toBe(201)
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(answer.json()).toEqual({
    message: expect.any(String),
    id: expect.stringMatching(uuid),
    client: 'acme',
    key: expect.stringMatching(/^mk_[0-9a-f]{64}$/),
    mp_user_id: 901,
    nickname: 'TESTUSER901',
  })
})

test('the list has every field of a key, newest first, and never its value', async () => {
  const made = (await make({ client: 'acme', description: 'Kiosco «Ñ»' })).json()
  const { key } = made
  const answer = await asAdmin(service, { url: '/api-keys' })
  expect(answer.headers['cache-control']).toBe('no-store')
  const [newest] = await listed('acme')
  expect(newest).toEqual({
    id: made.id,
    client: 'acme',
    description: 'Kiosco «Ñ»',
    active: true,
    created_at: expect.stringMatching(/Z$/),
    last_used_at: null,
    key: `${key.slice(0, 7)}…${key.slice(-4)}`,
    mp_user_id: 901,
  })
  expect(answer.body).not.toMatch(/mk_[0-9a-f]{64}/)
  expect(answer.body).not.toContain(hashOf(key))
})

function hashOf(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

test('T4: only the hash of a key is stored: no table and no log line contains the key', async () => {
  const { db } = service.database
  const row = await db
    .selectFrom('api_keys')
    .select('key_hash')
    .where('key_hash', '=', hashOf(till.key))
    .executeTakeFirst()
  expect(row).toBeDefined()
  const tables = await sql<{ name: string }>`
    select tablename as name from pg_tables where schemaname = 'public'`.execute(db)
  for (const { name } of tables.rows) {
    const dump = await sql`select to_jsonb(t) as row from ${sql.table(name)} t`.execute(db)
    expect(JSON.stringify(dump.rows).includes(till.key), name).toBe(false)
  }
  expect(service.logLines.join('').includes(till.key)).toBe(false)
})

test('no two keys are equal', async () => {
  const keys = new Set<string>()
  for (let count = 0; count < 50; count++) keys.add((await make({ client: 'acme' })).json().key)
  expect(keys.size).toBe(50)
})

test('several keys work at the same time, and one revocation of the client ends them all at once', async () => {
  const first = await enrol(service, 'rotating', '902')
  const second = (await make({ client: 'rotating' })).json().key
  expect([await works(first.key), await works(second)]).toEqual([true, true])
  const answer = await revoke('rotating')
  expect(answer.statusCode).toBe(200)
  expect(answer.json()).toEqual({ message: expect.stringContaining('2') })
  expect([await works(first.key), await works(second)]).toEqual([false, false])
  for (const key of [first.key, second]) {
    expect((await call(service, { url: '/stores', token: key })).statusCode).toBe(401)
  }
  expect(await listed('rotating')).toMatchObject([{ active: false }, { active: false }])
  expect(await works(till.key)).toBe(true)
})

test('one key is revoked by its id at once; the other keys of its client still work', async () => {
  const first = await enrol(service, 'picky', '911')
  const [second, third] = [await make({ client: 'picky' }), await make({ client: 'picky' })]
  const answer = await revokeOne(second.json().id)
  expect([answer.statusCode, answer.json()]).toEqual([200, { message: 'The key was revoked' }])
  const keys = [first.key, second.json().key, third.json().key]
  expect(await Promise.all(keys.map(works))).toEqual([true, false, true])
  expect(await listed('picky')).toMatchObject([
    { id: third.json().id, active: true },
    { id: second.json().id, active: false },
    { active: true },
  ])
  for (const id of [second.json().id, '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7']) {
    const again = await revokeOne(id)
    expect([again.statusCode, again.json().code], id).toEqual([404, 'NOT_FOUND'])
  }
  const { logs } = (await asAdmin(service, { url: '/admin/activity?client=picky' })).json()
  expect(logs.slice(0, 2)).toMatchObject([
    { action: 'api_key.revoked', status: 'failed', resource_id: second.json().id },
    { action: 'api_key.revoked', status: 'success', resource_id: second.json().id },
  ])
  // Revoking the last key by its id has the same effect as revoking all.
  expect((await revoke('picky')).statusCode).toBe(200)
  expect((await revoke('picky')).statusCode).toBe(404)
})

test.each([
  ['neither', {}, 'client'],
  ['both', { client: 'acme', key_id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7' }, 'key_id'],
  ['an invalid id', { key_id: 'acme' }, 'key_id'],
  ['an id that is no text', { key_id: 7 }, 'key_id'],
  ['an empty client', { client: '' }, 'client'],
  ['a value in place of the id', { key: `mk_${'0'.repeat(64)}`, client: 'acme' }, 'key'],
])('a revocation that names %s is 422 and revokes nothing', async (_, body, path) => {
  const answer = await asAdmin(service, { url: '/api-keys/revoke', body })
  expect(answer.statusCode).toBe(422)
  expect(answer.json().details).toMatchObject([{ path }])
  expect(await works(till.key)).toBe(true)
})

test('T5: a request that starts after the revocation was answered is refused, in every round', async () => {
  await connect(service, 'flapping', '903')
  for (let round = 0; round < 10; round++) {
    const { key } = (await make({ client: 'flapping' })).json()
    const early = Array.from({ length: 5 }, () => call(service, { url: '/stores', token: key }))
    await revoke('flapping')
    const late = Array.from({ length: 5 }, () => call(service, { url: '/stores', token: key }))
    expect((await Promise.all(late)).map(({ statusCode }) => statusCode)).toEqual(
      Array(5).fill(401),
    )
    for (const { statusCode } of await Promise.all(early)) expect([200, 401]).toContain(statusCode)
  }
})

test('a new key after a revocation works, the old ones stay revoked', async () => {
  const { key } = await enrol(service, 'again', '904')
  await revoke('again')
  const fresh = (await make({ client: 'again' })).json().key
  expect([await works(key), await works(fresh)]).toEqual([false, true])
})

test('revoking is 404 when the client has no active key', async () => {
  await enrol(service, 'once', '905')
  expect((await revoke('once')).statusCode).toBe(200)
  for (const client of ['once', 'unknown-client']) {
    const answer = await revoke(client)
    expect([answer.statusCode, answer.json().code]).toEqual([404, 'NOT_FOUND'])
  }
})

test.each([
  ['that does not exist', async () => {}],
  [
    'that has logged out',
    async (client: string) => {
      const { key } = await enrol(service, client, '906')
      await call(service, { method: 'POST', url: '/oauth/logout', token: key })
    },
  ],
  [
    'whose tokens are expired',
    async (client: string) => {
      await connect(service, client, '907')
      await service.database.db
        .updateTable('oauth_connections')
        .set({ expires_at: service.clock.now() })
        .where('client', '=', client as never)
        .execute()
    },
  ],
  [
    'whose connection is lost',
    async (client: string) => {
      await connect(service, client, '908')
      await service.database.db
        .updateTable('oauth_connections')
        .set({ status: 'lost' })
        .where('client', '=', client as never)
        .execute()
    },
  ],
])('a key for a client %s is 409, and no row is written', async (name, prepare) => {
  const client = `client ${name}`
  await prepare(client)
  const before = (await listed(client)).length
  const answer = await make({ client })
  expect([answer.statusCode, answer.json().code]).toEqual([409, 'OAUTH_NOT_CONNECTED'])
  expect(await listed(client)).toHaveLength(before)
})

test('last_used_at changes at most once a minute', async () => {
  const used = await enrol(service, 'busy', '909')
  const lastUse = async () => (await listed('busy'))[0] as { last_used_at?: string | null }
  const use = () => call(service, { url: '/stores', token: used.key })
  expect((await lastUse()).last_used_at).toBeNull()
  await use()
  const first = (await lastUse()).last_used_at ?? ''
  expect(Date.parse(first)).toBeGreaterThan(service.clock.now().getTime() - 5000)
  await use()
  expect((await lastUse()).last_used_at).toBe(first)
  service.clock.advance(61_000)
  await use()
  const second = Date.parse((await lastUse()).last_used_at ?? '')
  expect(second - Date.parse(first)).toBeGreaterThanOrEqual(60_000)
  const info = await asAdmin(service, { url: '/admin/clients/busy' })
  expect(Date.parse(info.json().api_key.last_used_at)).toBe(second)
})

test('creating and revoking are audited without the key', async () => {
  const { key } = await enrol(service, 'audited', '910')
  await revoke('audited')
  await revoke('audited')
  await make({ client: 'audited, but unknown' })
  const answer = await asAdmin(service, { url: '/admin/activity?resource_type=api_key' })
  const entries = answer
    .json()
    .logs.filter((entry: { client_name: string | null }) =>
      entry.client_name?.startsWith('audited'),
    )
    .map((entry: { action: string; status: string }) => `${entry.action} ${entry.status}`)
  expect(entries).toEqual([
    'api_key.created failed',
    'api_key.revoked failed',
    'api_key.revoked success',
    'api_key.created success',
  ])
  expect(answer.body).not.toContain(key)
})

test.each([
  ['no client', {}, 'client'],
  ['an empty client', { client: '' }, 'client'],
  ['a client that is no text', { client: 7 }, 'client'],
  ['a client of 101 characters', { client: 'x'.repeat(101) }, 'client'],
  ['a client with a line break', { client: 'a\nb' }, 'client'],
  [
    'a description of 201 characters',
    { client: 'acme', description: 'x'.repeat(201) },
    'description',
  ],
  ['a description that is null', { client: 'acme', description: null }, 'description'],
  [
    'a description with an escape sequence',
    { client: 'acme', description: '\u001b[31m' },
    'description',
  ],
  ['a key of its own choice', { client: 'acme', key: `mk_${'a'.repeat(64)}` }, 'key'],
  ['a state of its own choice', { client: 'acme', active: false }, 'active'],
  ['a hash', { client: 'acme', key_hash: 'x' }, 'key_hash'],
])('%s is 422 on that field', async (_name, body, path) => {
  const answer = await make(body)
  expect(answer.statusCode).toBe(422)
  expect(answer.json().details).toMatchObject([{ path }])
})

test('a description of 200 characters is accepted', async () => {
  const description = 'ñ'.repeat(200)
  expect((await make({ client: 'acme', description })).statusCode).toBe(201)
  expect((await listed('acme'))[0]).toMatchObject({ description })
})
