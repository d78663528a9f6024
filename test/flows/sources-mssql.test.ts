import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { SourceError, UnreadableValue } from '../../src/flows/types.ts'
import { readAll, readItem, sqlSource } from './sources-sql-support.ts'
import { column, contains, type TdsAnswer, tdsServer } from './sources-tds-server.ts'

let server: Awaited<ReturnType<typeof tdsServer>>
let give: TdsAnswer
let requests: Buffer[] = []

beforeAll(async () => {
  server = await tdsServer((request) => {
    if (!contains(request, 'from items')) return undefined
    requests.push(request)
    return give
  })
})
afterAll(() => server.close())
beforeEach(() => {
  requests = []
  give = {}
})

const source = (query: string, more: object = {}) =>
  sqlSource({ driver: 'mssql', url: server.url, query, ...more })

const untilClosed = () => expect.poll(() => server.seen.open, { timeout: 10_000 }).toBe(0)

test('a scan returns all records in batches of fetchSize and closes', async () => {
  give = { columns: [column('id', 'int')], rows: Array.from({ length: 2_500 }, (_, i) => [i]) }
  const sizes: number[] = []
  const { signal } = new AbortController()
  for await (const batch of source('select id from items').scan({ since: null, signal })) {
    sizes.push(batch.length)
  }
  expect(sizes).toEqual([1_000, 1_000, 500])
  await untilClosed()
})

test('values are exact: decimals and big numbers as text, times as Date in UTC', async () => {
  const long = 'x'.repeat(1_000_000)
  give = {
    columns: [
      column('id', 'bigint'),
      column('dec', 'decimal'),
      column('price', 'money'),
      column('f4', 'real'),
      column('yes', 'bit'),
      column('nothing', 'int'),
      column('day', 'date'),
      column('at', 'datetime2'),
      column('bytes', 'binary'),
      column('__proto__', 'text'),
      column('long', 'text'),
    ],
    rows: [
      [
        9_007_199_254_740_993n,
        -123_456n,
        19_990n,
        0.1,
        true,
        null,
        '2026-02-03',
        '2026-03-01T10:00:00.500Z',
        Buffer.from([0, 255]),
        'a\0b ñ',
        long,
      ],
    ],
  }
  const [row] = await readAll(source('select * from items'))
  expect(Object.entries(row ?? {})).toEqual([
    ['id', '9007199254740993'],
    ['dec', '-1234.56'],
    ['price', '1.9990'],
    ['f4', 0.1],
    ['yes', true],
    ['nothing', null],
    ['day', '2026-02-03'],
    ['at', new Date('2026-03-01T10:00:00.500Z')],
    ['bytes', 'AP8='],
    ['__proto__', 'a\0b ñ'],
    ['long', long],
  ])
})

test('a number that the driver cannot return exactly makes its own record invalid', async () => {
  give = { columns: [column('dec', 'decimal')], rows: [[900_719_925_474_099_301n], [1n]] }
  const [refused, read] = await readAll(source('select dec from items'))
  const why = { code: 'NUMBER_TOO_EXACT', data: { column: 'dec' } } as const
  expect(refused?.dec).toEqual(new UnreadableValue(why))
  expect(read?.dec).toBeTypeOf('string')
})

test('the cursor and the key are parameters, never text of the query', async () => {
  give = { columns: [column('id', 'text')], rows: [["a' or 1=1"], ['b']] }
  const cursor = { field: 'at', initial: '1970-01-01T00:00:00Z', overlapMs: 0 }
  const some = source('select id from items where at >= :cursor', { cursor })
  expect(await readAll(some, '2026-01-02T03:04:05.678+03:00')).toHaveLength(2)
  expect(await readItem(some, "a' or 1=1")).toEqual([{ id: "a' or 1=1" }])
  const [scan, item] = requests as [Buffer, Buffer]
  expect(contains(scan, 'at >= @tb1')).toBe(true)
  expect(contains(scan, '2026-01-02T00:04:05.678')).toBe(true)
  expect(contains(item, 'q.[id] = @tb2')).toBe(true)
  expect(contains(item, "a' or 1=1")).toBe(true)
})

