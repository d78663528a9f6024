import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { namesMatching } from '../../src/flows/definition/file-pattern.ts'
import { localFiles } from '../../src/flows/sources/file-local.ts'
import { isMarkerName } from '../../src/flows/sources/file-readiness.ts'
import type { SourceContext } from '../../src/flows/sources/source-context.ts'
import { SourceError, type SourceRow, UnreadableValue } from '../../src/flows/types.ts'
import { flowOf, ids, openTestSource, readAll } from './sources-support.ts'

let root: string
let folder: string
let count = 0

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'sources-file-'))
})
afterAll(() => rm(root, { recursive: true }))
beforeEach(async () => {
  count += 1
  folder = join(root, String(count))
  await mkdir(folder)
})

const write = (name: string, content: string | Uint8Array) => writeFile(join(folder, name), content)

function open(source: object, more: Partial<SourceContext> = {}, flow: object = {}) {
  const definition = { type: 'file', path: join(folder, 'a.csv'), format: 'csv', settle: '0s' }
  return openTestSource(flowOf({ ...definition, ...source }, flow), more)
}

const read = (source: object = {}) => readAll(open(source).source)
const messageOf = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(SourceError)
  return (error as Error).message
}
const csv = async (content: string | Uint8Array, options: object = {}) => {
  await write('a.csv', content)
  return await read({ csv: options })
}

test('CSV: quotes, line ends, empty lines and empty values', async () => {
  expect(await csv('id,name\r\n1,"a ""b"", c\nd"\r\n\r\n2,\r\n')).toEqual([
    { id: '1', name: 'a "b", c\nd' },
    { id: '2', name: '' },
  ])
  expect(await csv('id;name\n1;x,y\n', { delimiter: ';' })).toEqual([{ id: '1', name: 'x,y' }])
})

test.each([
  'id,x\nA,1\r\nB,2\n',
  'id,x\r\nA,1\nB,2\r\n',
  'id,x\nA,1\rB,2\n',
  'id,x\r\r\nA,1\r\r\nB,2\r\r\n',
  'id,x\rA,1\r\nB,2\r\n',
])('CSV: line ends may differ, as in concatenated files: %j', async (content) => {
  const records = [
    { id: 'A', x: '1' },
    { id: 'B', x: '2' },
  ]
  expect(await csv(content)).toEqual(records)
  expect(await csv(content.replaceAll(/[AB12]/g, '"$&"'))).toEqual(records)
})

test.each<[string, object]>([
  ['id,t\n="00042",a\n"=""00043""",b\n', {}],
  ['="id";="t"\r\n="00042";="a"\r\n="00043";b\r\n', { delimiter: ';' }],
  ['id,t\n="00042",a\n="00043",b\n', { quotes: 'loose' }],
  ['id,t\n="00042",a\n="00043",b\n', { quotes: 'none' }],
])('CSV: the text formula of Excel is its text: %j %j', async (content, options) => {
  expect(await csv(content, options)).toEqual([
    { id: '00042', t: 'a' },
    { id: '00043', t: 'b' },
  ])
})

test('CSV: a text formula may hold the delimiter and quotes; another text with = is unchanged', async () => {
  const cells = '="a,b ""c""",="x",=A1+1,"say =""x""","a,=""b"""'
  expect(await csv(`id,b,c,d,e\n${cells}\n`)).toEqual([
    { id: 'a,b "c"', b: 'x', c: '=A1+1', d: 'say ="x"', e: 'a,="b"' },
  ])
  // The file is read in chunks, which may end anywhere.
  const many = Array.from({ length: 6_000 }, (_, index) => `="${index}",a`)
  const rows = await csv(`id,t\n${many.join('\n')}\n`)
  expect(ids(rows)).toEqual(many.map((_, index) => String(index)))
})

test('CSV: \\N is null, as MySQL writes it', async () => {
  for (const quotes of ['strict', 'loose', 'none']) {
    expect(await csv('id,t,u\n1,\\N,a\n2,"\\N",\\Nx\n', { quotes })).toEqual([
      { id: '1', t: null, u: 'a' },
      { id: '2', t: quotes === 'none' ? '"\\N"' : null, u: '\\Nx' },
    ])
  }
})

