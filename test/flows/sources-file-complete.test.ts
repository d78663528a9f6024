import { mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { loadFlows } from '../../src/flows/loading/load-flow-files.ts'
import { type Source, SourceError, type SourceWarning } from '../../src/flows/types.ts'
import { sentenceOf } from '../../src/texts/reason.ts'
import { openTestDatabase } from '../support/database.ts'
import { createTestPoll } from './poll-support.ts'
import { flowOf, ids, openTestSource } from './sources-support.ts'

let root: string
let folder: string
let count = 0
let nowMs = Date.now()
/** The adjustment of the clock. */
let setMs = 0
const now = () => new Date(nowMs + setMs)
const later = (ms: number) => {
  nowMs += ms
}

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'sources-file-complete-'))
})
afterAll(() => rm(root, { recursive: true }))
beforeEach(async () => {
  nowMs = Date.now()
  setMs = 0
  count += 1
  folder = join(root, String(count))
  await mkdir(folder)
})

const minute = 60_000
const write = (name: string, content: string) => writeFile(join(folder, name), content)
const open = (source: object = {}, flow: object = {}) => {
  const definition = { type: 'file', path: join(folder, 'a.csv'), format: 'csv', settle: '0s' }
  return openTestSource(flowOf({ ...definition, ...source }, flow), {
    now,
    monotonicMs: () => nowMs,
  }).source
}
const several = () => ({ path: join(folder, '*.csv'), after: 'archive' })

/** Warnings with their English sentences. */
async function read(source: Source) {
  const warnings: { message: string; isIncomplete: boolean }[] = []
  const keys: unknown[] = []
  const { signal } = new AbortController()
  const warn = ({ why, isIncomplete }: SourceWarning) =>
    void warnings.push({ message: sentenceOf(why, 'en'), isIncomplete })
  for await (const rows of source.scan({ since: null, signal, warn })) keys.push(...ids(rows))
  return { keys, warnings }
}

describe('a last line without its end', () => {
  test('is not read, nor is its file put away, until the writer has ended it', async () => {
    await write('a.csv', 'id,price\n1,10\n2,12')
    const source = open(several())
    const { keys, warnings } = await read(source)
    expect(keys).toEqual(['1'])
    expect(warnings).toMatchObject([
      { isIncomplete: true, message: expect.stringMatching(/a\.csv ends within a line/) },
    ])
    await source.committed?.()
    expect(await readdir(folder)).toEqual(['a.csv'])
    await write('a.csv', 'id,price\n1,10\n2,12.50\n3,1\n')
    expect(await read(source)).toEqual({ keys: ['1', '2', '3'], warnings: [] })
    await source.committed?.()
    expect(await readdir(folder)).toEqual(['archive'])
  })

  test('is read with a warning when the file was unchanged for long', async () => {
    await write('a.csv', 'id,price\n1,10\n2,12')
    const source = open(several())
    later(14 * minute)
    expect((await read(source)).keys).toEqual(['1'])
    later(2 * minute)
    const { keys, warnings } = await read(source)
    expect(keys).toEqual(['1', '2'])
    expect(warnings).toMatchObject([
      { isIncomplete: false, message: expect.stringContaining('may be cut') },
    ])
    await source.committed?.()
    expect(await readdir(folder)).toEqual(['archive'])
  })

  test.each(['id', 'id,x\n1,1', 'id\r\n1\r', 'id\r\n"1'])('is no record: %j', async (text) => {
    await write('a.csv', text)
    const outcome = await read(open()).catch((error: unknown) => error)
    if (outcome instanceof SourceError) expect(outcome.message).toContain('not closed')
    else expect(outcome).toMatchObject({ keys: [], warnings: [{ isIncomplete: true }] })
  })

  test.each(['id\n1\n', 'id\r\n1\r\n', 'id\r1\r'])('has its end: %j', async (text) => {
    await write('a.csv', text)
    expect(await read(open())).toEqual({ keys: ['1'], warnings: [] })
  })

  test('makes later files wait, which may contain the same item', async () => {
    await write('a.csv', 'id\n1\n2')
    await write('b.csv', 'id\n3\n')
    await utimes(join(folder, 'a.csv'), 0, 1_700_000_000)
    expect((await read(open(several()))).keys).toEqual(['1'])
  })

  test.each([
    { format: 'csv', csv: { columns: ['id'] } },
    { format: 'fixed', fixed: { columns: [{ name: 'id', start: 1, length: 5 }] } },
    { format: 'ndjson' },
  ])('is also the state of an empty file, so that is not read either: $format', async (form) => {
    await write('a.csv', '')
    const source = open({ ...several(), ...form })
    expect(await read(source)).toMatchObject({ keys: [], warnings: [{ isIncomplete: true }] })
    await source.committed?.()
    expect(await readdir(folder)).toEqual(['a.csv'])
    later(16 * minute)
    expect(await read(source)).toEqual({ keys: [], warnings: [] })
    await source.committed?.()
    expect(await readdir(folder)).toEqual(['archive'])
  })

  test('is an error for a request of its item, not a missing item', async () => {
    await write('a.csv', 'id\n1\n2')
    const source = open()
    const { signal } = new AbortController()
    expect(await source.readItem({ key: ['1'], signal })).toEqual([{ id: '1' }])
    await expect(source.readItem({ key: ['2'], signal })).rejects.toThrow('ends within a line')
  })
})

