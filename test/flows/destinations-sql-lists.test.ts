import pg from 'pg'
import '../../src/domain/json.ts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openSqlDestination } from '../../src/flows/destinations/sql.ts'
import type { Destination } from '../../src/flows/types.ts'
import { job, never } from './destinations-job.ts'

/** Rows of one statement are sent as a list per column. The result must be the same as for single rows. */
const url = process.env.TEST_DATABASE_URL ?? 'postgres://root@127.0.0.1:5432/test'
const schema = `lists_${process.pid}`
const table = `${schema}.items`

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 })
  await client.connect()
  return client
}
const has = await connect().then(
  async (client) => {
    await client.end()
    return true
  },
  () => {
    process.stderr.write('skipped: a PostgreSQL of this test does not answer\n')
    return false
  },
)

const columns: Record<string, { type: string; values: unknown[] }> = {
  words: { type: 'text', values: ['', 'NULL', '{a,b}', 'a"b\\c', "it's", 'ñandú', null, ' x '] },
  short: { type: 'varchar(8)', values: ['12345678', 'x      '] },
  padded: { type: 'char(3)', values: ['a', 'ab ', 'abc'] },
  amount: { type: 'numeric(12, 2)', values: [1.005, '19.999', '1e3', 'NaN', 0, '00012.50'] },
  exact: {
    type: 'numeric',
    values: ['123456789012345678901234567890.123456789', 12345678901234567890n],
  },
  whole: { type: 'bigint', values: [9007199254740993n, '-5', 7] },
  share: { type: 'double precision', values: [0.1, '1e-300', 'Infinity'] },
  yes: { type: 'boolean', values: [true, false, 'yes', 't', null] },
  day: { type: 'date', values: ['2026-02-28', '0044-03-15 BC'] },
  moment: {
    type: 'timestamptz',
    values: ['2026-01-31T10:20:30.123456Z', '2026-01-31 10:20:30-03'],
  },
  wall: { type: 'timestamp(0)', values: ['2026-01-31T10:20:30.6', '2026-01-31T10:20:30'] },
  flags: { type: 'bit(3)', values: ['101', '010'] },
  more: { type: 'bit varying(5)', values: ['1', '10101'] },
  document: { type: 'jsonb', values: [{ a: [1, null, 'x"y'] }, [1, 2], '{"b": 1}', '"word"'] },
  raw: { type: 'json', values: [{ n: 12345678901234567890n }, '[1,  2]'] },
  number: { type: 'uuid', values: ['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'] },
  bytes: { type: 'bytea', values: ['aGVsbG8=', ''] },
  tags: { type: 'text[]', values: [['a', 'b"c'], [], null] },
  grid: {
    type: 'integer[]',
    values: [
      [
        [1, 2],
        [3, 4],
      ],
      [5],
    ],
  },
  mood: { type: `${schema}."Mood, good"`, values: ['glad', 'sad, really'] },
  code: { type: `${schema}.code`, values: ['AB-1', 'CD-2'] },
  corner: { type: 'box', values: ['(1,1),(0,0)', '(2,2),(1,1)'] },
  place: { type: 'point', values: ['(1,2)', '(3.5,-4)'] },
  span: { type: 'interval', values: ['1 day 02:03:04', 'P1Y'] },
  range: { type: 'int4range', values: ['[1,5)', 'empty'] },
  from: { type: 'inet', values: ['10.0.0.1/8'] },
}

