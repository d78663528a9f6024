import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Trx } from '../../src/db/database.ts'
import { createSealer } from '../../src/domain/sealed.ts'
import { type ChainCheck, verifyActivityChain } from '../../src/payments/activity.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, createStore, enrol } from '../support/till.ts'

type Entry = Record<string, unknown> & { id: string; seq: number }

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
})
afterAll(() => service.stop())

async function read(query = ''): Promise<{ logs: Entry[]; total: number }> {
  const answer = await asAdmin(service, { url: `/admin/activity${query}` })
  expect(answer.statusCode, answer.body).toBe(200)
  return answer.json()
}

/** Everything, oldest first, in short form. */
const story = [
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

test('shows every write once, newest first, the failed ones too', async () => {
  const all = await read()
  expect(inShort(all)).toEqual(story.toReversed())
  expect(all.total).toBe(story.length)
  expect(all.logs.map(({ seq }) => seq)).toEqual(story.map((_, index) => story.length - index))
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
])('the filter %s keeps what fits, counts it and drops the rest', async (query, matches) => {
  const expected = story.filter((line) => matches.test(line)).toReversed()
  const found = await read(`?${query}`)
  expect(inShort(found)).toEqual(expected)
  expect(found.total).toBe(expected.length)
})

test('pages through the log without a gap or a repetition, and the total stays', async () => {
  const seen: string[] = []
  for (let offset = 0; offset < story.length + 4; offset += 4) {
    const page = await read(`?limit=4&offset=${offset}`)
    expect(page.total).toBe(story.length)
    seen.push(...inShort(page))
  }
  expect(seen).toEqual(story.toReversed())
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
])('a query %s that is not allowed is 422 on it', async (name, values) => {
  for (const value of [...values, `acme&${name}=acme`]) {
    const answer = await asAdmin(service, { url: `/admin/activity?${name}=${value}` })
    expect([answer.statusCode, answer.json().code], value).toEqual([422, 'VALIDATION_ERROR'])
    expect(answer.json().details[0].path, value).toBe(name)
  }
})

test('the database itself refuses to change, remove or empty the log', async () => {
  const { db } = service.database
  await expect(sql`update activity_log set status = 'success'`.execute(db)).rejects.toThrow(
    'append-only',
  )
  await expect(sql`delete from activity_log where seq = 1`.execute(db)).rejects.toThrow(
    'append-only',
  )
  await expect(sql`truncate activity_log`.execute(db)).rejects.toThrow('append-only')
})

const verify = async () => (await asAdmin(service, { url: '/admin/activity/verify' })).json()

async function withoutTrigger(trx: Trx, work: () => Promise<unknown>) {
  await sql`alter table activity_log disable trigger all`.execute(trx)
  await work()
  await sql`alter table activity_log enable trigger all`.execute(trx)
}

test('the log is whole as long as nobody tampers with it, and says so again once that is undone', async () => {
  const intact = {
    valid: true,
    entries: story.length,
    broken_at: null,
    reason: null,
    head: { seq: story.length, hash: (await read('?limit=1')).logs[0]?.hash },
  }
  const { transaction } = service.database
  expect(await verify()).toEqual(intact)
  const set = (resourceId: string) =>
    transaction((trx) =>
      withoutTrigger(trx, () =>
        sql`update activity_log set resource_id = ${resourceId} where seq = 5`.execute(trx),
      ),
    )
  await set('S-2')
  expect(await verify()).toEqual({
    ...intact,
    valid: false,
    entries: 4,
    broken_at: 5,
    reason: 'the entry was changed',
  })
  await set('S-1')
  expect(await verify()).toEqual(intact)
})

describe('somebody who can switch the trigger off', () => {
  class Undo extends Error {}

  /** What the check says while the change is there; then it is undone. */
  async function checkWith(
    change: (trx: Trx) => Promise<unknown>,
  ): Promise<ChainCheck | undefined> {
    let check: ChainCheck | undefined
    const undone = service.database.transaction(async (trx) => {
      await withoutTrigger(trx, () => change(trx))
      check = await verifyActivityChain({ sealer: service.deps.sealer, db: trx })
      throw new Undo()
    })
    await expect(undone).rejects.toBeInstanceOf(Undo)
    return check
  }

  test.each([
    ['id', sql`gen_random_uuid()`],
    ['client_name', sql`'other'`],
    ['client_name', sql`null`],
    ['ip_address', sql`'192.0.2.1'`],
    ['action', sql`'store.deleted'`],
    ['resource_type', sql`'pos'`],
    ['resource_id', sql`'S-2'`],
    ['status', sql`case status when 'failed' then 'success' else 'failed' end`],
    ['error_message', sql`'it was somebody else'`],
    ['metadata', sql`'{"pos": 7}'`],
    ['duration_ms', sql`duration_ms + 1`],
    ['created_at', sql`created_at - interval '1 ms'`],
    ['hash', sql`md5('x') || md5('y')`],
  ])('cannot change %s of one entry unseen', async (column, value) => {
    const check = await checkWith((trx) =>
      sql`update activity_log set ${sql.ref(column)} = ${value} where seq = 5`.execute(trx),
    )
    expect(check).toMatchObject({
      valid: false,
      entries: 4,
      brokenAt: 5,
      reason: 'the entry was changed',
    })
  })

  test.each<
    [what: string, brokenAt: number, reason: string, change: (trx: Trx) => Promise<unknown>]
  >([
    [
      'remove an entry',
      5,
      'an entry is missing',
      (trx) => sql`delete from activity_log where seq = 5`.execute(trx),
    ],
    [
      'remove an entry and close the gap',
      5,
      'the link is broken',
      async (trx) => {
        await sql`delete from activity_log where seq = 5`.execute(trx)
        await sql`update activity_log set seq = -seq where seq > 5`.execute(trx)
        await sql`update activity_log set seq = -seq - 1 where seq < 0`.execute(trx)
      },
    ],
    [
      'exchange two entries',
      5,
      'the link is broken',
      async (trx) => {
        await sql`update activity_log set seq = -seq where seq in (5, 6)`.execute(trx)
        await sql`update activity_log set seq = 11 + seq where seq < 0`.execute(trx)
      },
    ],
    [
      'remove the first entry',
      1,
      'an entry is missing',
      (trx) => sql`delete from activity_log where seq = 1`.execute(trx),
    ],
    [
      'cut the end off',
      10,
      'the end of the log is missing',
      (trx) => sql`delete from activity_log where seq >= 10`.execute(trx),
    ],
    [
      'empty the log',
      1,
      'the end of the log is missing',
      (trx) => sql`delete from activity_log`.execute(trx),
    ],
    [
      'link an entry elsewhere',
      5,
      'the link is broken',
      (trx) => sql`update activity_log set previous_hash = '' where seq = 5`.execute(trx),
    ],
    [
      'name another key',
      5,
      'its encryption key is not configured',
      (trx) => sql`update activity_log set key_id = 'mine' where seq = 5`.execute(trx),
    ],
    [
      'cut the end off and set the head to what is left, short of its hash',
      10,
      'the end of the log was changed',
      async (trx) => {
        await sql`delete from activity_log where seq = 11`.execute(trx)
        await sql`update activity_head set seq = 10`.execute(trx)
      },
    ],
  ])('cannot %s unseen', async (_what, brokenAt, reason, change) => {
    expect(await checkWith(change)).toMatchObject({ valid: false, brokenAt, reason })
  })
})

test('the check works batch by batch, and only with the key that signed', async () => {
  const { db } = service.database
  const { sealer } = service.deps
  expect(await verifyActivityChain({ sealer, db }, 3)).toMatchObject({ valid: true, entries: 11 })
  const sameName = createSealer([{ id: 'k1', key: randomBytes(32) }])
  expect(await verifyActivityChain({ sealer: sameName, db })).toMatchObject({
    valid: false,
    brokenAt: 1,
    reason: 'the entry was changed',
  })
  const otherName = createSealer([{ id: 'k2', key: randomBytes(32) }])
  expect(await verifyActivityChain({ sealer: otherName, db })).toMatchObject({
    valid: false,
    brokenAt: 1,
    reason: 'its encryption key is not configured',
  })
})
