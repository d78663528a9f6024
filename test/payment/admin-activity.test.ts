import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, createStore, enrol } from '../support/till.ts'

type Entry = Record<string, unknown> & { id: string; seq: number | null }

let service: TestService
beforeAll(async () => {
  service = await startTestService()
  const acme = await enrol(service, 'acme', '1601')
  await enrol(service, 'other', '1602')
  await createStore(service, acme, { id: 'S-1', boxes: ['B-1', 'B-2'] })
  await createStore(service, acme, { id: 'S-1', boxes: [] })
  await call(service, { method: 'DELETE', url: '/stores/S-1/pos/B-2', token: acme.key })
  await call(service, { method: 'DELETE', url: '/stores/NONE', token: acme.key })
  await asAdmin(service, { url: '/api-keys/revoke', body: { client: 'other' } })
  await service.chain.sealAll()
})
afterAll(() => service.stop())

async function read(query = ''): Promise<{ logs: Entry[]; total: number }> {
  const answer = await asAdmin(service, { url: `/admin/activity${query}` })
  expect(answer.statusCode, answer.body).toBe(200)
  return answer.json()
}

/** All entries, oldest first, in short form. */
const written = [
  'acme oauth.connected oauth success',
  'acme api_key.created api_key success',
  'other oauth.connected oauth success',
  'other api_key.created api_key success',
  'acme store.created store success',
  'acme pos.created pos success',
  'acme pos.created pos success',
  'acme store.created store failed',
  'acme pos.deleted pos success',
  'acme store.deleted store failed',
  'other api_key.revoked api_key success',
]
const inShort = ({ logs }: { logs: Entry[] }) =>
  logs.map((entry) =>
    [entry.client_name, entry.action, entry.resource_type, entry.status].join(' '),
  )

test('GET /admin/activity lists every write once, newest first, also the failed ones', async () => {
  const all = await read()
  expect(inShort(all)).toEqual(written.toReversed())
  expect(all.total).toBe(written.length)
  expect(all.logs.map(({ seq }) => seq)).toEqual(written.map((_, index) => written.length - index))
})

test('an entry has every field of the specification', async () => {
  const [entry] = (await read('?action=store.deleted')).logs
  expect(entry).toEqual({
    id: expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
    client_name: 'acme',
    ip_address: '127.0.0.1',
    action: 'store.deleted',
    resource_type: 'store',
    resource_id: 'NONE',
    status: 'failed',
    error_message: expect.stringMatching(/^NOT_FOUND: /),
    metadata: { key_id: expect.any(String) },
    duration_ms: expect.any(Number),
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    seq: 10,
    who: { kind: 'key', name: expect.stringMatching(/^mk_/) },
    hash: expect.stringMatching(/^[0-9a-f]{64}$/),
  })
  expect(entry?.duration_ms).toBeGreaterThanOrEqual(0)
})

test.each<[query: string, matches: RegExp]>([
  ['action=pos.created', / pos\.created /],
  ['resource_type=store', / store (success|failed)$/],
  ['status=failed', / failed$/],
  ['status=success', / success$/],
  ['client=other', /^other /],
  ['client=acme&resource_type=store&status=failed', /^acme .* store failed$/],
  ['action=store.created&status=success', / store\.created store success$/],
  ['client=Acme', /never/],
  ['client=%25', /never/],
  ['action=pos', /never/],
  ['action=order.created', /never/],
])('the filter %s returns and counts the matching entries only', async (query, matches) => {
  const expected = written.filter((line) => matches.test(line)).toReversed()
  const found = await read(`?${query}`)
  expect(inShort(found)).toEqual(expected)
  expect(found.total).toBe(expected.length)
})

test('the pages of the log have no gap and no repetition, and the total stays', async () => {
  const seen: string[] = []
  for (let offset = 0; offset < written.length + 4; offset += 4) {
    const page = await read(`?limit=4&offset=${offset}`)
    expect(page.total).toBe(written.length)
    seen.push(...inShort(page))
  }
  expect(seen).toEqual(written.toReversed())
  expect(inShort(await read('?limit=1&client=acme&offset=1'))).toEqual([
    'acme pos.deleted pos success',
  ])
  expect((await read('?limit=200&offset=1000000000')).logs).toEqual([])
})

test.each([
  ['limit', ['0', '201', '-1', '1.5', 'x', '']],
  ['offset', ['-1', '1000000001', '1.5', 'x']],
  ['status', ['', 'Success', 'any']],
  ['action', ['', 'x'.repeat(101), '%00']],
  ['resource_type', ['', 'x'.repeat(101), '%0A']],
  ['client', ['', 'x'.repeat(101), '%20x']],
])('a query with an invalid %s is 422 on that field', async (name, values) => {
  for (const value of [...values, `acme&${name}=acme`]) {
    const answer = await asAdmin(service, { url: `/admin/activity?${name}=${value}` })
    expect([answer.statusCode, answer.json().code], value).toEqual([422, 'VALIDATION_ERROR'])
    expect(answer.json().details[0].path, value).toBe(name)
  }
})

test('T42: the database refuses to change, remove or empty the log and its seals', async () => {
  const { db } = service.database
  const attempts = [
    sql`update activity_log set status = 'success'`,
    sql`delete from activity_log where seq = 1`,
    sql`truncate activity_log`,
    sql`update activity_seals set hash = ''`,
    sql`delete from activity_seals where seq = 1`,
    sql`truncate activity_seals`,
  ]
  for (const attempt of attempts) {
    await expect(attempt.execute(db)).rejects.toThrow('append-only')
  }
})

test('the check reports a whole log, and accepts its own end as a checkpoint', async () => {
  const hash = (await read('?limit=1')).logs[0]?.hash
  const intact = {
    valid: true,
    start: 0,
    lost: null,
    entries: written.length,
    broken_at: null,
    reason: null,
    head: { seq: written.length, hash },
    unsealed: 0,
    findings: [],
    checkpoint: null,
  }
  const verify = (query = '') => asAdmin(service, { url: `/admin/activity/verify${query}` })
  expect((await verify()).json()).toEqual(intact)
  const query = `?checkpoint_seq=${written.length}&checkpoint_hash=${hash}`
  expect((await verify(query)).json()).toEqual({
    ...intact,
    checkpoint: { seq: written.length, found: true },
  })
  for (const [wrong, path] of [
    ['checkpoint_seq=1', 'checkpoint_hash'],
    [`checkpoint_hash=${hash}`, 'checkpoint_seq'],
    [`checkpoint_seq=0&checkpoint_hash=${hash}`, 'checkpoint_seq'],
    ['checkpoint_seq=1&checkpoint_hash=x', 'checkpoint_hash'],
  ]) {
    const answer = await verify(`?${wrong}`)
    expect([answer.statusCode, answer.json().details[0].path]).toEqual([422, path])
  }
})
