import { createServer } from 'node:net'
import oracledb, { type Column, type Connection, type Driver } from 'oracledb'
import { expect, test } from 'vitest'
import { oracleReader } from '../../src/sync/sources/sql-oracle.ts'
import { readAll, readItem, sqlSource } from './sources-sql-support.ts'

// No server of Oracle was there for these tests: the driver itself plays its failures, and a double that keeps to its documented
// interface all that a server would answer.

type Asked = { text: string; values: unknown; options: unknown }
type Answer = {
  columns?: [name: string, type: string, more?: Partial<Column>][]
  rows?: unknown[][]
}
type Given = {
  answer?: Answer
  /** Stands in for the portions of the answer. */
  getRows?: (count: number) => Promise<unknown[][]>
  execute?: () => Promise<never>
}

function oracleDouble({ answer = {}, getRows, execute }: Given) {
  const asked: Asked[] = []
  const portions: number[] = []
  const texts: string[] = []
  const connects: unknown[] = []
  const did = { breaks: 0, closes: 0 }
  const columns = (answer.columns ?? []).map(([name, type, more]) => ({
    name,
    dbType: { name: `DB_TYPE_${type}` },
    ...more,
  }))
  const left = [...(answer.rows ?? [])]
  const connection: Connection = {
    callTimeout: 0,
    execute: async (text, values, options) => {
      asked.push({ text, values, options })
      if (!options) return {}
      if (execute) return execute()
      for (const column of columns) {
        if (options.fetchTypeHandler(column)?.type === oracledb.DB_TYPE_VARCHAR)
          texts.push(column.name)
      }
      const rows = async (count: number) => {
        portions.push(count)
        return getRows ? getRows(count) : left.splice(0, count)
      }
      return { metaData: columns, resultSet: { getRows: rows, close: async () => {} } }
    },
    break: async () => {
      did.breaks += 1
    },
    close: async () => {
      did.closes += 1
    },
  }
  const driver: Driver = {
    OUT_FORMAT_ARRAY: oracledb.OUT_FORMAT_ARRAY,
    DB_TYPE_CHAR: oracledb.DB_TYPE_CHAR,
    DB_TYPE_VARCHAR: oracledb.DB_TYPE_VARCHAR,
    getConnection: async (options) => {
      connects.push(options)
      return connection
    },
  }
  return { read: oracleReader(async () => driver), asked, portions, texts, connects, did }
}

const url = (password: string, port = 1521) =>
  `oracle://lector:${password}@127.0.0.1:${port}/ERPPDB`
const query = 'select ID from T where CHANGED >= :cursor;'
const source = (
  given: Partial<Parameters<typeof sqlSource>[0]>,
  read?: ReturnType<typeof oracleReader>,
) =>
  sqlSource(
    {
      driver: 'oracle',
      url: url('s3cret%2Fword'),
      query: 'select * from T',
      key: ['ID'],
      ...given,
    },
    read,
  )

test('Oracle: numbers beyond 2^53, decimals, microseconds, bytes and blanks are exact', async () => {
  const { read, texts } = oracleDouble({
    answer: {
      columns: [
        ['ID', 'NUMBER', { precision: 9, scale: 0 }],
        ['BIG', 'NUMBER', { precision: 38, scale: 0 }],
        ['N2', 'NUMBER', { precision: 9, scale: 2 }],
        ['LOOSE', 'NUMBER', { precision: 0, scale: -127 }],
        ['F', 'BINARY_FLOAT'],
        ['D', 'DATE'],
        ['TS', 'TIMESTAMP'],
        ['TZ', 'TIMESTAMP_TZ'],
        ['CODE', 'CHAR'],
        ['NAME', 'NVARCHAR'],
        ['RAW', 'RAW'],
        ['NOTE', 'CLOB'],
        ['BYTES', 'BLOB'],
        ['NONE', 'BLOB'],
      ],
      rows: [
        [
          '7',
          '99999999999999999999999999999999999999',
          '-.05',
          '1234567.89',
          Math.fround(0.1),
          ' 2026-01-01 10:20:30',
          ' 2026-01-01 10:20:30.123456789',
          ' 2026-01-01 10:20:30.123456000 -03:00',
          'A1    ',
          'Ññ ',
          Buffer.from([0, 255]),
          { getData: async () => 'ñ€' },
          { getData: async () => Buffer.from([1, 2]) },
          null,
        ],
      ],
    },
  })
  const [row] = await readAll(source({ timeZone: 'America/Argentina/Buenos_Aires' }, read))
  expect(row).toEqual({
    ID: 7,
    BIG: '99999999999999999999999999999999999999',
    N2: '-0.05',
    LOOSE: '1234567.89',
    F: 0.1,
    D: new Date('2026-01-01T13:20:30Z'),
    TS: new Date('2026-01-01T13:20:30.123Z'),
    TZ: new Date('2026-01-01T13:20:30.123Z'),
    CODE: 'A1',
    NAME: 'Ññ ',
    RAW: 'AP8=',
    NOTE: 'ñ€',
    BYTES: 'AQI=',
    NONE: null,
  })
  expect(row?.TS).toHaveProperty('exact', '2026-01-01T13:20:30.123456789Z')
  expect(row?.TZ).toHaveProperty('exact', '2026-01-01T13:20:30.123456Z')
  // What the driver would make less of comes as text.
  expect(texts).toEqual(['ID', 'BIG', 'N2', 'LOOSE', 'D', 'TS', 'TZ'])
})

