import { execFileSync } from 'node:child_process'
import { appendFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'csv-parse/sync'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type FileSettings, openFileDestination } from '../../src/flows/destinations/file.ts'
import { clock, job, never } from './destinations-job.ts'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tillbridge-file-'))
})

afterEach(() => rm(folder, { recursive: true }))

function open(change: Partial<FileSettings> = {}) {
  return openFileDestination({
    ...{ format: 'ndjson', timezone: 'UTC', now: clock(), fence: { inside: folder, outside: [] } },
    ...change,
    path: join(folder, change.path ?? './out/stores-{date}.ndjson'),
  })
}

const openCsv = () => open({ path: 'out.csv', format: 'csv' })
const read = (name: string) => readFile(join(folder, name), 'utf8')
const csv = async () => parse(await read('out.csv'), { columns: true, recordDelimiter: '\r\n' })

test('each delivery is one line of JSON with its key, kind and item', async () => {
  const destination = open()
  await destination.deliver(job({ body: { name: 'línea\nrota\r\n' } }), never)
  await destination.deliver(job({ kind: 'delete', body: null, jobKey: 'b' }), never)
  const lines = (await read('out/stores-2026-11-21.ndjson')).split('\n')
  expect(lines.map((line) => line && JSON.parse(line))).toEqual([
    { _key: 'a'.repeat(64), _kind: 'upsert', _pk: 'SUC-1', name: 'línea\nrota\r\n' },
    { _key: 'b', _kind: 'delete', _pk: 'SUC-1' },
    '',
  ])
})

test.each(['ndjson', 'csv'] as const)('no write waits for a pipe: %s', async (format) => {
  execFileSync('mkfifo', [join(folder, 'pipe')])
  const destination = open({ path: 'pipe', format })
  expect(await destination.deliver(job(), never)).toMatchObject({
    ok: false,
    retryable: true,
    why: {
      code: 'FILE_NOT_WRITABLE',
      data: { said: { code: 'IT', data: { what: { code: 'IS_NOT_REGULAR' } } } },
    },
  })
  await destination.close()
})

test('the day in the path is the day of the time zone', async () => {
  const now = clock('2026-11-22T01:30:00.000Z')
  await open({ now, timezone: 'America/Argentina/Buenos_Aires' }).deliver(job(), never)
  await open({ now, timezone: 'UTC' }).deliver(job(), never)
  expect(await read('out/stores-2026-11-21.ndjson')).toContain('SUC-1')
  expect(await read('out/stores-2026-11-22.ndjson')).toContain('SUC-1')
})

test('many concurrent deliveries are all written, whole', async () => {
  const destination = open()
  const keys = Array.from({ length: 50 }, (_, index) => `key-${index}`)
  await Promise.all(
    keys.map((jobKey) =>
      destination.deliver(job({ jobKey, body: { t: 'x'.repeat(5000) } }), never),
    ),
  )
  const lines = (await read('out/stores-2026-11-21.ndjson')).trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line)._key).toSorted()).toEqual(keys.toSorted())
})

test('an incomplete line that a crash left is removed, long or short, before the next one', async () => {
  const name = 'out/stores-2026-11-21.ndjson'
  for (const torn of ['{"_ke', `{"_key":"x","_kind":"upsert","t":"${'y'.repeat(200_000)}`]) {
    await open().deliver(job(), never)
    await appendFile(join(folder, name), torn)
  }
  await open().deliver(job({ jobKey: 'last' }), never)
  const lines = (await read(name)).trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line)._key)).toEqual([
    'a'.repeat(64),
    'a'.repeat(64),
    'last',
  ])
})

test('a line of another program without its line end is kept', async () => {
  await writeFile(join(folder, 'notes.ndjson'), '{"hand":"written"}')
  await open({ path: 'notes.ndjson' }).deliver(job({ jobKey: 'k' }), never)
  const [first, second] = (await read('notes.ndjson')).split('\n')
  expect(first).toBe('{"hand":"written"}')
  expect(JSON.parse(second ?? '')).toMatchObject({ _key: 'k' })
})

test('a file that was moved away is created again', async () => {
  const destination = open({ path: 'a.ndjson' })
  await destination.deliver(job(), never)
  await rm(join(folder, 'a.ndjson'))
  await destination.deliver(job({ jobKey: 'after' }), never)
  expect(JSON.parse(await read('a.ndjson'))).toMatchObject({ _key: 'after' })
})

test('CSV has a header, quotes where needed, and reads back unchanged', async () => {
  const destination = openCsv()
  const body = { name: 'Él dijo "sí", ya', note: 'a\r\nb', list: [1, { a: 2 }], none: null, n: 1.5 }
  await destination.deliver(job({ body }), never)
  await destination.deliver(job({ kind: 'delete', body: undefined, jobKey: 'k2' }), never)
  expect(await csv()).toEqual([
    {
      _key: 'a'.repeat(64),
      _kind: 'upsert',
      _pk: 'SUC-1',
      name: 'Él dijo "sí", ya',
      note: 'a\nb',
      list: '[1,{"a":2}]',
      none: '',
      n: '1.5',
    },
    { _key: 'k2', _kind: 'delete', _pk: 'SUC-1', name: '', note: '', list: '', none: '', n: '' },
  ])
})

