/** @module-tag long */

import { PGlite } from '@electric-sql/pglite'
import { expect, test } from 'vitest'
import { vacuumOnce } from '../../src/db/vacuum.ts'
import { pgliteTemplate } from '../support/pglite-template.ts'

test('tables full of dead rows are cleaned, tables that grew are counted, others are left alone', async () => {
  const pglite = await PGlite.create({ loadDataDir: await pgliteTemplate() })
  try {
    await pglite.exec(`
      create table "Busy" (n int);
      create table grown (n int);
      create table calm (n int);
      insert into "Busy" select generate_series(1, 3000);
      insert into grown select generate_series(1, 3000);
      insert into calm select generate_series(1, 150);`)
    await pglite.exec('update "Busy" set n = n + 1')
    expect((await vacuumOnce(pglite)).toSorted()).toEqual(['public."Busy"', 'public.grown'])
    const { rows } = await pglite.query(
      `select relname, reltuples from pg_class where relname in ('Busy', 'grown', 'calm') order by 1`,
    )
    expect(rows).toEqual([
      { relname: 'Busy', reltuples: 3000 },
      { relname: 'calm', reltuples: -1 },
      { relname: 'grown', reltuples: 3000 },
    ])
    expect(await vacuumOnce(pglite)).toEqual([])
  } finally {
    await pglite.close()
  }
})

async function pagesToClean(pglite: PGlite, table: string): Promise<number> {
  const { rows } = await pglite.query<{ pages: number }>(
    'select relpages - relallvisible as pages from pg_class where relname = $1',
    [table],
  )
  return rows[0]?.pages ?? Number.NaN
}

test('a large table is cleaned before a fifth of it has changed, and one that only grows too', async () => {
  const pglite = await PGlite.create({ loadDataDir: await pgliteTemplate() })
  try {
    await pglite.exec(`
      create table log (n int) with (fillfactor = 50);
      insert into log select generate_series(1, 150000)`)
    expect(await vacuumOnce(pglite)).toEqual(['public.log'])
    expect(await pagesToClean(pglite, 'log')).toBe(0)

    await pglite.exec('insert into log select generate_series(1, 21000)')
    expect(await vacuumOnce(pglite)).toEqual(['public.log'])
    expect(await pagesToClean(pglite, 'log')).toBe(0)

    await pglite.exec('delete from log where n <= 10500')
    expect(await vacuumOnce(pglite)).toEqual(['public.log'])
    expect(await vacuumOnce(pglite)).toEqual([])
  } finally {
    await pglite.close()
  }
})

test('a waiting query runs between two tables, and the sample is small', async () => {
  const pglite = await PGlite.create({ loadDataDir: await pgliteTemplate() })
  try {
    await pglite.exec(`
      create table one (n int);
      create table two (n int);
      insert into one select generate_series(1, 40000);
      insert into two select generate_series(1, 40000)`)
    let turns = 0
    const count = () => {
      turns += 1
      next = setImmediate(count)
    }
    let next = setImmediate(count)
    await vacuumOnce(pglite)
    clearImmediate(next)
    // Before and between the cleaning and the counting of each.
    expect(turns).toBeGreaterThanOrEqual(4)
    const { rows } = await pglite.query<{ bounds: number }>(
      `select array_length(histogram_bounds::text::int[], 1) as bounds from pg_stats where tablename = 'one'`,
    )
    expect(rows).toEqual([{ bounds: 11 }])
  } finally {
    await pglite.close()
  }
})