test.each([
  ['TIMESTAMP_LTZ', 'x', 'the column C has the type TIMESTAMP_LTZ, which is not read'],
  ['JSON', {}, 'the column C has the type JSON, which is not read'],
  ['OBJECT', {}, 'the column C has the type OBJECT, which is not read'],
  ['DATE', '-0044-03-15 00:00:00', 'the column C holds a time that cannot be read exactly'],
])(
  'Oracle: a column of %s that cannot be read exactly is refused by its name',
  async (type, value, message) => {
    const { read } = oracleDouble({ answer: { columns: [['C', type]], rows: [[value]] } })
    await expect(readAll(source({}, read))).rejects.toThrow(message)
  },
)

test('Oracle: it is read in a read-only transaction by settings of its own, with parameters that are no text of the query', async () => {
  const { read, asked, connects, did } = oracleDouble({ answer: { columns: [['ID', 'VARCHAR']] } })
  const cursor = { field: 'CHANGED', initial: '2026-01-01T00:00:00.500Z', overlapMs: 0 }
  await readAll(source({ query, cursor }, read))
  const [settings, begin, select] = asked
  expect(settings?.text).toMatch(/^alter session set nls_date_format = /)
  expect(begin?.text).toBe('set transaction read only')
  expect(select?.text).toBe('select ID from T where CHANGED >= :tb1')
  const type = oracledb.DB_TYPE_CHAR
  expect(select?.values).toEqual({ tb1: { val: '2026-01-01 00:00:00', type } })
  expect(connects).toEqual([
    expect.objectContaining({
      user: 'lector',
      password: 's3cret/word',
      connectString: '//127.0.0.1:1521/ERPPDB',
    }),
  ])
  expect(did).toEqual({ breaks: 0, closes: 1 })
})

test('Oracle: one item is read by its key, and no record has a key that its column cannot hold', async () => {
  const found = oracleDouble({ answer: { columns: [['ID', 'VARCHAR']], rows: [['a'], ['b']] } })
  expect(await readItem(source({}, found.read), 'b')).toEqual([{ ID: 'b' }])
  expect(found.asked.at(-1)?.text).toBe('select * from (\nselect * from T\n) q where q."ID" = :tb1')
  const invalid = Object.assign(new Error('ORA-01722: invalid number'), { errorNum: 1722 })
  const none = oracleDouble({ execute: async () => Promise.reject(invalid) })
  expect(await readItem(source({}, none.read), 'word')).toEqual([])
})

test('Oracle: portions follow the size of the records, and none is left out', async () => {
  const rows = (count: number, text: string) =>
    Array.from({ length: count }, (_, index) => [String(index), text])
  const columns: Answer['columns'] = [
    ['ID', 'VARCHAR'],
    ['T', 'VARCHAR'],
  ]
  const short = oracleDouble({ answer: { columns, rows: rows(2_500, 'x') } })
  expect(await readAll(source({}, short.read))).toHaveLength(2_500)
  expect(Math.max(...short.portions)).toBe(1_000)
  const long = oracleDouble({ answer: { columns, rows: rows(100, 'x'.repeat(100_000)) } })
  expect(await readAll(source({}, long.read))).toHaveLength(100)
  expect(Math.max(...long.portions.slice(1))).toBeLessThanOrEqual(5)
})

test('Oracle: a query that gives nothing is broken off, and so is one whose reader stops', async () => {
  const columns: Answer['columns'] = [['ID', 'VARCHAR']]
  const silent = oracleDouble({ answer: { columns }, getRows: () => new Promise(() => {}) })
  const limits = { timeoutMs: 50 }
  await expect(readAll(source({ limits }, silent.read))).rejects.toThrow(
    'oracle source: no answer for 50 ms (limits.timeout)',
  )
  expect(silent.did).toEqual({ breaks: 1, closes: 1 })
  const endless = oracleDouble({
    answer: { columns },
    getRows: async (count) => Array.from({ length: count }, () => ['x']),
  })
  for await (const _ of source({}, endless.read).scan({
    since: null,
    signal: new AbortController().signal,
  }))
    break
  expect(endless.did.closes).toBe(1)
})

test('Oracle: the driver itself tells of a connection that is refused, without the password', async () => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  const failed = readAll(source({ url: url('s3cret', port) }))
  await expect(failed).rejects.toThrow(/^oracle source: .*ECONNREFUSED/)
  await expect(failed).rejects.not.toThrow('s3cret')
})

/** TNS packets: two bytes of length, two of checksum, the type, three more. */
function refusal(text: string): Buffer {
  const packet = Buffer.alloc(12 + text.length)
  packet.writeUInt16BE(packet.length, 0)
  packet.writeUInt8(4, 4)
  packet.writeUInt16BE(text.length, 10)
  packet.write(text, 12, 'latin1')
  return packet
}

test('Oracle: the driver itself tells of a service that the listener does not know', async () => {
  const text = '(DESCRIPTION=(TMP=)(VSNNUM=0)(ERR=12514)(ERROR_STACK=(ERROR=(CODE=12514)(EMFI=4))))'
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.end(refusal(text)))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  try {
    const failed = readAll(source({ url: url('s3cret', port) }))
    await expect(failed).rejects.toThrow(/^oracle source: .*"ERPPDB" is not registered/)
    await expect(failed).rejects.not.toThrow('s3cret')
  } finally {
    await new Promise((resolve) => server.close(resolve))
  }
})

test('Oracle: a server that takes the connection and says nothing is given up in time', async () => {
  const server = createServer((socket) => socket.on('error', () => {}))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  try {
    const limits = { timeoutMs: 300 }
    await expect(readAll(source({ url: url('s3cret', port), limits }))).rejects.toThrow(
      'no answer for 300 ms',
    )
  } finally {
    server.close()
  }
})
