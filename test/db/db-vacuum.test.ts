import { PGlite } from '@electric-sql/pglite'
import { expect, test } from 'vitest'
import { vacuumOnce } from '../../src/db/vacuum.ts'
import { pgliteTemplate } from '../support/pglite-template.ts'

test('tables full of dead rows are cleaned, others are left alone', async () => {
  const pglite = await PGlite.create({ loadDataDir: await pgliteTemplate() })
  try {
    await pglite.exec(`
      create table "Busy" (n int);
      create table calm (n int);
      insert into "Busy" select generate_series(1, 3000);
      insert into calm select generate_series(1, 3000);`)
    await pglite.exec('update "Busy" set n = n + 1')
    expect(await vacuumOnce(pglite)).toEqual(['public."Busy"'])
    expect(await vacuumOnce(pglite)).toEqual([])
  } finally {
    await pglite.close()
  }
})
