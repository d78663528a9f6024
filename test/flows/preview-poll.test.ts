import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { sentenceOf } from '../../src/domain/flow-reasons.ts'
import type { SyncPreview } from '../../src/flows/control/control-service-types.ts'
import { resetFlow } from '../../src/flows/control/pauses-and-limits.ts'
import { CutOff, type PreviewDeps, previewPoll } from '../../src/flows/poll/poll-preview.ts'
import { SourceError, type SourceRow } from '../../src/flows/types.ts'
import { openTestDatabase } from '../support/database.ts'
import { isLongForm, needsLongForm } from '../support/rounds.ts'
import { audit, createTestPoll, records, type TestPoll } from './poll-support.ts'
import { contentsOf } from './preview-support.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
setFlagsFromString('--no-expose-gc')

let database: Database
let offsetMs = 0
const now = () => new Date(Date.now() + offsetMs)

beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const create = (options: Omit<Parameters<typeof createTestPoll>[1], 'now'> = {}) =>
  createTestPoll(database, { now, ...options })

const noRefusal = { name: 'out', type: 'file', check: async () => undefined }

function preview(
  poll: TestPoll,
  options: { maxRows?: number; signal?: AbortSignal } & Partial<PreviewDeps> = {},
): Promise<SyncPreview> {
  const { maxRows = 1_000, signal = new AbortController().signal, ...deps } = options
  const all = {
    db: database.db,
    now,
    deliveryPreviews: [noRefusal],
    checkWanted: async () => {},
    ...deps,
  }
  return previewPoll(all, poll.runtime, { maxRows, signal })
}

/** The newest poll on record. */
const lastPoll = (flow: string) =>
  database.db
    .selectFrom('flow_polls')
    .select('kind')
    .where('flow', '=', flow)
    .orderBy('id', 'desc')
    .executeTakeFirst()
const errorsOf = async (flow: string) =>
  (
    await database.db.selectFrom('flow_errors').select('error').where('flow', '=', flow).execute()
  ).map(({ error }) => error)

/** Runs a preview and a poll, and checks that the poll finds what the preview showed. */
async function expectAgreement(poll: TestPoll): Promise<void> {
  const before = await contentsOf(database)
  const shown = await preview(poll)
  expect(await contentsOf(database)).toEqual(before)

  const enqueued = poll.enqueued.length
  let logged = { problems: 0 }
  const info = (fields: object) => {
    logged = fields as typeof logged
  }
  poll.deps.log = { ...poll.deps.log, info }
  const done = await poll.poll()
  const { items, deletes, scan } = shown
  expect(done).toEqual({ changes: shown.changes, rowsRead: shown.rowsRead })
  // Of the preview, and of the poll.
  expect(poll.scans.slice(-2)).toEqual([scan?.since, scan?.since])
  const sent = poll.enqueued.slice(enqueued)
  const kinds = ['upsert', 'delete'].map((kind) => sent.filter((one) => one.kind === kind).length)
  expect(kinds).toEqual([shown.destinations[0]?.upserts, shown.destinations[0]?.deletes])
  expect(items.duplicate + items.rejected).toBe(logged.problems)
  expect(shown.problems).toHaveLength(logged.problems)
  if (deletes.verdict === 'hold_back') {
    expect(await errorsOf(poll.name)).toContain(deletes.why && sentenceOf(deletes.why, 'en'))
  }
  const sampled = shown.sample.filter(
    ({ kind }) => kind !== 'deleted' || deletes.verdict === 'send',
  )
  expect(sampled.map(({ pk }) => pk).sort()).toEqual(sent.map(({ pk }) => pk).sort())
  expect((await lastPoll(poll.name))?.kind).toBe(scan?.kind)
}

const row = fc.record({
  id: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', ''),
  at: fc.integer({ min: 1, max: 5 }),
  price: fc.constantFrom(1, 2),
  sold: fc.constantFrom(true, false),
})
const step = fc.record({
  /** Null: what was there before. */
  batches: fc.option(fc.array(fc.array(row, { maxLength: 5 }), { maxLength: 3 }), { freq: 2 }),
  before: fc.constantFrom('nothing', 'nothing', 'nothing', 'reset', 'a day'),
})
const kindOfFlow = fc.record({
  hasCursor: fc.boolean(),
  mode: fc.constantFrom('ignore', 'delete'),
})

