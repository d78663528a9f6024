import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { syncItem } from '../../src/flows/control/sync-item.ts'
import { resetFlow, resetItem } from '../../src/flows/poll/pauses-and-limits.ts'
import { SourceError } from '../../src/flows/types.ts'
import { LeaseLostError } from '../../src/jobs/with-lease.ts'
import { countItems, findHashes } from '../../src/repositories/flows/flow-items.ts'
import { isPaused, upsertLimit } from '../../src/repositories/flows/flow-pauses-and-limits.ts'
import { findFlowState } from '../../src/repositories/flows/flow-state.ts'
import { openTestDatabase } from '../support/database.ts'
import { countStatements } from '../support/statements.ts'
import { audit, createTestPoll, records, type TestPoll } from './poll-support.ts'

let database: Database
let offsetMs = 0
const now = () => new Date(Date.now() + offsetMs)

beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const create = (options: Omit<Parameters<typeof createTestPoll>[1], 'now'> = {}) =>
  createTestPoll(database, { now, ...options })
/** In the order of their writing: batches of one poll are written side by side. */
const keys = (poll: TestPoll) => poll.enqueued.map(({ pk }) => pk)
const state = async (poll: TestPoll) => findFlowState(database.db, poll.name)
const problems = async (poll: TestPoll) =>
  database.db
    .selectFrom('flow_errors')
    .select(['pk', 'error'])
    .where('flow', '=', poll.name)
    .orderBy('at')
    .execute()

test('the first poll queues every item, the next only what changed', async () => {
  const poll = await create()
  poll.rows = [records(1, 3, { name: 'a' })]
  expect(await poll.poll()).toMatchObject({ changes: 3, rowsRead: 3 })
  expect(await poll.poll()).toMatchObject({ changes: 0, rowsRead: 3 })
  poll.rows = [[...records(1, 2, { name: 'a' }), { id: '3', name: 'b' }]]
  expect(await poll.poll()).toMatchObject({ changes: 1, rowsRead: 3 })
  expect(keys(poll)).toEqual(['1', '2', '3', '3'])
  expect(poll.enqueued.at(-1)?.value).toEqual({ id: '3', name: 'b' })
})

test('hashes and deliveries of a batch are committed together or not at all', async () => {
  const poll = await create()
  poll.rows = [records(1, 2), records(3, 4)]
  const { enqueue } = poll.deps
  poll.deps.enqueue = async (trx, runtime, changes, options) => {
    await enqueue(trx, runtime, changes, options)
    if (changes[0]?.pk === '3') throw new Error('the queue is down')
  }
  await expect(poll.poll()).rejects.toThrow('the queue is down')
  expect(keys(poll)).toEqual(['1', '2'])
  expect([...(await findHashes(database.db, poll.name, ['1', '2', '3', '4'])).keys()]).toEqual([
    '1',
    '2',
  ])
  poll.deps.enqueue = enqueue
  expect(await poll.poll()).toMatchObject({ changes: 2 })
  expect(keys(poll).sort()).toEqual(['1', '2', '3', '4'])
})

test('a poll whose records have the same fields as before does not write the list of fields again', async () => {
  const poll = await create()
  poll.rows = [records(1, 3, { title: 'a', at: '2020-01-01', n: 1 })]
  const fieldWrites = async () =>
    (await countStatements(() => poll.poll())).filter((text) => text.includes('"record_fields"'))
  expect(await fieldWrites()).toHaveLength(1)
  expect(await fieldWrites()).toEqual([])
})

test('a batch that cannot be written fails the poll, whichever are written beside it, and the next poll repeats it', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 60_000 } })
  poll.rows = [1, 2, 3, 4, 5].map((place) => records(place, place, { at: `2020-01-0${place}` }))
  const { enqueue } = poll.deps
  let tried = 0
  poll.deps.enqueue = async (trx, runtime, changes, options) => {
    tried += 1
    if (changes[0]?.pk === '2') throw new Error('the queue is down')
    await enqueue(trx, runtime, changes, options)
  }
  await expect(poll.poll()).rejects.toThrow('the queue is down')
  const [written, begun] = [keys(poll), tried]
  expect(written).not.toContain('2')
  expect((await state(poll))?.cursor).toBeNull()
  poll.deps.enqueue = enqueue
  expect(await poll.poll()).toMatchObject({ changes: 5 - written.length })
  expect(keys(poll).sort()).toEqual(['1', '2', '3', '4', '5'])
  // All that had begun was over when the poll was.
  expect(tried).toBe(begun)
})