test.each([
  // MySQL: a backslash before a quote, a backslash or the end of a line.
  ['"1","1/2\\" codo"\n', '1/2" codo'],
  ['"1","a\\\\"\n"2","b \\"c\\""\n', 'a\\'],
  ['"1","say \\"hi\\""\n', 'say "hi"'],
  ['"1","a\\",b"\n', 'a",b'],
  ['"1","C:\\\\x"\n"2",\\N\n', 'C:\\x'],
  ['"1","a\\\nb \\"c\\""\n', 'a\nb "c"'],
  // RFC 4180: a backslash is a letter.
  ['"1","C:\\"\n"2","b"\n', 'C:\\'],
  ['"1","C:\\dir\\\\x"\n', 'C:\\dir\\\\x'],
  ['"1","5\\"" x"\n', '5\\" x'],
  ['1,a\\b\n2,"c"\n', 'a\\b'],
])('CSV: backslashes mean what makes the file whole: %j', async (content, value) => {
  const [row] = await csv(`id,t\n${content}`)
  expect(row).toEqual({ id: '1', t: value })
  const long = Array.from({ length: 3_000 }, (_, index) => `${index + 5},"plain"`).join('\n')
  const others = await csv(`id,t\n${long}\n${content}`)
  expect(others.find(({ id }) => id === '1')).toEqual({ id: '1', t: value })
})

test('CSV: a byte order mark is not part of the first name, nor are blanks around names', async () => {
  expect(await csv('\ufeffid, name \n1, a \n')).toEqual([{ id: '1', name: ' a ' }])
})

test('CSV: latin1 is read as programs mean it, and each encoding refuses the other', async () => {
  const old = Buffer.from('id,name\n1,a\u00f1o \x80\n', 'latin1')
  expect(await csv(old, { encoding: 'latin1' })).toEqual([{ id: '1', name: 'a\u00f1o \u20ac' }])
  expect(await messageOf(csv(old))).toContain('a.csv is not UTF-8')
  expect(await messageOf(csv('\ufeffid\n1\n', { encoding: 'latin1' }))).toContain('mark of utf8')
  // Cut in the middle of a character.
  expect(await messageOf(csv(Buffer.from('id\na\u00f1').subarray(0, -1)))).toContain('not UTF-8')
})

test('CSV: decimalComma changes a decimal comma to a point and removes thousands separators', async () => {
  const cells = ['1,5', '-1.234.567,50', '+0,1', '1.234', '12,34,5', 'a,b', '1,', '', '0.500']
  const rows = await csv(`id;v\n${cells.map((cell, index) => `${index};${cell}`).join('\n')}\n`, {
    delimiter: ';',
    decimalComma: true,
  })
  expect(rows.map(({ v }) => v)).toEqual([
    ...['1.5', '-1234567.50', '+0.1', '1234', '12,34,5', 'a,b', '1,', '', '0.500'],
  ])
})

test('CSV: with decimalComma everywhere, an amount in another notation refuses its record', async () => {
  const cells = ['1,234.50', '1.23,4', '36,38,40', '1.2.3', 'v 1.2,3', '1.234,50']
  const rows = await csv(`id;v\n${cells.map((cell, index) => `${index};${cell}`).join('\n')}\n`, {
    delimiter: ';',
    decimalComma: true,
  })
  const refused = (line: number) =>
    new UnreadableValue({
      code: 'FIXED_NO_NUMBER',
      data: { column: '"v"', line, type: 'decimalComma' },
    })
  expect(rows.map(({ v }) => v)).toEqual([
    ...[2, 3].map(refused),
    ...['36,38,40', '1.2.3', 'v 1.2,3', '1234.50'],
  ])
  expect(await csv('id\n"1,234.50"\n', { decimalComma: true })).toEqual([{ id: '1,234.50' }])
})

