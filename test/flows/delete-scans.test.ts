import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { approveHeldDeletes, readHeldDeletes } from '../../src/flows/control/held-deletes.ts'
import { flowSchema } from '../../src/flows/definition/schema.ts'
import { scansToDelete } from '../../src/flows/poll/deletes.ts'
import { openTestDatabase } from '../support/database.ts'
import { audit, createTestPoll, records, type TestPoll } from './poll-support.ts'

/** What one read has missed may be there: a record that moves between two pages is on neither. */
let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(async () => {
  await database.close()
})

const now = () => new Date('2026-11-21T12:00:00Z')
const create = (deletes: object, more: object = {}) =>
  createTestPoll(database, { now, flow: { deletes: { mode: 'delete', ...deletes } }, ...more })
const deleted = ({ enqueued }: TestPoll) =>
  enqueued.filter(({ kind }) => kind === 'delete').map(({ pk }) => pk)

/** All twenty but these. */
const without = (...missing: string[]) => [
  records(1, 20).filter(({ id }) => !missing.includes(`${id}`)),
]

test('an item is deleted after the set number of consecutive scans without it, and not if one of them has it', async () => {
  const poll = await create({ scans: 2 })
  poll.rows = without()
  await poll.poll()
  poll.rows = without('7', '8')
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  poll.rows = without('8', '9')
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(deleted(poll)).toEqual(['8'])
  // 7 was back, and is missed for the first time again.
  poll.rows = without('7', '8')
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(deleted(poll)).toEqual(['8', '7'])
})

test('shifting pages delete nothing: each scan misses another item', async () => {
  const poll = await create({ scans: 2 })
  poll.rows = without()
  await poll.poll()
  for (const missing of ['3', '12', '5', '3', '20']) {
    poll.rows = without(missing)
    expect(await poll.poll()).toMatchObject({ changes: 0 })
  }
  expect(deleted(poll)).toEqual([])
})

test('an incomplete scan does not count', async () => {
  const poll = await create({ scans: 2 })
  poll.rows = without()
  await poll.poll()
  poll.rows = [[...(without('4')[0] ?? []), { id: '' }]]
  await poll.poll()
  poll.rows = without('4')
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await poll.poll()).toMatchObject({ changes: 1 })
})

test('with incremental polls the next one after a missing item is a full scan', async () => {
  const cursor = { field: 'at', overlapMs: 0 }
  const poll = await create({ scans: 2 }, { cursor, fullScanEveryMs: 24 * 3_600_000 })
  poll.rows = [records(1, 20, { at: '2026-11-21T10:00:00Z' })]
  await poll.poll()
  await database.db
    .updateTable('flow_state')
    .set({ full_scan_due: true })
    .where('flow', '=', poll.name)
    .execute()
  poll.rows = [records(1, 19, { at: '2026-11-21T10:00:00Z' })]
  await poll.poll()
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  await poll.poll()
  expect(poll.scans.map((since) => since === null)).toEqual([true, true, true, false])
  expect(deleted(poll)).toEqual(['20'])
})

const files = {
  env: {
    PG: 'postgres://reader:canary-password@erp.example.com/erp',
    MS: 'mssql://reader:canary-password@erp.example.com/erp',
  },
  readFile: () => '',
  mail: { smtpUrl: undefined, mailFrom: undefined },
}
const http = { type: 'http', url: 'https://erp.example.com/items' }
const sql = (driver: string, name: string) => ({
  ...{ type: 'sql', driver, query: 'select * from items' },
  url: `\${env:${name}}`,
})
test.each([
  ['a file', 1, { type: 'file', path: './x.json', format: 'json' }],
  ['an http source of one page', 1, http],
  ['a paged http source', 2, { ...http, paging: { type: 'page' } }],
  ['PostgreSQL', 1, sql('postgres', 'PG')],
  ['SQL Server', 2, sql('mssql', 'MS')],
])(
  '%s: %i full scans without an item delete it, unless the flow sets another number',
  (_, scans, source) => {
    const flow = (deletes: object) =>
      flowSchema(files).parse({
        version: 1,
        name: 'a',
        pollInterval: '1m',
        source,
        item: { key: 'id' },
        deletes: { mode: 'delete', ...deletes },
        destinations: [{ name: 'out', type: 'file', path: './out.ndjson' }],
      })
    expect(scansToDelete(flow({}))).toBe(scans)
    expect(scansToDelete(flow({ scans: 3 }))).toBe(3)
  },
)

