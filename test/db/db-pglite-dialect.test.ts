import { PGlite } from '@electric-sql/pglite'
import { Kysely, sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { pgliteDialect } from '../../src/db/pglite-engine.ts'
import { openEmbedded } from '../support/database.ts'
import { pgliteTemplate } from '../support/pglite-template.ts'

let embedded: Awaited<ReturnType<typeof openEmbedded>>
beforeAll(async () => {
  embedded = await openEmbedded()
  await sql`create temporary table things (id int, name text)`.execute(embedded.db)
  await sql`insert into things values (1, 'one'), (2, 'two')`.execute(embedded.db)
})
afterAll(() => embedded.close())

const thing = (id: number) => sql`select * from things where id = ${id}`.execute(embedded.db)
/** As often as it takes until a text is kept prepared. */
async function askOften(): Promise<void> {
  for (let times = 0; times < 4; times += 1) await thing(1)
}

test('a repeated statement is prepared once, and its types and rows equal those of the first time', async () => {
  const { execProtocolRawSync } = PGlite.prototype
  let own: PGlite | undefined
  let entered = 0
  // Other databases of the process may be at work.
  PGlite.prototype.execProtocolRawSync = function (message) {
    if (Buffer.from(message).includes('from things')) own = this
    if (this === own) entered += 1
    return execProtocolRawSync.call(this, message)
  }
  try {
    await askOften()
    expect(own).toBeDefined()
    entered = 0
    expect((await thing(2)).rows).toEqual([{ id: 2, name: 'two' }])
  } finally {
    PGlite.prototype.execProtocolRawSync = execProtocolRawSync
  }
  expect(entered).toBe(1)
})

test('a prepared text whose columns have changed is prepared anew', async () => {
  await askOften()
  await sql`alter table things add column size int default 7`.execute(embedded.db)
  expect((await thing(1)).rows).toEqual([{ id: 1, name: 'one', size: 7 }])
  await sql`alter table things drop column size`.execute(embedded.db)
  expect((await thing(1)).rows).toEqual([{ id: 1, name: 'one' }])
})

test('a statement that the session has no more is prepared again', async () => {
  await askOften()
  await sql`deallocate all`.execute(embedded.db)
  expect((await thing(1)).rows).toEqual([{ id: 1, name: 'one' }])
})

test('a statement that fails while it runs does not affect the next ones, in a transaction and outside', async () => {
  const divide = (by: number) => sql<{ q: number }>`select 6 / ${by}::int as q`.execute(embedded.db)
  for (let times = 0; times < 5; times += 1) {
    await expect(divide(0)).rejects.toMatchObject({ code: '22012' })
    expect((await divide(2)).rows).toEqual([{ q: 3 }])
  }
  const failed = embedded.db.transaction().execute(async (trx) => {
    await sql`update things set name = 'lost' where id = ${1}`.execute(trx)
    await sql`select 6 / ${0}::int`.execute(trx)
  })
  await expect(failed).rejects.toMatchObject({ code: '22012' })
  expect((await thing(1)).rows).toEqual([{ id: 1, name: 'one' }])
})

test('a transaction on a closed instance rejects; it neither hangs nor ends the process', {
  tags: ['long'],
}, async () => {
  const pglite = await PGlite.create({ loadDataDir: await pgliteTemplate() })
  const db = new Kysely<unknown>({ dialect: pgliteDialect(pglite) })
  await db.transaction().execute(async () => {})
  await pglite.close()
  const late = db.transaction().execute(async () => {})
  await expect(late).rejects.toThrow('closed')
})