test('an error of the server, before or after the first records, fails the read', async () => {
  const columns = [column('id', 'int')]
  for (const rows of [[], [[1], [2]]]) {
    give = { columns, rows, error: 'Invalid object name' }
    const failure = await readAll(source('select id from items')).catch((error) => error)
    expect(failure).toBeInstanceOf(SourceError)
    expect(failure.message).toContain('Invalid object name')
  }
  await untilClosed()
})

test.each([
  [245, "Conversion failed when converting the nvarchar value 'ABC' to data type int.", 'ABC'],
  [
    248,
    "The conversion of the nvarchar value '9999999999' overflowed an int column.",
    '9999999999',
  ],
  [8114, 'Error converting data type nvarchar to bigint.', 'ABC'],
  [8169, 'Conversion failed when converting from a character string to uniqueidentifier.', 'ABC'],
  [241, 'Conversion failed when converting date and/or time from character string.', 'ABC'],
])('error %d about a key means that no item has it', async (errorNumber, error, key) => {
  give = { columns: [column('id', 'int')], error, errorNumber }
  expect(await readItem(source('select id from items'), key)).toEqual([])
})

test('an error about a value of the table is a failure, also when one item is read', async () => {
  const error = "Conversion failed when converting the varchar value 'x' to data type int."
  give = { columns: [column('id', 'int')], error, errorNumber: 245 }
  await expect(readItem(source('select id from items'), 'ABC')).rejects.toThrow(SourceError)
  await expect(readAll(source('select id from items'))).rejects.toThrow("value 'x'")
})

test('a refused login is reported without the password', async () => {
  server.refusesLogin = true
  const failure = await readAll(source('select id from items')).catch((error) => error)
  server.refusesLogin = false
  expect(failure).toBeInstanceOf(SourceError)
  expect(failure.message).toContain('ELOGIN')
  expect(JSON.stringify([failure.message, failure.stack])).not.toMatch(/Secr3t/)
})

test('a query without a result within the timeout is canceled, before and after the first records', {
  tags: ['long'],
}, async () => {
  const columns = [column('id', 'int')]
  const before = server.seen.attentions
  for (const rows of [[], [[1], [2]]]) {
    give = { columns, rows, staysOpen: true }
    const slow = source('select id from items', { limits: { timeoutMs: 200 } })
    await expect(readAll(slow)).rejects.toThrow(SourceError)
  }
  expect(server.seen.attentions).toBe(before + 2)
  await untilClosed()
})

test('an abort, an early end and close stop the read and close the connection', async () => {
  const rows = Array.from({ length: 500 }, (_, index) => [index])
  give = { columns: [column('id', 'int')], rows, staysOpen: true }
  const some = source('select id from items', { limits: { fetchSize: 10 } })
  const given = new AbortController()
  const reason = new Error('given up')
  const aborted = async () => {
    for await (const _ of some.scan({ since: null, signal: given.signal })) given.abort(reason)
  }
  await expect(aborted()).rejects.toBe(reason)
  const { signal } = new AbortController()
  for await (const _ of some.scan({ since: null, signal })) break
  const closed = async () => {
    for await (const _ of some.scan({ since: null, signal })) await some.close()
  }
  await expect(closed()).rejects.toThrow('closed')
  await untilClosed()
})

test('the read ends when a server does not confirm a cancel', { tags: ['long'] }, async () => {
  server.ignoresAttention = true
  give = { columns: [column('id', 'int')], rows: [[1], [2]], staysOpen: true }
  const begin = performance.now()
  const slow = source('select id from items', { limits: { timeoutMs: 200 } })
  await expect(readAll(slow)).rejects.toThrow(SourceError)
  // The driver itself waits for five seconds and more.
  expect(performance.now() - begin).toBeLessThan(4_500)
  await untilClosed()
  server.ignoresAttention = false
})
