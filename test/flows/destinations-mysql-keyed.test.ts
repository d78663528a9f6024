import mysql from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openSqlDestination } from '../../src/flows/destinations/sql.ts'
import type { Destination } from '../../src/flows/types.ts'
import { job, never } from './destinations-job.ts'

/**
 * If the upsert key is the primary key, new and known rows are written by one statement. It must not change a row with another
 * key.
 */
const url = process.env.TEST_MYSQL_URL ?? 'mysql://root@127.0.0.1:3306/test'
const table = `keyed_${process.pid}`
const connect = () => mysql.createConnection({ uri: url, connectTimeout: 2_000 })

const has = await connect().then(
  async (connection) => {
    await connection.end()
    return true
  },
  () => {
    process.stderr.write('skipped: a MySQL or MariaDB of this test does not answer\n')
    return false
  },
)

describe.skipIf(!has)('rows of a table with a primary key', () => {
  let admin: mysql.Connection
  const opened: Destination[] = []
  const open = (upsertKey = ['id']) => {
    const destination = openSqlDestination(
      { driver: 'mysql', table, upsertKey },
      { url, connections: 2, batch: 500, timeoutMs: 10_000 },
    )
    opened.push(destination)
    return destination
  }
  /** How often the permission to send was checked: before each statement, and before a commit. */
  const together = async (destination: Destination, bodies: Record<string, unknown>[]) => {
    let asked = 0
    const jobs = bodies.map((body, place) =>
      job({
        body,
        pk: String(body.id),
        key: [String(body.id)],
        mayStart: () => {
          if (place === 0) asked += 1
          return true
        },
      }),
    )
    return { results: await destination.batches?.deliver(jobs, never), asked }
  }
  const create = async (columns: string) => {
    await admin.query(`drop table if exists ${table}`)
    await admin.query(`create table ${table} (${columns})`)
  }
  const rows = async () =>
    (await admin.query<mysql.RowDataPacket[]>(`select * from ${table} order by 1, 2`))[0].map(
      (row) => ({
        ...row,
      }),
    )
  const ok = { ok: true }

  beforeAll(async () => {
    admin = await connect()
  })
  afterAll(async () => {
    await Promise.all(opened.map((destination) => destination.close()))
    await admin.query(`drop table if exists ${table}`)
    await admin.end()
  })

  test('known and new rows are written by one statement, and other columns stay unchanged', async () => {
    await create('id varchar(20) primary key, name varchar(10), stock int default 7')
    await admin.query(`insert into ${table} values ('a', 'old', 1), ('z', 'other', 2)`)
    const destination = open()
    const bodies = ['a', 'b'].map((id) => ({ id, name: `new ${id}` }))
    expect(await together(destination, bodies)).toEqual({ results: [ok, ok], asked: 2 })
    expect(await rows()).toEqual([
      { id: 'a', name: 'new a', stock: 1 },
      { id: 'b', name: 'new b', stock: 7 },
      { id: 'z', name: 'other', stock: 2 },
    ])
    expect((await together(destination, [{ id: 'a' }, { id: 'c' }])).results).toEqual([ok, ok])
    expect((await rows()).map(({ id }) => id)).toEqual(['a', 'b', 'c', 'z'])
  })

  test.each([
    ['another case', 'varchar(20)', 'A', 'a'],
    ['an accent', 'varchar(20)', 'ñ', 'n'],
    ['a blank at the end', 'varchar(20)', 'a ', 'a'],
    ['a blank that its column drops', 'char(20)', 'a ', 'a'],
    ['the case of a word of a list', `enum('a', '5')`, 'A', 'a'],
    ['zeros before it', 'int', '007', '7'],
    ['digits that its column drops', 'decimal(10, 2)', '1.504', '1.50'],
  ])(
    'a key that differs by %s belongs to another row, which stays',
    async (_, type, key, there) => {
      await create(`id ${type} primary key, name varchar(10)`)
      await admin.query(`insert into ${table} values (?, 'kept')`, [there])
      const destination = open()
      const { results } = await together(destination, [
        { id: key, name: 'no' },
        { id: '5', name: 'yes' },
      ])
      expect(results).toBe('apart')
      expect((await rows()).map((row) => [String(row.id), row.name])).toEqual([[there, 'kept']])
    },
  )

  test('numbers and several columns are keys by their value', async () => {
    await create('shop int, id decimal(10, 2), name varchar(10), primary key (id, shop)')
    const destination = open(['shop', 'id'])
    for (const [id, name] of [
      ['1.50', 'a'],
      [1.5, 'b'],
      ['1.500', 'c'],
    ] as const) {
      const bodies = [1, '2'].map((shop) => ({ id, shop, name }))
      expect((await together(destination, bodies)).results).toEqual([ok, ok])
      expect(await rows()).toEqual([1, 2].map((shop) => ({ shop, id: '1.50', name })))
    }
  })

  test('a required column that is not mapped does not prevent the change of a known row', async () => {
    await create('id int primary key, name varchar(10), must int not null')
    await admin.query(`insert into ${table} values (1, 'a', 5), (2, 'b', 6)`)
    const { results } = await together(
      open(),
      [1, 2].map((id) => ({ id, name: 'new' })),
    )
    expect(results).toEqual([ok, ok])
    expect((await rows()).map(({ name, must }) => [name, must])).toEqual([
      ['new', 5],
      ['new', 6],
    ])
  })

  test('a row that another unique index refuses changes no row of another key', async () => {
    await create('id int primary key, name varchar(10), code varchar(10) unique')
    await admin.query(`insert into ${table} values (1, 'a', 'x'), (2, 'b', 'y')`)
    const bodies = [
      { id: 2, name: 'c', code: 'z' },
      { id: 3, name: 'd', code: 'x' },
    ]
    expect((await together(open(), bodies)).results).toBe('apart')
    expect((await rows()).map(({ name }) => name)).toEqual(['a', 'b'])
  })

  test('insert triggers do not run for existing rows', async () => {
    await create('id int primary key, name varchar(10), made int default 0')
    await admin.query(`insert into ${table} values (1, 'a', 0), (2, 'b', 0)`)
    await admin.query(
      `create trigger ${table}_made before insert on ${table} for each row signal sqlstate '45000'`,
    )
    const { results } = await together(
      open(),
      [1, 2].map((id) => ({ id, name: 'new' })),
    )
    expect(results).toEqual([ok, ok])
    expect((await rows()).map(({ name }) => name)).toEqual(['new', 'new'])
  })

  test('existing rows use up no numbers of an auto increment', async () => {
    await create('n int auto_increment primary key, id varchar(10) unique, name varchar(10)')
    const destination = open()
    for (const name of ['a', 'b', 'c']) {
      const bodies = ['x', 'y'].map((id) => ({ id, name }))
      expect((await together(destination, bodies)).results).toEqual([ok, ok])
    }
    await admin.query(`insert into ${table} (id) values ('z')`)
    expect((await rows()).map(({ n, name }) => [n, name])).toEqual([
      [1, 'c'],
      [2, 'c'],
      [3, null],
    ])
  })

  test('a primary key that the table has lost since makes no second row', async () => {
    await create('id int primary key, name varchar(10)')
    const destination = open()
    const bodies = (name: string) => [1, 2].map((id) => ({ id, name }))
    expect((await together(destination, bodies('a'))).results).toEqual([ok, ok])
    await admin.query(`alter table ${table} drop primary key`)
    expect((await together(destination, bodies('b'))).results).toEqual([ok, ok])
    expect(await rows()).toEqual(bodies('b'))
  })

  test('without the lease at the end nothing stays written', async () => {
    await create('id int primary key, name varchar(10)')
    let asked = 0
    const mayStart = () => {
      asked += 1
      return asked <= 2
    }
    const jobs = [1, 2].map((id) => job({ body: { id }, pk: `${id}`, mayStart }))
    expect(await open().batches?.deliver(jobs, never)).toMatchObject([{ ok: false }, { ok: false }])
    expect(await rows()).toEqual([])
  })
})