describe.skipIf(!has)('rows of PostgreSQL that go together', () => {
  let admin: pg.Client
  const opened: Destination[] = []
  const open = () => {
    const destination = openSqlDestination(
      { driver: 'postgres', table, upsertKey: ['id'], binary: { bytes: 'base64' } },
      { url, connections: 2, batch: 500, timeoutMs: 10_000 },
    )
    opened.push(destination)
    return destination
  }
  const jobOf = (body: Record<string, unknown>) =>
    job({ kind: 'upsert', body, pk: String(body.id), key: [String(body.id)] })
  const together = (destination: Destination, bodies: Record<string, unknown>[]) =>
    destination.batches?.deliver(bodies.map(jobOf), never)
  const create = async (definition: string) => {
    await admin.query(`drop table if exists ${table}`)
    await admin.query(`create table ${table} (id integer primary key, ${definition})`)
  }
  const texts = async () =>
    (await admin.query(`select id, items::text as row from ${table} order by id`)).rows

  beforeAll(async () => {
    admin = await connect()
    await admin.query(`drop schema if exists ${schema} cascade; create schema ${schema};
      create type ${schema}."Mood, good" as enum ('glad', 'sad, really');
      create domain ${schema}.code as varchar(4) check (value ~ '^[A-Z]{2}-')`)
  })
  afterAll(async () => {
    await Promise.all(opened.map((destination) => destination.close()))
    await admin.query(`drop schema ${schema} cascade`)
    await admin.end()
  })

  test.each(Object.entries(columns))(
    '%s has the same value as when each row is written alone',
    async (_, { type, values }) => {
      const destination = open()
      const bodies = [...values, ...values].map((v, id) => ({ id, v, bytes: null }))
      if (type === 'bytea')
        for (const body of bodies) Object.assign(body, { bytes: body.v, v: null })
      await create(`v ${type}, bytes bytea`)
      for (const body of bodies)
        expect(await destination.deliver(jobOf(body), never)).toEqual({ ok: true })
      const alone = await texts()
      await admin.query(`truncate ${table}`)
      for (let round = 0; round < 2; round += 1) {
        expect(await together(destination, bodies)).toEqual(bodies.map(() => ({ ok: true })))
        expect(await texts()).toEqual(alone)
      }
    },
  )

  test.each([
    ['varchar(3)', 'abcd'],
    ['bit(3)', '1010'],
    ['numeric(3, 1)', '1234.5'],
    ['integer', 'abc'],
    [`${schema}.code`, 'ab-1'],
  ])('no value is cut to fit %s', async (type, value) => {
    await create(`v ${type}`)
    const destination = open()
    expect(
      await together(destination, [
        { id: 1, v: value },
        { id: 2, v: null },
      ]),
    ).toBe('apart')
    expect(await texts()).toEqual([])
  })

  test('the rows are sent as one list for each column', async () => {
    await create('v text')
    await admin.query(`create table ${schema}.asked (query text);
      create function ${schema}.note() returns trigger language plpgsql as
        $$ begin insert into ${schema}.asked values (current_query()); return null; end $$;
      create trigger note after insert on ${table} for each statement execute function ${schema}.note()`)
    await together(open(), [
      { id: 1, v: 'a' },
      { id: 2, v: 'b' },
      { id: 3, v: 'c' },
    ])
    const { rows } = await admin.query(`select query from ${schema}.asked`)
    expect(rows).toHaveLength(1)
    expect(rows[0]?.query).toMatch(/unnest\(\$1::\S+\[\], \$2::\S+\[\]\)/)
  })

  test.each([
    ['numeric', 'text', '007.50'],
    ['real', 'numeric', '1.23456789012'],
    ['timestamp', 'timestamptz', '2026-01-31T10:20:30-03'],
    ['integer', 'text', 'A-100'],
    ['text', 'jsonb', '{"a":  1}'],
  ])('a column that was %s and is %s now accepts its values', async (before, now, value) => {
    await create(`v ${before}`)
    const destination = open()
    const first = { numeric: '1', real: '1', timestamp: '2026-01-01', integer: '1', text: '1' }[
      before
    ]
    expect(
      await together(
        destination,
        [1, 2].map((id) => ({ id, v: first })),
      ),
    ).toHaveLength(2)
    await admin.query(
      `alter table ${table} drop column v; alter table ${table} add column v ${now}`,
    )
    await admin.query(`insert into ${table} values (9, $1)`, [value])
    for (let round = 0; round < 2; round += 1) {
      const bodies = [1, 2].map((id) => ({ id, v: value }))
      let results = await together(destination, bodies)
      // After a type change the batch is refused once. The next attempt uses the new type.
      if (results === 'apart' && round === 0) results = await together(destination, bodies)
      expect(results).toEqual([{ ok: true }, { ok: true }])
      const { rows } = await admin.query(`select distinct v::text from ${table}`)
      expect(rows).toHaveLength(1)
    }
  })
})