test('CSV: decimalComma does not change codes: those of the key, and all columns not in its list', async () => {
  const text = 'id;cuenta;precio\n1.234;2.345;3.456\n'
  const row = { id: '1.234', cuenta: '2345', precio: '3456' }
  expect(await csv(text, { delimiter: ';', decimalComma: true })).toEqual([row])
  expect(await csv(text, { delimiter: ';', decimalComma: ['precio'] })).toEqual([
    { ...row, cuenta: '2.345' },
  ])
})

test('CSV: a cell of a decimalComma column that is no such number refuses its record', async () => {
  const cells = ['12.50', '0.500', '$ 5,00', '1,234.50', 'x', '', ' 1.234,50 ', '7']
  const rows = await csv(`id;v\n${cells.map((cell, index) => `${index};${cell}`).join('\n')}\n`, {
    delimiter: ';',
    decimalComma: ['v'],
  })
  const refused = (line: number) =>
    new UnreadableValue({
      code: 'FIXED_NO_NUMBER',
      data: { column: '"v"', line, type: 'decimalComma' },
    })
  expect(rows.map(({ v }) => v)).toEqual([...[2, 3, 4, 5, 6].map(refused), ...['', '1234.50', '7']])
})

test.each([
  ['', 'is empty'],
  ['id,,name\n1,2,3\n', 'has no name for column 2'],
  ['id,name, id\n1,2,3\n', 'has the column "id" twice'],
  ['name,id\na,1\nb\n', 'has a record with another number of values than the header, at line 3'],
  ['id,name\n1,a\n2', 'has a record with another number of values than the header, at line 3'],
  ['id,name\n1,a\n2,b,c\n', 'another number of values than the header, at line 3'],
  ['id,name\n1,"a\n2,b\n', 'has a quote that is not closed'],
  ['id,name\n1,"a"b\n', 'has text behind a closing quote, at line 2'],
  ['id,name\n1,Tornillo 3" x\n', 'has a quote inside a value that is not quoted, at line 2'],
  [
    `id,name,foto\n1,a,b\n2,"a,b",${'x'.repeat(1_048_576)}\n`,
    'has a line longer than 1048576 characters, line 3, most of it in the column "foto"',
  ],
  [
    `id,name,foto\n1,"${'x,'.repeat(524_289)}",b\n`,
    'has a line longer than 1048576 characters, line 2, most of it in the column "name"',
  ],
  [`id,${'x'.repeat(1_048_576)}\n`, 'has a line longer than 1048576 characters, line 1'],
  [
    `id,name\n1,"${'x\n'.repeat(600_000)}"\n`,
    'has a record longer than 1048576 characters, at line 524290, in the column "name"',
  ],
  [`id,${'x,'.repeat(4_095)}y\n`, 'has 4097 columns in its header; 4096 are the most'],
  [`id,name\n${','.repeat(1_048_577)}\n`, 'has a line longer than 1048576 characters'],
])('CSV that is broken fails the poll (%#)', async (content, message) => {
  expect(await messageOf(csv(content))).toContain(message)
})

test.each([
  [
    'values at the end are left out',
    'id,name,note\n1,a,x\n2,b\n3\n',
    [
      ['1', 'a', 'x'],
      ['2', 'b', ''],
      ['3', '', ''],
    ],
  ],
  [
    'empty values at the end are too many',
    'id,name,note\n1,a,x,\n2,b,y,,\n',
    [
      ['1', 'a', 'x'],
      ['2', 'b', 'y'],
    ],
  ],
  [
    'the first line names the delimiter',
    'sep=;\r\nid;name;note\r\n1;a,b;x\r\n',
    [['1', 'a,b', 'x']],
  ],
  ['the first line names it in quotes', '"sep=|"\nid|name|note\n1|a|x\n', [['1', 'a', 'x']]],
  ['a column is called sep', 'sep,name,note\n1,a,x\n', [['1', 'a', 'x']]],
])('CSV: %s', async (_, content, expected) => {
  const rows = await csv(content)
  expect(rows.map((row) => Object.values(row))).toEqual(expected)
})