test('the cursor moves only at the end of the poll, and reads begin before it by the overlap', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 60_000 } })
  poll.rows = [
    [{ id: '1', at: '2020-01-01T10:00:00.000Z' }],
    [{ id: '2', at: '2020-01-01T09:00:00Z' }],
  ]
  poll.beforeBatch = (index) => {
    if (index === 1) throw new SourceError({ code: 'SAID', data: { said: 'gone' } })
  }
  await expect(poll.poll()).rejects.toThrow('gone')
  expect((await state(poll))?.cursor).toBeNull()
  poll.beforeBatch = () => undefined
  await poll.poll()
  expect((await state(poll))?.cursor).toBe('2020-01-01T10:00:00.000Z')
  await poll.poll()
  expect(poll.scans).toEqual([null, null, '2020-01-01T09:59:00.000Z'])
})

test('a full scan resets a cursor that no record has any longer', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 }, fullScanEveryMs: 3_600_000 })
  poll.rows = [[{ id: '1', at: 2020 }]]
  await poll.poll()
  poll.rows = [[{ id: '1', at: 7 }]]
  offsetMs += 3_600_000
  await poll.poll()
  await poll.poll()
  expect(poll.scans).toEqual([null, null, '7'])
})

test.each(['9999-12-31T00:00:00Z', '9999-12-31 23:59:59', 'infinity'])(
  'a record with the time %s does not hide earlier changes',
  async (at) => {
    const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
    poll.rows = [[{ id: '1', at: '2020-01-01T00:00:00Z' }], [{ id: '2', at }]]
    await poll.poll()
    expect(keys(poll).sort()).toEqual(['1', '2'])
    await poll.poll()
    expect(poll.scans).toEqual([null, '2020-01-01T00:00:00Z'])
  },
)

test('a clock that is hours ahead never moves the cursor beyond the time of the read', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  const at = new Date(now().getTime() + 20 * 3_600_000)
  poll.rows = [[{ id: '1', at }]]
  await poll.poll()
  poll.rows = [[{ id: '1', at }], [{ id: '2', at: new Date(now().getTime() - 5_000) }]]
  const before = now().getTime()
  await poll.poll()
  await poll.poll()
  const [, second, third] = poll.scans.map((since) => Date.parse(since ?? ''))
  expect(second).toBeGreaterThan(before - 25 * 3_600_000)
  expect(second).toBeLessThanOrEqual(before - 24 * 3_600_000)
  expect(third).toBeLessThan(before)
  expect(await problems(poll)).toEqual([])
})

const today = '20261126'
const seconds = Math.floor(Date.now() / 1_000)
test.each([
  ['2099-01-01T00:00:00Z', '2020-01-01T00:00:00Z'],
  ['2099-01-01 00:00:00', '2020-01-01 00:00:00'],
  [20990101, Number(today)],
  ['20990101120000', `${today}100000`],
  [4_070_908_800, seconds],
  [4_070_908_800_000, seconds * 1_000],
])('one record dated %s hides nothing, wherever it is, and is reported', async (ahead, past) => {
  for (const order of [
    [ahead, past],
    [past, ahead],
  ]) {
    const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
    poll.rows = order.map((at) => [{ id: String(at), at }])
    await poll.poll()
    await poll.poll()
    expect(poll.scans).toEqual([null, String(past)])
    expect((await problems(poll))[0]?.error).toBe(
      `the cursor field "at" of 1 records lies ahead of the time of the read, such as "${ahead}"; the cursor ignores them. Correct them at the source`,
    )
  }
})

const minute = Number(`${seconds}`) - 60
/** The same moment in other units, and times written as digits: each is larger than all seconds. */
const otherUnits = [seconds * 1_000, seconds * 1_000_000, 20_261_126_100_000, '20261126100000000']
test.each(otherUnits)(
  'a record with %s among records in seconds hides no later change',
  async (other) => {
    for (const order of [
      [other, minute, seconds],
      [seconds, other, minute],
      [minute, seconds, other],
    ]) {
      const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
      poll.rows = order.map((at) => [{ id: String(at), at }])
      await poll.poll()
      // The next read has the wrong record only, as every read has after it.
      poll.rows = [[{ id: String(other), at: other }]]
      await poll.poll()
      poll.rows = [[{ id: String(other), at: other }], [{ id: 'later', at: seconds + 1 }]]
      await poll.poll()
      await poll.poll()
      expect(poll.scans.slice(1)).toEqual([seconds, seconds, seconds + 1].map(String))
      expect(keys(poll)).toContain('later')
      expect((await problems(poll))[0]?.error).toContain(
        `1 records lies ahead of the time of the read, such as "${other}"`,
      )
    }
  },
)

