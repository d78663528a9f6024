import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { answerQuestion } from '../../src/flows/control/answer-question.ts'
import { readQuestion } from '../../src/flows/control/question-view.ts'
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

const asks = ({ runtime }: TestPoll) => readQuestion(database.db, runtime)

/** Answers what the flow asks, about these missing items or all of it. Returns how many were asked about. */
const allow = async (poll: TestPoll, pks?: string[], answer: 'send' | 'keep' = 'send') => {
  const { number, missing } = await asks(poll)
  const given = { number: number ?? 0, answer, pks }
  await answerQuestion({ database, now, audit }, poll.runtime, given, 'ana')
  return missing
}

test('an answer sends the deletes of that time, once, and none of later removals', async () => {
  const poll = await create({ guard: { maxPercent: 10, minItems: 2 } })
  poll.rows = without()
  await poll.poll()
  poll.rows = without('1', '2', '3', '4', '5')
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await allow(poll)).toBe(5)
  // 5 has returned; 10 to 14 are missing too, and 5 of 20 are more than the guard allows.
  poll.rows = without('1', '2', '3', '4', '10', '11', '12', '13', '14')
  expect(await poll.poll()).toMatchObject({ changes: 4 })
  expect(deleted(poll)).toEqual(['1', '2', '3', '4'])
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  // They are asked about anew.
  expect(await allow(poll)).toBe(5)
  expect(await poll.poll()).toMatchObject({ changes: 5 })
  await expect(allow(poll)).rejects.toThrow('not asked any more')
})

test('the delete of one item can be allowed alone, also with an empty source', async () => {
  const poll = await create({})
  poll.rows = without()
  await poll.poll()
  poll.rows = [[]]
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  await expect(allow(poll, ['99'])).rejects.toThrow('not missing')
  await allow(poll, ['6'])
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(deleted(poll)).toEqual(['6'])
  expect(await allow(poll)).toBe(19)
  expect(await poll.poll()).toMatchObject({ changes: 19 })
})

test('after an answer about one delete the guard still holds the others', async () => {
  const poll = await create({ guard: { maxPercent: 10, minItems: 2 } })
  poll.rows = without()
  await poll.poll()
  poll.rows = without('1', '2', '3')
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  await allow(poll, ['1'])
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  await allow(poll, ['2'])
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  const pending = await asks(poll)
  const reason = expect.stringMatching(/^1 deletes wait for an answer: 15\.0 % of 20 items/)
  expect(pending).toMatchObject({ about: 'deletes', missing: 1, reason })
  expect(pending.missingItems).toEqual([{ pk: '3', name: null }])
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(deleted(poll)).toEqual(['1', '2'])
  expect(await asks(poll)).toEqual(pending)
  // The source has it again; later removals count from zero.
  poll.rows = without('1', '2')
  await poll.poll()
  poll.rows = without('1', '2', '4', '5')
  expect(await poll.poll()).toMatchObject({ changes: 2 })
})

test('missing items beside an unreadable record are shown, and deleted after an answer', async () => {
  const poll = await create({ scans: 2 })
  poll.rows = without()
  await poll.poll()
  const bad = { id: '' }
  poll.rows = [[...(without('1', '2', '3')[0] ?? []), bad]]
  for (let scan = 0; scan < 3; scan += 1) expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await asks(poll)).toMatchObject({
    missing: 3,
    missingItems: [{ pk: '1' }, { pk: '2' }, { pk: '3' }],
    reason: expect.stringContaining('could not be read'),
  })
  await allow(poll, ['1'])
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await allow(poll)).toBe(2)
  expect(await poll.poll()).toMatchObject({ changes: 2 })
  expect(deleted(poll)).toEqual(['1', '2', '3'])
})

test('the answer keep leaves what is missing at the destinations, and it is not asked about again', async () => {
  const poll = await create({ guard: { maxPercent: 10, minItems: 2 } })
  poll.rows = without()
  await poll.poll()
  poll.rows = without('1', '2', '3', '4')
  await poll.poll()
  await allow(poll, ['4'], 'keep')
  await poll.poll()
  expect(await asks(poll)).toMatchObject({ state: 'asked', missing: 3 })
  await allow(poll, undefined, 'keep')
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await asks(poll)).toMatchObject({ state: 'none', missing: 0, missingItems: [] })
  // What returns is new to the flow.
  poll.rows = without('1', '2', '3')
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(deleted(poll)).toEqual([])
})

test('an answer about deletes waits for a read that began after it', async () => {
  const poll = await create({ guard: { maxPercent: 10, minItems: 2 } })
  poll.rows = without()
  await poll.poll()
  poll.rows = without('1', '2', '3')
  await poll.poll()
  poll.rows = without('1', '2', '3', '4', '5', '6')
  poll.beforeBatch = async () => void (await allow(poll))
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  poll.beforeBatch = () => undefined
  expect(await poll.poll()).toMatchObject({ changes: 3 })
  expect(await asks(poll)).toMatchObject({ state: 'asked', missing: 3 })
})