test('a header without records is a source without records', async () => {
  expect(await csv('id,name\n')).toEqual([])
})

test('hostile values arrive unchanged: foreign keys, NUL, long texts', async () => {
  const long = 'x'.repeat(1_000_000)
  const [row] = await csv(`id,__proto__,constructor,t\n${long},p,c,a\0b\n`)
  expect(Object.entries(row ?? {})).toEqual([
    ['id', long],
    ['__proto__', 'p'],
    ['constructor', 'c'],
    ['t', 'a\0b'],
  ])
  await write('a.ndjson', `{"id":"${long}","__proto__":{"a":1}}\n`)
  const [json] = await read({ path: join(folder, 'a.ndjson'), format: 'ndjson' })
  expect(Object.keys(json ?? {})).toEqual(['id', '__proto__'])
  expect(Object.getPrototypeOf(json)).toBe(Object.prototype)
})

test('ndjson: one object per line, exact numbers, the last line with or without its end', async () => {
  await write('a.ndjson', '\ufeff{"id":9007199254740993}\r\n\n{"id":"\u2028"}')
  const source = { path: join(folder, 'a.ndjson'), format: 'ndjson' }
  expect(ids(await read(source))).toEqual([9007199254740993n, '\u2028'])
  await write('a.ndjson', '{"id":1}\n{"id":\n')
  expect(await messageOf(read(source))).toMatch(/a\.ndjson has no JSON in line 2$/)
  await write('a.ndjson', '[1]\n')
  expect(await messageOf(read(source))).toContain('has a list in line 1, not an object')
  await write('a.ndjson', Buffer.alloc(1_048_577, 'x'))
  expect(await messageOf(read(source))).toContain('has more than 1048576 characters in line 1')
  await write('a.ndjson', `{"id":1}\n{"id":2,"foto":"${'x'.repeat(1_048_576)}"}\n{"id":3}`)
  expect(await messageOf(read(source))).toContain(
    'has more than 1048576 characters in line 2 in "foto"',
  )
})

test('json: the list, or the list at the path of items', { tags: ['long'] }, async () => {
  const source = { path: join(folder, 'a.json'), format: 'json' }
  await write('a.json', '[{"id":1}]')
  expect(await read(source)).toEqual([{ id: 1 }])
  await write('a.json', '{"d":{"rows":[{"id":2}]}}')
  expect(await read({ ...source, items: 'd.rows' })).toEqual([{ id: 2 }])
  expect(await messageOf(read({ ...source, items: 'd.none' }))).toContain(
    'items (d.none) is missing',
  )
  await write('a.json', '{"d":')
  expect(await messageOf(read(source))).toMatch(/a\.json is not JSON$/)
  await write('a.json', Buffer.alloc(33 * 1024 * 1024, ' '))
  expect(await messageOf(read(source))).toContain('is longer than')
})

test.each([
  ['a*.csv', ['a.csv', 'ab.csv', 'a.csv.csv', 'a\n.csv'], ['a.csv.old', 'ba.csv', 'csv', 'a.cs']],
  ['*a*a*', ['aa', 'xaxax', 'aaa'], ['a', 'xax', '.aa']],
  ['a*a', ['aa', 'aba'], ['a', 'ab']],
  ['.*', ['.a', '.'], ['a']],
  ['**', ['a', 'a.b'], ['.a']],
  ['a+(b).csv', ['a+(b).csv'], ['aab.csv', 'a+(b)xcsv']],
])('a * in the pattern %s stands for any characters', (pattern, fitting, others) => {
  const matches = namesMatching(pattern)
  expect(fitting.filter((name) => !matches(name))).toEqual([])
  expect(others.filter((name) => matches(name))).toEqual([])
})

