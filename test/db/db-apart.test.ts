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
    'queries over a connection limit wait for each other, and delay no query outside of the limit',
    async () => {
      const few = database.withConnectionLimit(1)
      const order: string[] = []
      const ask = (db: Database['db'], name: string) =>
        sql`select ${name}::text`.execute(db).then(() => order.push(name))
      const begun = Promise.withResolvers<void>()
      const goOn = Promise.withResolvers<void>()
      const blocking = few.transaction(async () => {
        begun.resolve()
        await goOn.promise
      })
      await begun.promise
      const waiting = ['first', 'second', 'third'].map((name) => ask(few.db, name))
      const other = ask(database.db, 'other')
      // The embedded database has one connection, which the transaction has.
      if (database.engine === 'postgres') await other
      goOn.resolve()
      await Promise.all([blocking, other, ...waiting])
      expect(order).toEqual(['other', 'first', 'second', 'third'])
    },
  )

  test.skipIf(skip)(
    'a query that waits for its own transaction fails at once, and the others continue',
    async () => {
      const few = database.withConnectionLimit(1)
      await expect(few.transaction(() => sql`select 1`.execute(few.db))).rejects.toThrow(
        OpenTransactionError,
      )
      await expect(sql`select broken`.execute(few.db)).rejects.toThrow()
      expect((await sql`select 1 as one`.execute(few.db)).rows).toEqual([{ one: 1 }])
    },
  )
})