test.each([
  ['seconds with a fraction', [`${minute}.25`, `${seconds}.5`], `${seconds}999.5`],
  ['days', [20_261_125, 20_261_126], seconds],
  ['days, which means no date', ['20261125', '20261126'], '99999999'],
  ['minutes of a day', ['202611251000', '202611261000'], '20261126100000'],
  ['milliseconds', [minute * 1_000, seconds * 1_000], seconds * 1_000_000],
])('a record in a larger unit among %s is not the position', async (_, good, other) => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  poll.rows = [...good, other].map((at) => [{ id: String(at), at }])
  await poll.poll()
  poll.rows = ['a', 'b', 'c'].map((id) => [{ id, at: other }])
  await poll.poll()
  await poll.poll()
  expect(poll.scans).toEqual([null, String(good[1]), String(good[1])])
})

test('one record in seconds among records in milliseconds does not hold the position back', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  poll.rows = [[minute, minute * 1_000, seconds * 1_000].map((at) => ({ id: String(at), at }))]
  await poll.poll()
  await poll.poll()
  expect(poll.scans).toEqual([null, String(seconds * 1_000)])
  expect(await problems(poll)).toEqual([])
})

test('a stored position in the wrong unit ends with the next full read', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 }, fullScanEveryMs: 3_600_000 })
  await poll.deps.database.db
    .updateTable('flow_state')
    .set({ cursor: String(seconds * 1_000), cursor_origin: 'o1' })
    .where('flow', '=', poll.name)
    .execute()
  poll.rows = [[minute, seconds, seconds * 1_000].map((at) => ({ id: String(at), at }))]
  await poll.poll()
  offsetMs += 3_600_000
  await poll.poll()
  await poll.poll()
  expect(poll.scans.at(-1)).toBe(String(seconds))
})

test.each([
  // Summer time ends in Europe: this hour may come again.
  ['2026-10-25 02:59:00', '2026-10-25 01:59:00'],
  ['2026-10-25T02:59', '2026-10-25T01:59'],
  ['20261025025900', '20261025015900'],
  // In Chile, where it is still the evening before.
  ['2026-04-04 23:30:00.500', '2026-04-04 22:30:00.500'],
  ['2026-10-21 02:59:00', '2026-10-21 02:59:00'],
  ['2026-10-25T02:59:00Z', '2026-10-25T02:59:00Z'],
  ['2026-10-25', '2026-10-25'],
])('after %s local changes of an hour that comes twice are read: from %s', async (at, since) => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  poll.rows = [[{ id: '1', at }]]
  await poll.poll()
  await poll.poll()
  expect(poll.scans).toEqual([null, since])
})

test('numbers that are not times move the cursor, however large', async () => {
  for (const values of [
    [4_070_908_800, 4_070_908_801],
    [99_999_999, 100_000_000],
    ['9.5', '10.25'],
    [3, 20990101],
    // Those before look like dates, these do not.
    [20_261_125, 20_261_126, 20_261_150, 30_000_000],
  ]) {
    const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
    poll.rows = [values.map((at) => ({ id: String(at), at }))]
    await poll.poll()
    await poll.poll()
    expect(poll.scans).toEqual([null, String(values.at(-1))])
    expect(await problems(poll)).toEqual([])
  }
})

test('a cursor field that no record has fails the first poll, and nothing is sent', async () => {
  const poll = await create({ cursor: { field: 'changed_at', overlapMs: 0 } })
  poll.rows = [[{ id: '1', changed: '2020-01-01' }]]
  await expect(poll.poll()).rejects.toThrow(
    'the cursor field "changed_at" (source.cursor.field) is in none of the records, which have: id, changed. Select it in the query, or name one of these',
  )
  expect(poll.enqueued).toEqual([])
})

test('a date that does not sort as text fails the poll instead of skipping later changes', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  poll.rows = [[{ id: '1', at: '31/12/2026' }]]
  await expect(poll.poll()).rejects.toThrow('whose order as text is not that of time')
})