test.each([
  ['{stem}.ok', ['a.ok', 'a.b.ok', '..ok'], ['.ok', 'a.ok2', 'ok']],
  ['{stem}-{name}', ['a-b', '---'], ['-b', 'a-', '--']],
  ['ready', ['ready'], ['readyx', 'xready']],
])(
  'the marker name %s has at least one character for the name of the file',
  (template, fitting, others) => {
    const matches = isMarkerName(template)
    expect(fitting.filter((name) => !matches(name))).toEqual([])
    expect(others.filter((name) => matches(name))).toEqual([])
  },
)

test('the files of a pattern are read newest first, without hidden files and folders', async () => {
  for (const [index, name] of ['b10.csv', 'b9.csv', 'b1.csv'].entries()) {
    await write(name, `id\n${index}\n`)
    await utimes(join(folder, name), 0, 1_700_000_000 + index)
  }
  await write('c.csv', 'id\n7\n')
  await write('.b1.csv', 'id\n8\n')
  await write('b1.csv.tmp', 'id\n9\n')
  await mkdir(join(folder, 'bdir.csv'))
  expect(ids(await read({ path: join(folder, 'b*.csv') }))).toEqual(['2', '1', '0'])
})

test('all files later than one that changed a moment ago wait, so that no older content follows newer', async () => {
  for (const [index, name] of ['a.csv', 'b.csv', 'c.csv'].entries()) {
    await write(name, `id\n${index}\n`)
  }
  // By its modification time b is the second oldest, although it was moved here just now.
  const [a, c] = [join(folder, 'a.csv'), join(folder, 'c.csv')]
  await utimes(a, 0, 1_700_000_000)
  await utimes(c, 0, 1_900_000_000)
  const changed = Number((await stat(c, { bigint: true })).ctimeMs)
  await expect.poll(() => Date.now()).toBeGreaterThan(changed + 20)
  await utimes(join(folder, 'b.csv'), 0, 1_800_000_000)
  const { source } = open(
    { path: join(folder, '*.csv'), settle: '1h', after: 'archive' },
    { now: () => new Date(changed + 3_600_010) },
  )
  expect(ids(await readAll(source))).toEqual(['0'])
})

test('a link in place of a file is refused', async () => {
  await write('secret.txt', 'id\n1\n')
  await symlink(join(folder, 'secret.txt'), join(folder, 'a.csv'))
  expect(await messageOf(read())).toContain('not a regular file')
  expect(await messageOf(read({ path: join(folder, '*.csv') }))).toContain('not a regular file')
})

test('no file, or no folder, fails the poll', async () => {
  expect(await messageOf(read())).toMatch(/^there is no file .*a\.csv to read$/)
  expect(await messageOf(read({ path: join(folder, '*.csv') }))).toContain('there is no file')
  expect(await messageOf(read({ path: join(folder, 'none', '*.csv') }))).toContain('ENOENT')
})

test('a folder that is emptied by reading is empty without new files, unless deletes are sent', async () => {
  const dropped = { path: join(folder, '*.csv'), after: 'archive' }
  expect(await read(dropped)).toEqual([])
  const { source } = open(dropped, {}, { deletes: { mode: 'delete' } })
  expect(await messageOf(readAll(source))).toContain('there is no file')
  expect(await messageOf(read({ after: 'archive' }))).toContain('there is no file')
})

test('a file that changed a moment ago is left for a later poll, and no item counts as missing', async () => {
  await write('a.csv', 'id\n1\n')
  const settle = { settle: '1h' }
  const later = { now: () => new Date(Date.now() + 3_600_000) }
  expect(await messageOf(readAll(open(settle).source))).toContain('(source.settle)')
  expect(await readAll(open(settle, later).source)).toEqual([{ id: '1' }])
  const several = { ...settle, path: join(folder, '*.csv') }
  expect(await readAll(open(several).source)).toEqual([])
  const deleting = { deletes: { mode: 'delete' } }
  expect(await messageOf(readAll(open(several, {}, deleting).source))).toContain('(source.settle)')
  expect(await readAll(open(several, later, deleting).source)).toEqual([{ id: '1' }])
})

