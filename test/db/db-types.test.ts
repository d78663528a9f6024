import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { json } from '../../src/db/statements.ts'
import { engines } from './engines.ts'

describe.each(engines)('on $title', ({ skip, open }) => {
  let database: Database
  beforeAll(async () => {
    if (skip) return
    database = await open()
    await sql`create table kinds (
      big bigint, day date, at timestamptz, hour timestamp, bytes bytea, doc jsonb, span interval,
      yes boolean, exact numeric(12, 2), approx double precision, words text[], bigs bigint[], days date[]
    )`.execute(database.db)
  })
  afterAll(() => database?.close())
  afterEach(() => {
    vi.unstubAllEnvs()
  })

  test.skipIf(skip)('values come back in the same JavaScript types', async () => {
    const at = new Date('2026-03-01T02:30:00.123Z')
    await sql`insert into kinds values (
      ${9_007_199_254_740_991}, ${'2026-03-29'}, ${at}, ${'2026-03-29 02:30:00'}, ${Buffer.from([0, 255, 92])},
      ${json(['a', { b: null }])}, ${'1 day 02:03:04'}, ${true}, ${'10.50'}, ${0.1}, ${['a', 'b,"c']},
      ${[1, 2]}, ${['2026-03-29']}
    )`.execute(database.db)
    const { rows } = await sql`select * from kinds`.execute(database.db)
    expect(rows).toStrictEqual([
      {
        big: 9_007_199_254_740_991,
        day: '2026-03-29',
        at,
        hour: '2026-03-29 02:30:00',
        bytes: Buffer.from([0, 255, 92]),
        doc: ['a', { b: null }],
        span: '1 day 02:03:04',
        yes: true,
        exact: '10.50',
        approx: 0.1,
        words: ['a', 'b,"c'],
        bigs: [1, 2],
        days: ['2026-03-29'],
      },
    ])
    expect(Buffer.isBuffer((rows[0] as { bytes: unknown }).bytes)).toBe(true)
  })

  test.skipIf(skip)(
    'counts and sums are numbers, and beyond the exact ones a bigint instead of a rounded number',
    async () => {
      const { rows } = await sql`
      select count(*) as count, sum(n) as sum, sum(n::bigint)::bigint as cents,
        9007199254740993 as huge, array[9007199254740993, null] as list, max(d) as none
      from (values (1, null::date), (2, null)) t (n, d)`.execute(database.db)
      expect(rows).toStrictEqual([
        {
          count: 2,
          sum: 3,
          cents: 3,
          huge: 9007199254740993n,
          list: [9007199254740993n, null],
          none: null,
        },
      ])
    },
  )

  test.skipIf(skip)('a Date for a day is its UTC day, and jsonb takes any JSON value', async () => {
    vi.stubEnv('TZ', 'America/Lima')
    const { rows } = await sql`
      select ${new Date('2026-03-01T02:00:00Z')}::date as day, ${json('text')}::jsonb as text,
        ${json(null)}::jsonb as nothing, ${json([1, [2]])}::jsonb as list`.execute(database.db)
    expect(rows).toStrictEqual([{ day: '2026-03-01', text: 'text', nothing: null, list: [1, [2]] }])
  })

  test.skipIf(skip)('affected rows are counted', async () => {
    await sql`create table countable as select generate_series(1, 3) as n`.execute(database.db)
    const result = await sql`update countable set n = n + 1 where n > ${1}`.execute(database.db)
    expect(result.numAffectedRows).toBe(2n)
  })

  test.skipIf(skip)(
    'values of a failed query are not among the listed properties of the error',
    async () => {
      const insert = sql`insert into clients (name, mp_nickname, created_at) values (${''}, ${'s3cret'}, now())`
      const error = await insert.execute(database.db).catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: '23514', constraint: expect.any(String) })
      expect(JSON.stringify({ ...(error as Error) })).not.toContain('s3cret')
    },
  )
})