test('a preview writes nothing and shows what the next poll does, whatever happened before', {
  tags: ['long'],
  timeout: 120_000,
}, async () => {
  const property = fc.asyncProperty(
    kindOfFlow,
    fc.array(step, { minLength: 1, maxLength: 5 }),
    async ({ hasCursor, mode }, steps) => {
      const poll = await create({
        flow: {
          item: { filter: 'sold = false or price = 2' },
          deletes: { mode, guard: { maxPercent: 40, minItems: 1 } },
        },
        ...(hasCursor && {
          cursor: { field: 'at', overlapMs: 0 },
          fullScanEveryMs: 86_400_000,
        }),
      })
      for (const { batches, before } of steps) {
        if (before === 'reset') await resetFlow({ database, now, audit }, poll.name, 'me')
        if (before === 'a day') offsetMs += 86_400_000
        poll.rows = batches ?? poll.rows
        await expectAgreement(poll)
      }
    },
  )
  await fc.assert(property, { numRuns: 25, endOnFailure: true })
})

test('a preview shows missing items, and what the guard does about them', async () => {
  const deletes = { mode: 'delete', guard: { maxPercent: 50, minItems: 1 } }
  const poll = await create({ flow: { deletes } })
  poll.rows = [records(1, 4)]
  expect((await preview(poll)).deletes).toEqual({ verdict: 'none', count: 0, why: null })
  await poll.poll()
  poll.rows = [records(3, 4)]
  expect((await preview(poll)).deletes).toEqual({ verdict: 'send', count: 2, why: null })
  poll.rows = [records(4, 4)]
  const withheld = await preview(poll)
  expect(withheld.deletes).toMatchObject({ verdict: 'hold_back', count: 3 })
  expect(withheld.deletes.why).toMatchObject({ data: { percent: '75.0', known: 4 } })
  expect([withheld.changes, withheld.sample.map(({ kind }) => kind)]).toEqual([
    0,
    ['deleted', 'deleted', 'deleted'],
  ])
  // New items count in the total of which the guard takes the percentage.
  poll.rows = [[...records(4, 4), ...records(11, 12)]]
  expect(await preview(poll)).toMatchObject({ changes: 5, deletes: { verdict: 'send', count: 3 } })
  await expectAgreement(poll)
})

test('a flow that ignores deletes, and an incremental poll, do not search for deletes', async () => {
  const ignoring = await create()
  expect((await preview(ignoring)).deletes).toMatchObject({ verdict: 'not_asked', count: null })
  const increment = await create({
    flow: { deletes: { mode: 'delete' } },
    cursor: { field: 'at', overlapMs: 0 },
  })
  increment.rows = [[{ id: '1', at: 5 }]]
  await increment.poll()
  increment.rows = []
  expect(await preview(increment)).toMatchObject({
    scan: { kind: 'incremental', since: '5' },
    deletes: { verdict: 'not_asked', count: null },
  })
})

test('a preview that ends at its row limit reports only what it has read', async () => {
  const poll = await create({ flow: { deletes: { mode: 'delete' } } })
  poll.rows = [records(1, 3)]
  await poll.poll()
  poll.rows = [records(1, 2, { price: 1 }), records(3, 5)]
  expect(await preview(poll, { maxRows: 3 })).toMatchObject({
    cutOff: 'rows',
    rowsRead: 3,
    changes: 2,
    items: { changed: 2, unchanged: 1, new: 0 },
    deletes: { verdict: 'unknown', count: null },
  })
  expect(await preview(poll, { maxRows: 5 })).toMatchObject({ cutOff: null, rowsRead: 5 })
})

test('an item of several records that is cut by the row limit does not count as changed', async () => {
  const poll = await create()
  poll.runtime = { ...poll.runtime, groupBy: { children: { boxes: ['box'] } } }
  poll.rows = [
    [
      { id: '1', box: 'a' },
      { id: '1', box: 'b' },
      { id: '2', box: 'a' },
      { id: '2', box: 'b' },
    ],
  ]
  await poll.poll()
  expect(await preview(poll, { maxRows: 3 })).toMatchObject({
    cutOff: 'rows',
    items: { changed: 0, unchanged: 1 },
  })
})

test('a preview whose time ends within a batch reports what was known by then', async () => {
  const poll = await create()
  const given = new AbortController()
  poll.rows = [records(1, 3), records(4, 6)]
  const check = async ({ pk }: { pk: string }) => {
    if (pk === '5') given.abort(new CutOff('time'))
    return undefined
  }
  const shown = await preview(poll, {
    signal: given.signal,
    deliveryPreviews: [{ name: 'out', type: 'file', check }],
  })
  expect(shown).toMatchObject({ cutOff: 'time', rowsRead: 6, changes: 6 })
  expect(shown.destinations).toMatchObject([{ upserts: 6, tried: 5, refused: 0 }])
})

