import { PGlite } from '@electric-sql/pglite'
import { Kysely } from 'kysely'
import { expect, test } from 'vitest'
import { pgliteDialect } from '../../src/db/pglite-dialect.ts'
import { pgliteTemplate } from '../support/pglite-template.ts'

test('a transaction on a closed instance rejects; it neither hangs nor ends the process', async () => {
  const pglite = await PGlite.create({ loadDataDir: await pgliteTemplate() })
  const db = new Kysely<unknown>({ dialect: pgliteDialect(pglite) })
  await db.transaction().execute(async () => {})
  await pglite.close()
  const late = db.transaction().execute(async () => {})
  await expect(late).rejects.toThrow('closed')
})