test('a cursor of another column or source is not used', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  poll.rows = [[{ id: '1', at: '2020-01-01T00:00:00Z' }]]
  await poll.poll()
  poll.runtime.cursor = { field: 'version', overlapMs: 0, origin: 'o2' }
  poll.rows = [[{ id: '1', version: '7' }]]
  await poll.poll()
  await poll.poll()
  expect(poll.scans).toEqual([null, null, '7'])
})

test.each([
  ['2020-01-01 10:00:00', '2020-01-01 09:50:00'],
  ['2020-01-01T10:00', '2020-01-01T09:50'],
  ['2020-01-01 10:00:00.250', '2020-01-01 09:50:00.250'],
  ['2020-01-01 10:00:00.123456', '2020-01-01 09:50:00.123456'],
  ['2020-01-01 10:00:00.5', '2020-01-01 09:50:00.5'],
  ['2020-01-01', '2019-12-31'],
  ['2020-01-01T00:00:00-03:00', '2019-12-31T23:50:00-03:00'],
  ['2020-01-01T10:00:00Z', '2020-01-01T09:50:00Z'],
])('the overlap before %s begins at %s, in the format of the source', async (at, since) => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 600_000 } })
  poll.rows = [[{ id: '1', at }]]
  await poll.poll()
  await poll.poll()
  expect(poll.scans).toEqual([null, since])
})

test('a record whose evaluation timed out is read again by the next poll', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  poll.rows = [[{ id: '1', at: 5 }]]
  await poll.poll()
  const { read, source } = poll.runtime
  let putAway = 0
  source.committed = async () => {
    putAway += 1
  }
  poll.runtime.read = async (row) => {
    if (row.id !== '2') return await read(row)
    return { problem: { pk: '2', why: { code: 'EXPRESSION_FAILED' }, mayPass: true } }
  }
  poll.rows = [
    [
      { id: '2', at: 6 },
      { id: '3', at: 7 },
    ],
  ]
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(putAway).toBe(0)
  poll.runtime.read = read
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(putAway).toBe(1)
  await poll.poll()
  expect(poll.scans).toEqual([null, '5', '5', '7'])
  expect(keys(poll)).toEqual(['1', '3', '2'])
})

test('a full scan is repeated at its interval', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 }, fullScanEveryMs: 3_600_000 })
  poll.rows = [[{ id: '1', at: 5 }]]
  await poll.poll()
  await poll.poll()
  offsetMs += 3_600_000
  await poll.poll()
  await poll.poll()
  expect(poll.scans).toEqual([null, '5', null, '5'])
})

test('after a reset the flow reads everything from the beginning and sends it again', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  poll.rows = [[{ id: '1', at: 5 }]]
  await poll.poll()
  await resetFlow({ database, now, audit }, poll.name, 'me')
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(poll.scans).toEqual([null, null, '5'])
})

test('a reset during a poll is not completed by that poll', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  poll.rows = [[{ id: '1', at: 5 }], [{ id: '2', at: 6 }]]
  await resetFlow({ database, now, audit }, poll.name, 'me')
  poll.beforeBatch = async (index) => {
    if (index === 1) await resetFlow({ database, now, audit }, poll.name, 'me')
  }
  await poll.poll()
  poll.beforeBatch = () => undefined
  expect(await poll.poll()).toMatchObject({ changes: 2 })
  expect(poll.scans).toEqual([null, null])
  // Two batches are written side by side.
  expect(keys(poll).slice(2).sort()).toEqual(['1', '2'])
})

test.each(['a failure', 'a crash'])(
  'a reset stays requested after %s of the poll that it caused',
  async (how) => {
    const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
    poll.rows = [[{ id: '1', at: 5 }]]
    await poll.poll()
    await resetItem({ database, now, audit }, poll.name, '1', 'me')
    poll.beforeBatch = () => {
      throw how === 'a crash'
        ? new LeaseLostError()
        : new SourceError({ code: 'SAID', data: { said: 'gone' } })
    }
    await expect(poll.poll()).rejects.toThrow()
    poll.beforeBatch = () => undefined
    expect(await poll.poll()).toMatchObject({ changes: 1 })
    expect(poll.scans).toEqual([null, null, null])
  },
)