const deps = () => ({ database, now, audit })

test('an approval sends the deletes of that time, once, and none of later removals', async () => {
  const poll = await create({ guard: { maxPercent: 10, minItems: 2 } })
  poll.rows = without()
  await poll.poll()
  poll.rows = without('1', '2', '3', '4', '5')
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await approveHeldDeletes(deps(), poll.name, undefined, 'ana')).toBe(5)
  // 5 has returned; 10 to 14 are missing too, and 5 of 20 are more than the guard allows.
  poll.rows = without('1', '2', '3', '4', '10', '11', '12', '13', '14')
  expect(await poll.poll()).toMatchObject({ changes: 4 })
  expect(deleted(poll)).toEqual(['1', '2', '3', '4'])
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  // They need a new approval.
  expect(await approveHeldDeletes(deps(), poll.name, undefined, 'ana')).toBe(5)
  expect(await poll.poll()).toMatchObject({ changes: 5 })
  await expect(approveHeldDeletes(deps(), poll.name, undefined, 'ana')).rejects.toThrow(
    'No deletes need approval',
  )
})

test('the delete of one item can be approved alone, also with an empty source', async () => {
  const poll = await create({})
  poll.rows = without()
  await poll.poll()
  poll.rows = [[]]
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  await expect(approveHeldDeletes(deps(), poll.name, ['99'], 'ana')).rejects.toThrow('not missing')
  expect(await approveHeldDeletes(deps(), poll.name, ['6'], 'ana')).toBe(1)
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(deleted(poll)).toEqual(['6'])
  expect(await approveHeldDeletes(deps(), poll.name, undefined, 'ana')).toBe(19)
  expect(await poll.poll()).toMatchObject({ changes: 19 })
})

test('after the approval of one delete the guard still holds back the others', async () => {
  const poll = await create({ guard: { maxPercent: 10, minItems: 2 } })
  poll.rows = without()
  await poll.poll()
  poll.rows = without('1', '2', '3')
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await approveHeldDeletes(deps(), poll.name, ['1'], 'ana')).toBe(1)
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await approveHeldDeletes(deps(), poll.name, ['2'], 'ana')).toBe(1)
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  const pending = await readHeldDeletes(database.db, poll.name, 1)
  const reason = expect.stringMatching(/^1 deletes need approval: 15\.0 % of 20 items/)
  expect(pending).toMatchObject({ missing: 1, pks: ['3'], held: { items: 1, known: 18, reason } })
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(deleted(poll)).toEqual(['1', '2'])
  expect((await readHeldDeletes(database.db, poll.name, 1)).held).toEqual(pending.held)
  // The source has it again; later removals count from zero.
  poll.rows = without('1', '2')
  await poll.poll()
  poll.rows = without('1', '2', '4', '5')
  expect(await poll.poll()).toMatchObject({ changes: 2 })
})

test('missing items beside an unreadable record are shown, and deleted after an approval', async () => {
  const poll = await create({ scans: 2 })
  poll.rows = without()
  await poll.poll()
  const bad = { id: '' }
  poll.rows = [[...(without('1', '2', '3')[0] ?? []), bad]]
  for (let scan = 0; scan < 3; scan += 1) expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await readHeldDeletes(database.db, poll.name, 2)).toMatchObject({
    missing: 3,
    pks: ['1', '2', '3'],
    held: { items: 3, reason: expect.stringContaining('could not be read') },
  })
  expect(await approveHeldDeletes(deps(), poll.name, ['1'], 'ana')).toBe(1)
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await approveHeldDeletes(deps(), poll.name, undefined, 'ana')).toBe(2)
  expect(await poll.poll()).toMatchObject({ changes: 2 })
  expect(deleted(poll)).toEqual(['1', '2', '3'])
})
