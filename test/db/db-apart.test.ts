import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { OpenTransactionError } from '../../src/db/database-failures.ts'
import { engines } from './engines.ts'

describe.each(engines)('on $title', ({ skip, open }) => {
  let database: Database
  beforeAll(async () => {
    if (!skip) database = await open()
  })
  afterAll(() => database?.close())

  test.skipIf(skip)(
    'those who have few connections wait among themselves, and nobody waits behind all of them',
    async () => {
      const few = database.withConnectionLimit(1)
      const order: string[] = []
      const ask = (db: Database['db'], name: string) =>
        sql`select ${name}::text`.execute(db).then(() => order.push(name))
      const begun = Promise.withResolvers<void>()
      const goOn = Promise.withResolvers<void>()
      const held = few.transaction(async () => {
        begun.resolve()
        await goOn.promise
      })
      await begun.promise
      const waiting = ['first', 'second', 'third'].map((name) => ask(few.db, name))
      const other = ask(database.db, 'other')
      // The embedded database has one connection, which the transaction has.
      if (database.engine === 'postgres') await other
      goOn.resolve()
      await Promise.all([held, other, ...waiting])
      expect(order).toEqual(['other', 'first', 'second', 'third'])
    },
  )

  test.skipIf(skip)('who waits for himself is told so, and the others go on', async () => {
    const few = database.withConnectionLimit(1)
    await expect(few.transaction(() => sql`select 1`.execute(few.db))).rejects.toThrow(
      OpenTransactionError,
    )
    await expect(sql`select broken`.execute(few.db)).rejects.toThrow()
    expect((await sql`select 1 as one`.execute(few.db)).rows).toEqual([{ one: 1 }])
  })
})