/** One batch is read while the one before is written. */
const firstWritten = (poll: TestPoll) =>
  expect.poll(() => countItems(database.db, poll.name), { interval: 5, timeout: 10_000 }).toBe(1)

test('an item that is reset during a poll is sent by the next one', async () => {
  const poll = await create()
  poll.rows = [records(1, 1), records(2, 2)]
  poll.beforeBatch = async (index) => {
    if (index === 0) return
    await firstWritten(poll)
    await resetItem({ database, now, audit }, poll.name, '1', 'me')
  }
  await poll.poll()
  poll.beforeBatch = () => undefined
  await poll.poll()
  expect(keys(poll)).toEqual(['1', '2', '1'])
})

test('a duplicate key, an empty key and a bad value are reported, and the other items are sent', async () => {
  const poll = await create()
  poll.rows = [
    [{ id: '1', name: 'first' }, { id: '' }, { id: '2', name: 'a\0b' }],
    [{ id: '1', name: 'second' }, { id: '3' }],
  ]
  expect(await poll.poll()).toMatchObject({ changes: 3 })
  // Batches are written concurrently, except for records with the same key.
  const byKey = poll.enqueued.toSorted((one, other) => one.pk.localeCompare(other.pk))
  expect(byKey.map(({ pk, value }) => [pk, value.name])).toEqual([
    ['1', 'first'],
    ['1', 'second'],
    ['3', undefined],
  ])
  const reported = await problems(poll)
  expect(reported.map(({ pk }) => pk).sort()).toEqual(['', '1', '2'])
  expect(reported.find(({ pk }) => pk === '1')?.error).toContain(
    'is 2 times in the source, first and last at record 1 and record 4',
  )
  expect(await poll.poll()).toMatchObject({ changes: 0 })
})

test('an item with hostile names and values arrives unchanged', async () => {
  const poll = await create()
  const hostile = JSON.parse(
    '{"id":"<script>alert(1)</script>","__proto__x":"{\\"$gt\\":1}","constructor":"x","text":"\'; drop table orders; --"}',
  )
  poll.rows = [[{ ...hostile, long: 'x'.repeat(1_000_000) }]]
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(poll.enqueued[0]?.value).toMatchObject({ ...hostile, long: expect.any(String) })
})

test('nothing is read while another process has the lease', async () => {
  const poll = await create()
  poll.rows = [records(1, 1)]
  await database.db
    .insertInto('leases')
    .values({
      name: `flow:${poll.name}`,
      owner: 'somebody else',
      deadline: new Date(now().getTime() + 10_000),
      token: 1,
    })
    .execute()
  expect(await poll.poll()).toBeUndefined()
  expect(poll.scans).toEqual([])
})

test('a poll whose lease was taken over writes nothing more and is not counted', async () => {
  const poll = await create()
  poll.rows = [records(1, 1), records(2, 2)]
  poll.beforeBatch = async (index) => {
    if (index === 0) return
    await firstWritten(poll)
    await database.db
      .updateTable('leases')
      .set((eb) => ({ owner: 'somebody else', token: eb('token', '+', 1) }))
      .where('name', '=', `flow:${poll.name}`)
      .execute()
  }
  await expect(poll.poll()).rejects.toBeInstanceOf(LeaseLostError)
  expect(keys(poll)).toEqual(['1'])
  expect((await state(poll))?.last_poll_at).toBeNull()
})

test('a limit pauses the flow with its last run; a failed poll does not count', async () => {
  const poll = await create()
  poll.rows = [records(1, 1)]
  await database.transaction((trx) => upsertLimit(trx, poll.name, 2, now()))
  await poll.poll()
  poll.beforeBatch = () => {
    throw new SourceError({ code: 'SAID', data: { said: 'gone' } })
  }
  await expect(poll.poll()).rejects.toThrow('gone')
  expect(await isPaused(database.db, poll.name)).toBe(false)
  poll.beforeBatch = () => undefined
  await poll.poll()
  expect(await isPaused(database.db, poll.name)).toBe(true)
})

test('the reported reason has the text of a source error, and no text of other errors', async () => {
  const poll = await create()
  poll.rows = [records(1, 1)]
  poll.beforeBatch = () => {
    throw new Error('password=hunter2')
  }
  await expect(poll.poll()).rejects.toThrow()
  poll.beforeBatch = () => {
    throw new SourceError({ code: 'SAID', data: { said: 'the table is gone' } })
  }
  await expect(poll.poll()).rejects.toThrow()
  expect((await problems(poll)).map(({ error }) => error)).toEqual([
    'the poll failed; see the log',
    'the table is gone',
  ])
})