/** Pauses after the first batch of one record. */
async function readWithBreak(between: () => Promise<unknown>): Promise<unknown[]> {
  const { source } = open({ limits: { fetchSize: 1 } })
  const seen: unknown[] = []
  const { signal } = new AbortController()
  let isFirst = true
  for await (const rows of source.scan({ since: null, signal })) {
    seen.push(...ids(rows))
    if (isFirst) await between()
    isFirst = false
  }
  return seen
}

test('a file that changes while it is read fails the poll', async () => {
  const path = join(folder, 'a.csv')
  const changes = [
    () => appendFile(path, '4\n'),
    () => writeFile(path, 'id\n7\n8\n9\n'),
    () => rm(path),
    async () => {
      await write('new', 'id\n1\n2\n3\n')
      await rename(join(folder, 'new'), path)
    },
  ]
  for (const change of changes) {
    await write('a.csv', 'id\n1\n2\n3\n')
    expect(await messageOf(readWithBreak(change))).toMatch(/changed while it was read|ENOENT/)
  }
  await write('a.csv', 'id\n1\n2\n3\n')
  expect(await readWithBreak(async () => undefined)).toEqual(['1', '2', '3'])
})

test('a file that is rewritten in place during a read gives no record of both contents', async () => {
  const lines = (value: string) =>
    Array.from({ length: 5_000 }, (_, line) => `A${String(line).padStart(4, '0')} ${value}\n`).join(
      '',
    )
  const columns = [
    { name: 'id', start: 1, length: 5 },
    { name: 'value', start: 7, length: 10 },
  ]
  const fixed = { columns, mayEndEarly: true }
  await write('a.txt', lines('100'))
  const path = join(folder, 'a.txt')
  const { source } = open({ path, format: 'fixed', fixed, limits: { fetchSize: 100 } })
  const seen: SourceRow[] = []
  const { signal } = new AbortController()
  const reading = async () => {
    for await (const rows of source.scan({ since: null, signal })) {
      if (seen.length === 0) await write('a.txt', lines('7777777'))
      seen.push(...rows)
    }
  }
  expect(await messageOf(reading())).toContain('changed while it was read')
  expect(seen.filter(({ id, value }) => value !== '100' || !/^A\d{4}$/.test(String(id)))).toEqual(
    [],
  )
})

test('after a committed poll the read files are archived, and nothing is overwritten', async () => {
  const now = () => new Date('2026-11-21T09:00:00.123Z')
  const path = join(folder, '*.csv')
  const { source } = open({ path, after: 'archive' }, { now })
  for (const round of ['1', '2']) {
    await write('a.b.csv', `id\n${round}\n`)
    expect(ids(await readAll(source))).toEqual([round])
    await write('later.csv', 'id\n9\n')
    await source.committed?.()
    expect(await readdir(folder)).toEqual(['archive', 'later.csv'])
    await rm(join(folder, 'later.csv'))
  }
  const archived = await readdir(join(folder, 'archive'))
  expect(archived.sort()).toEqual(['a.b.20261121T090000123Z-2.csv', 'a.b.20261121T090000123Z.csv'])
  const contents = archived.map((name) => readFile(join(folder, 'archive', name), 'utf8'))
  expect((await Promise.all(contents)).sort()).toEqual(['id\n1\n', 'id\n2\n'])
})

test('a file that replaces the read one just before it is archived is put back', async () => {
  await write('a.csv', 'id\n1\n')
  const access = localFiles(join(folder, 'a.csv'), { inside: undefined, outside: [] }).access(
    new AbortController().signal,
  )
  const [found] = await access.find()
  await write('a.csv', 'id\n1\n2\n')
  if (found) await access.archive(found, new Date())
  expect(await readdir(join(folder, 'archive'))).toEqual([])
  expect(await readFile(join(folder, 'a.csv'), 'utf8')).toBe('id\n1\n2\n')
})