test('a preview ends also when the source throws an error other than that of its signal', async () => {
  const poll = await create()
  const given = new AbortController()
  poll.rows = [records(1, 1), records(2, 2)]
  poll.beforeBatch = (index) => {
    if (index === 0) return
    given.abort(new CutOff('time'))
    throw new SourceError({ code: 'SAID', data: { said: 'connection closed' } })
  }
  const shown = await preview(poll, { signal: given.signal })
  expect(shown).toMatchObject({ cutOff: 'time', rowsRead: 1 })
})

test('a failing source and a disconnected client end the preview, each with its reason', async () => {
  const poll = await create()
  const before = await contentsOf(database)
  const given = new AbortController()
  poll.rows = [records(1, 1)]
  poll.beforeBatch = () => given.abort(new Error('gave up'))
  await expect(preview(poll, { signal: given.signal })).rejects.toThrow('gave up')
  poll.beforeBatch = () => {
    throw new SourceError({ code: 'SAID', data: { said: 'the table is gone' } })
  }
  await expect(preview(poll)).rejects.toThrow('the table is gone')
  expect(await contentsOf(database)).toEqual(before)
})

test('a check between batches can end the preview', async () => {
  const poll = await create()
  poll.rows = [records(1, 1), records(2, 2)]
  let batches = 0
  const checkWanted = async () => {
    batches += 1
    throw new Error('a poll began')
  }
  await expect(preview(poll, { checkWanted })).rejects.toThrow('a poll began')
  expect(batches).toBe(1)
})

test('refusals of a destination are counted, with some reasons; of very many items only the first are tried', async () => {
  const poll = await create()
  poll.rows = Array.from({ length: 12 }, (_, index) =>
    records(index * 1_000 + 1, (index + 1) * 1_000),
  )
  const check = async ({ pk }: { pk: string }) =>
    pk.endsWith('7')
      ? { refused: { code: 'BATCH_SAID', data: { said: `no ${pk} here` } } as const }
      : undefined
  const deliveryPreviews = [noRefusal, { name: 'picky', type: 'http', check }]
  const { changes, destinations } = await preview(poll, { maxRows: 100_000, deliveryPreviews })
  expect(changes).toBe(12_000)
  expect(destinations[0]).toMatchObject({ name: 'out', upserts: 12_000, refused: 0, refusals: [] })
  expect(destinations[1]).toMatchObject({ name: 'picky', tried: 10_000, refused: 1_000 })
  expect(destinations[1]?.refusals).toEqual(
    ['7', '17', '27', '37', '47'].map((pk) => ({
      pk,
      why: { code: 'BATCH_SAID', data: { said: `no ${pk} here` } },
    })),
  )
})

test('the sample has 20 changes and some of each kind, however many there are of one', async () => {
  const poll = await create({
    flow: { deletes: { mode: 'delete', guard: { maxPercent: 100, minItems: 0 } } },
  })
  poll.rows = [records(1, 5)]
  await poll.poll()
  poll.rows = [[...records(1, 2, { price: 1 }), ...records(3, 3), ...records(101, 200)]]
  const { sample } = await preview(poll)
  expect(sample.map(({ kind }) => kind)).toEqual([
    'changed',
    'changed',
    ...Array.from({ length: 16 }, () => 'new'),
    'deleted',
    'deleted',
  ])
})

test.skipIf(!isLongForm)(
  `ten times the items need no more memory (${needsLongForm})`,
  { timeout: 120_000 },
  async () => {
    const poll = await create()
    const base = poll.runtime.source
    const filler = 'x'.repeat(200)
    const measure = async (batches: number): Promise<number> => {
      let most = 0
      const source = {
        ...base,
        async *scan(): AsyncGenerator<SourceRow[]> {
          for (let index = 0; index < batches; index += 1) {
            yield records(index * 1_000, index * 1_000 + 999, { filler })
          }
        },
      }
      const checkWanted = async () => {
        collect()
        most = Math.max(most, process.memoryUsage().heapUsed)
      }
      const runtime = { ...poll.runtime, source }
      const deps = { db: database.db, now, deliveryPreviews: [noRefusal], checkWanted }
      const signal = new AbortController().signal
      const shown = await previewPoll(deps, runtime, { maxRows: 1_000_000, signal })
      expect(shown.changes).toBe(batches * 1_000)
      return most
    }
    const small = await measure(5)
    expect((await measure(50)) - small).toBeLessThan(15 * 1024 * 1024)
  },
)