describe('a clock that is set', () => {
  test('ahead by a day does not cause the read of an incomplete file or one that is being written', async () => {
    await write('a.csv', 'id,price\n1,10\n2,12')
    const [cut, fresh] = [open(), open({ ...several(), settle: '5s' })]
    setMs = 24 * 60 * minute
    expect(await read(cut)).toMatchObject({ keys: ['1'], warnings: [{ isIncomplete: true }] })
    expect((await read(fresh)).keys).toEqual([])
  })

  test('ahead by a day at the opening of the source does not cause the read of an incomplete file', async () => {
    open()
    setMs = 24 * 60 * minute
    await write('a.csv', 'id,price\n1,10\n2,12')
    expect(await read(open())).toMatchObject({ keys: ['1'], warnings: [{ isIncomplete: true }] })
  })

  test.each([24 * 60, -24 * 60])(
    'by %i minutes delays no file longer than its time',
    async (minutes) => {
      const source = open({ ...several(), settle: '5s' })
      setMs = minutes * minute
      await write('a.csv', 'id\n1\n')
      expect((await read(source)).keys).toEqual([])
      later(6_000)
      expect((await read(source)).keys).toEqual(['1'])
    },
  )

  test('does not hide a change of the file', async () => {
    const source = open({ ...several(), settle: '5s' })
    setMs = -24 * 60 * minute
    for (const text of ['id\n1\n', 'id\n1\n2\n', 'id\n1\n2\n3\n']) {
      await write('a.csv', text)
      expect((await read(source)).keys).toEqual([])
      later(4_000)
    }
    expect((await read(source)).keys).toEqual([])
    later(2_000)
    expect((await read(source)).keys).toEqual(['1', '2', '3'])
  })
})

describe('with a marker', () => {
  const marked = (more: object = {}) => ({ ...several(), ready: '{name}.ok', ...more })

  test('a file is read when its marker exists, with or without line ends, and both are put away', async () => {
    await write('a.csv', 'id\n1\n2')
    const source = open(marked())
    expect(await read(source)).toEqual({ keys: [], warnings: [] })
    await write('a.csv.ok', '')
    expect(await read(source)).toEqual({ keys: ['1', '2'], warnings: [] })
    await source.committed?.()
    expect(await readdir(folder)).toEqual(['archive'])
    expect(await readdir(join(folder, 'archive'))).toHaveLength(1)
  })

  test('a marker of an earlier file of that name does not count', async () => {
    await write('a.ok', '')
    await utimes(join(folder, 'a.ok'), 0, 1_700_000_000)
    await write('a.csv', 'id\n1\n')
    const source = open({ ready: '{stem}.ok' })
    await expect(read(source)).rejects.toThrow('waits for its marker a.ok (source.ready)')
    await write('a.ok', '')
    const { mtime } = await stat(join(folder, 'a.csv'))
    await utimes(join(folder, 'a.ok'), mtime, mtime)
    await utimes(join(folder, 'a.csv'), mtime, mtime)
    expect((await read(source)).keys).toEqual(['1'])
  })

  test('a pattern that also matches markers does not read them', async () => {
    await write('a', 'id\n1\n')
    await write('a.ok', '')
    expect((await read(open(marked({ path: join(folder, '*') })))).keys).toEqual(['1'])
  })

  test('a missing marker is reported', async () => {
    await write('a.csv', 'id\n1\n')
    later(16 * minute)
    const { keys, warnings } = await read(open(marked()))
    expect(keys).toEqual([])
    expect(warnings).toMatchObject([
      { isIncomplete: false, message: expect.stringContaining('waits for its marker a.csv.ok') },
    ])
  })

  test.each([
    ['{name}', 'must be a name made with {name}'],
    ['done', 'must be a name made with {name}'],
    ['../{name}.ok', 'must be a name made with {name}'],
    ['{stem}.csv', 'is the name of the file itself'],
  ])('the name %s is refused', async (ready, message) => {
    const file = [
      'version: 1\nname: f\npollInterval: 60s\nitem: { key: id }',
      `source: { type: file, path: ./a.csv, format: csv, ready: "${ready}" }`,
      'destinations: [{ name: d, type: file, path: d.ndjson, format: ndjson }]\n',
    ].join('\n')
    await write('f.flow.yaml', file)
    const { problems } = await loadFlows(folder, {
      env: {},
      readFile: () => '',
      mail: { smtpUrl: undefined, mailFrom: undefined },
    })
    expect(problems).toMatchObject([
      { line: 5, key: 'source.ready', message: expect.stringContaining(message) },
    ])
  })
})

describe('a poll of such a file', () => {
  let database: Database
  beforeAll(async () => {
    database = await openTestDatabase()
  })
  afterAll(() => database.close())

  const errors = async (flow: string) => {
    const query = database.db.selectFrom('flow_errors').select('error').where('flow', '=', flow)
    return (await query.execute()).map(({ error }) => error).sort()
  }

  test('sends complete records, deletes nothing and reports why; the warning of an incomplete file stays', async () => {
    const flow = { deletes: { mode: 'delete' } }
    const poll = await createTestPoll(database, { now, flow })
    poll.runtime = { ...poll.runtime, source: open({}, flow) }
    await write('a.csv', 'id,price\n1,10\n2,12\n3,1\n')
    await poll.poll()
    await write('a.csv', 'id,price\n1,10\n2,12.50\n3,')
    await poll.poll()
    expect(poll.enqueued.map(({ pk, kind }) => `${kind} ${pk}`).sort()).toEqual([
      ...['upsert 1', 'upsert 2', 'upsert 2', 'upsert 3'],
    ])
    expect(await errors(poll.name)).toEqual([
      expect.stringContaining('1 deletes wait for an answer'),
      expect.stringContaining('ends within a line; its last record waits'),
    ])
    later(16 * minute)
    await poll.poll()
    expect(poll.enqueued.filter(({ pk }) => pk === '3')).toHaveLength(2)
    expect(await errors(poll.name)).toContainEqual(expect.stringContaining('may be cut'))
  })
})