const deleting = (guard = {}) => ({ flow: { deletes: { mode: 'delete', guard } } })

test('a removed item is deleted once, by a full scan', async () => {
  const poll = await create(deleting())
  poll.rows = [records(1, 20)]
  await poll.poll()
  poll.rows = [records(1, 18)]
  expect(await poll.poll()).toMatchObject({ changes: 2 })
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(poll.enqueued.slice(-2).map(({ pk, kind, value }) => [pk, kind, value])).toEqual([
    ['19', 'delete', { id: '19' }],
    ['20', 'delete', { id: '20' }],
  ])
  expect(await countItems(database.db, poll.name)).toBe(18)
})

test.each([
  ['the source is empty', [], {}],
  ['too many vanish at once', [records(1, 100)], {}],
  ['a record could not be read', [[...records(1, 118), { id: '' }]], {}],
])('deletes wait for an answer, and that is reported, when %s', async (_, rows, guard) => {
  const poll = await create(deleting(guard))
  poll.rows = [records(1, 120)]
  await poll.poll()
  poll.rows = rows
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await countItems(database.db, poll.name)).toBe(120)
  expect((await problems(poll)).some(({ error }) => error.includes('wait for an answer'))).toBe(
    true,
  )
})

test('a NUL in a key, a text or a name keeps only that item out', async () => {
  const poll = await create(deleting())
  poll.rows = [records(1, 3)]
  await poll.poll()
  poll.rows = [
    [{ id: 'a\0b' }, ...records(1, 2, { v: 1 }), { id: '3', t: 'x\0' }, { id: '4', 'n\0m': '' }],
    records(5, 5),
  ]
  expect(await poll.poll()).toMatchObject({ changes: 3, rowsRead: 6 })
  expect(keys(poll).slice(3).sort()).toEqual(['1', '2', '5'])
  expect(await problems(poll)).toEqual(
    expect.arrayContaining([
      { pk: 'a\ufffdb', error: 'the field "id" holds the character NUL' },
      { pk: '3', error: 'the field "t" holds the character NUL' },
      { pk: '4', error: 'the field "n\\u0000m" holds the character NUL' },
    ]),
  )
})

test('a NUL in the field of the cursor does not stop the flow', async () => {
  const poll = await create({ cursor: { field: 'at', overlapMs: 0 } })
  poll.rows = [
    [
      { id: '1', at: '2026-01-01T00:00:00Z' },
      { id: '2', at: '2027\0' },
    ],
  ]
  expect(await poll.poll()).toMatchObject({ changes: 1, rowsRead: 2 })
  expect(await state(poll)).toMatchObject({ cursor: '2026-01-01T00:00:00Z' })
})

test('the guard allows exactly its limit', async () => {
  const poll = await create(deleting({ maxPercent: 10, minItems: 10 }))
  poll.rows = [records(1, 200)]
  await poll.poll()
  poll.rows = [records(1, 180)]
  expect(await poll.poll()).toMatchObject({ changes: 20 })
})

test('an item that is synced alone while the source is read is not deleted', async () => {
  const poll = await create(deleting())
  poll.rows = [records(1, 2)]
  poll.runtime.source.readItem = async () => records(3, 3)
  poll.beforeBatch = async () => {
    const item = poll.deps
    expect(await syncItem(item, poll.runtime, '3')).toMatchObject({ found: true, changed: true })
  }
  await poll.poll()
  expect(poll.enqueued.map(({ pk, kind }) => [pk, kind])).toEqual([
    ['3', 'upsert'],
    ['1', 'upsert'],
    ['2', 'upsert'],
  ])
  poll.beforeBatch = () => undefined
  expect(await poll.poll()).toMatchObject({ changes: 1 })
  expect(poll.enqueued.at(-1)).toMatchObject({ pk: '3', kind: 'delete' })
})

test('without deletes.mode a removed item is not deleted', async () => {
  const poll = await create()
  poll.rows = [records(1, 2)]
  await poll.poll()
  poll.rows = [records(1, 1)]
  expect(await poll.poll()).toMatchObject({ changes: 0 })
  expect(await countItems(database.db, poll.name)).toBe(2)
})