test('only read files are deleted: one that changed since stays, and so do all after a failed poll', async () => {
  const { source, warnings } = open({ path: join(folder, '*.csv'), after: 'delete' })
  await write('a.csv', 'id\n1\n')
  await write('b.csv', 'id\n2\n')
  expect(await readAll(source)).toHaveLength(2)
  await appendFile(join(folder, 'b.csv'), '3\n')
  await source.committed?.()
  expect(await readdir(folder)).toEqual(['b.csv'])
  expect(warnings).toEqual(['file changed after the read; it is kept'])
  await source.readItem({ key: ['3'], signal: new AbortController().signal })
  await source.committed?.()
  await write('c.csv', 'id,id\n')
  await messageOf(readAll(source))
  expect(await readdir(folder)).toEqual(['b.csv', 'c.csv'])
})

test('a file with an item of an earlier file waits for the next poll, so that no change is lost', async () => {
  const path = join(folder, '*.csv')
  const dropped = open({ path, after: 'delete' })
  for (const [index, content] of ['1,old\n2,x', '3,y\n3,z', '4,z\n1,new', '5,z'].entries()) {
    await write(`${index}.csv`, `id,v\n${content}\n`)
    await utimes(join(folder, `${index}.csv`), 0, 1_700_000_000 + index)
  }
  expect(ids(await readAll(dropped.source))).toEqual(['1', '2', '3', '3'])
  await dropped.source.committed?.()
  expect(await readdir(folder)).toEqual(['2.csv', '3.csv'])
  expect(await readAll(dropped.source)).toContainEqual({ id: '1', v: 'new' })
  await dropped.source.committed?.()
  expect(await readdir(folder)).toEqual([])
  for (const name of ['a.csv', 'b.csv']) await write(name, 'id\n1\n')
  const deleting = { deletes: { mode: 'delete' } }
  expect(await readAll(open({ path }).source)).toHaveLength(2)
  expect(await readAll(open({ path, after: 'delete' }, {}, deleting).source)).toHaveLength(1)
})

test('a file that cannot be archived is reported, and fails the next polls when later ones wait for it', async () => {
  const several = open({ path: join(folder, '*.csv'), after: 'archive' })
  await write('a.csv', 'id\n1\n')
  await write('archive', 'a file of that name')
  await readAll(several.source)
  await several.source.committed?.()
  expect(several.warnings).toEqual(['file not archived after the read'])
  expect(await messageOf(readAll(several.source))).toContain(
    'a.csv was read, but it cannot be archived',
  )
  const one = open({ after: 'archive' })
  await readAll(one.source)
  await one.source.committed?.()
  expect(one.warnings).toHaveLength(1)
  expect(await readAll(one.source)).toHaveLength(1)
  await rm(join(folder, 'archive'))
  await write('b.csv', 'id\n2\n')
  expect(ids(await readAll(several.source))).toEqual(['2'])
  expect(await readdir(join(folder, 'archive'))).toHaveLength(1)
})

test('one item is found by a read of all; a key is compared as text', async () => {
  await write('a.csv', 'id\n1\n02\n')
  const { source } = open({})
  const { signal } = new AbortController()
  expect(await source.readItem({ key: ['02'], signal })).toEqual([{ id: '02' }])
  expect(await source.readItem({ key: ['2'], signal })).toEqual([])
})

test('an abort, an early end and close stop a read', async () => {
  await write('a.csv', `id\n${'1\n'.repeat(100_000)}`)
  const given = new AbortController()
  const reason = new Error('given up')
  const { source } = open({ limits: { fetchSize: 10 } })
  const aborted = async () => {
    for await (const _ of source.scan({ since: null, signal: given.signal })) given.abort(reason)
  }
  await expect(aborted()).rejects.toBe(reason)
  const { signal } = new AbortController()
  for await (const _ of source.scan({ since: null, signal })) break
  const closed = async () => {
    for await (const _ of source.scan({ since: null, signal })) await source.close()
  }
  await expect(closed()).rejects.toThrow('the source was closed')
})

test('more records than maxRows fail the read', async () => {
  await write('a.csv', 'id\n1\n2\n')
  expect(await read({ limits: { maxRows: 2 } })).toHaveLength(2)
  expect(await messageOf(read({ limits: { maxRows: 1 } }))).toContain('limits.maxRows')
})