test('CSV columns stay those of the first line, quoted names included', async () => {
  await openCsv().deliver(job({ body: { 'a,"b"': 1, ' ': 2, c: 3 } }), never)
  const again = await openCsv().deliver(job({ body: { c: 6, 'a,"b"': 4 } }), never)
  expect(again).toEqual({ ok: true })
  const other = await openCsv().deliver(job({ body: { c: 1, d: 1 } }), never)
  expect(other).toMatchObject({
    ok: false,
    retryable: false,
    why: { code: 'NO_COLUMN', data: { fields: 'd' } },
  })
  expect((await csv()).map((row) => Object.values(row as object).slice(3))).toEqual([
    ['1', '2', '3'],
    ['4', '', '6'],
  ])
})

test('an incomplete CSV row is removed even with a line break in it, and an incomplete header is written again', async () => {
  await writeFile(join(folder, 'out.csv'), '_key,_ki')
  await openCsv().deliver(job({ body: { a: 1 } }), never)
  await appendFile(join(folder, 'out.csv'), 'k,upsert,SUC-9,"two\nlines')
  await openCsv().deliver(job({ jobKey: 'k3', body: { a: 2 } }), never)
  expect((await csv()).map((row) => (row as { a: string }).a)).toEqual(['1', '2'])
})

test.each(['codigo;nombre\r\n1;Centro\r\n', 'codigo;nombre\n1;Centro\n'])(
  'a CSV file of another program stays unchanged (%j)',
  async (content) => {
    await writeFile(join(folder, 'out.csv'), content)
    expect(await openCsv().deliver(job(), never)).toMatchObject({ ok: false, retryable: false })
    expect(await read('out.csv')).toBe(content)
  },
)

test('bodies without fields and fields with our names are refused', async () => {
  for (const body of ['text', 7, null, undefined, [{}], { _key: 'mine' }]) {
    expect(await open().deliver(job({ body }), never)).toMatchObject({
      ok: false,
      retryable: false,
    })
  }
})

test('a link in place of the file is not followed, and a disk error can be retried', async () => {
  await writeFile(join(folder, 'victim'), 'precious')
  await symlink(join(folder, 'victim'), join(folder, 'link.ndjson'))
  const linked = await open({ path: 'link.ndjson' }).deliver(job(), never)
  expect(linked).toMatchObject({ ok: false, retryable: true, outage: true })
  expect(await read('victim')).toBe('precious')
  await mkdir(join(folder, 'folder.ndjson'))
  const folderInPlace = await open({ path: 'folder.ndjson' }).deliver(job(), never)
  expect(folderInPlace).toMatchObject({
    retryable: true,
    outage: true,
    why: { code: 'FILE_NOT_WRITABLE', data: { said: 'EISDIR' } },
  })
})

test.each(['ndjson', 'csv'] as const)(
  'many items are written in order by one write: %s',
  async (format) => {
    const destination = open({ path: `many.${format}`, format })
    const jobs = Array.from({ length: 300 }, (_, index) =>
      job({ pk: `P${index}`, jobKey: `k${index}`, body: { name: `n${index}` } }),
    )
    expect(destination.batches?.most('upsert')).toBeGreaterThanOrEqual(jobs.length)
    const results = await destination.batches?.deliver(jobs, never)
    expect(results).toEqual(jobs.map(() => ({ ok: true })))
    const lines = (await read(`many.${format}`)).trimEnd().split(/\r?\n/)
    expect(lines).toHaveLength(format === 'csv' ? 301 : 300)
    expect(lines.at(-1)).toContain('P299')
    expect(lines.filter((line) => line.includes('_pk,'))).toHaveLength(format === 'csv' ? 1 : 0)
  },
)

test('each of several items in one write has its own outcome', async () => {
  const destination = openCsv()
  let asked = 0
  const mayStart = () => {
    asked += 1
    return true
  }
  const results = await destination.batches?.deliver(
    [
      job({ pk: 'A', body: { name: 'a' }, mayStart }),
      job({ pk: 'B', body: { name: 'b', other: 1 }, mayStart }),
      job({ pk: 'C', body: ['no object'], mayStart }),
      job({ pk: 'D', body: { name: 'd' }, mayStart: () => false }),
      job({ pk: 'E', body: { name: 'e' }, mayStart }),
    ],
    never,
  )
  expect(results).toMatchObject([
    { ok: true },
    { ok: false, retryable: false, why: { code: 'NO_COLUMN', data: { fields: 'other' } } },
    { ok: false, retryable: false, why: { code: 'NO_OBJECT' } },
    { ok: false, retryable: true, why: { code: 'PERMIT_LOST' } },
    { ok: true },
  ])
  expect((await csv()).map((row) => (row as { _pk: string })._pk)).toEqual(['A', 'E'])
  // Only a written line may have arrived.
  expect(asked).toBe(2)
})

test('when the file cannot be written all items wait', async () => {
  await mkdir(join(folder, 'is-a-folder'))
  const destination = open({ path: 'is-a-folder' })
  const results = await destination.batches?.deliver([job({ pk: 'A' }), job({ pk: 'B' })], never)
  const why = { code: 'FILE_NOT_WRITABLE', data: { said: 'EISDIR' } }
  expect(results).toMatchObject([
    { ok: false, retryable: true, outage: true, why },
    { ok: false, retryable: true, outage: true, why },
  ])
})
