import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database, Trx } from '../../src/db/database.ts'
import { isDatabaseUnavailable, OpenTransactionError } from '../../src/db/database-failures.ts'
import { engines } from './engines.ts'

const fail = (trx: Trx, state: string) =>
  sql
    .raw(`do $$ begin raise exception 'on purpose' using errcode = '${state}'; end $$`)
    .execute(trx)

describe.each(engines)('on $title', ({ skip, open }) => {
  let database: Database
  beforeAll(async () => {
    if (!skip) database = await open()
  })
  afterAll(() => database?.close())

  const put = (trx: Trx, name: string) =>
    trx.insertInto('settings').values({ name, value: 'v', updated_at: new Date() }).execute()
  const find = (name: string) =>
    database.db.selectFrom('settings').select('name').where('name', '=', name).execute()

  test.skipIf(skip)('a query beside the open transaction of its flow fails at once', async () => {
    const prepared = database.db.selectFrom('settings').selectAll()
    await database.transaction(async (trx) => {
      await expect(find('x')).rejects.toBeInstanceOf(OpenTransactionError)
      await expect(prepared.execute()).rejects.toBeInstanceOf(OpenTransactionError)
      await expect(database.transaction(async () => {})).rejects.toBeInstanceOf(
        OpenTransactionError,
      )
      await expect(database.ping()).rejects.toBeInstanceOf(OpenTransactionError)
      await expect(database.listen('x', () => {})).rejects.toBeInstanceOf(OpenTransactionError)
      await put(trx, 'after the mistake')
    })
    expect(await find('after the mistake')).toHaveLength(1)
  })

  test.skipIf(skip)(
    'a flow that a transaction started may use the database once it has ended',
    async () => {
      const late = Promise.withResolvers<unknown>()
      await database.transaction(async () => {
        setTimeout(() => find('x').then(late.resolve, late.reject), 50)
      })
      expect(await late.promise).toEqual([])
    },
  )

  test.skipIf(skip)('other flows wait only for the transaction', async () => {
    const begun = Promise.withResolvers<void>()
    const done = database.transaction(async (trx) => {
      begun.resolve()
      await sleep(30)
      await put(trx, 'first')
    })
    await begun.promise
    const other = find('first')
    await done
    expect((await other).length).toBeLessThanOrEqual(1)
    expect(await find('first')).toHaveLength(1)
  })

  test.skipIf(skip)('a transaction whose work throws leaves nothing behind', async () => {
    const work = database.transaction(async (trx) => {
      await put(trx, 'rolled back')
      throw new RangeError('on purpose')
    })
    await expect(work).rejects.toBeInstanceOf(RangeError)
    expect(await find('rolled back')).toEqual([])
  })

  test.skipIf(skip)('work that swallowed a failed query is not reported as committed', async () => {
    const work = database.transaction(async (trx) => {
      await put(trx, 'swallowed')
      await fail(trx, '22000').catch(() => {})
    })
    await expect(work).rejects.toThrow()
    expect(await find('swallowed')).toEqual([])
  })

  test.skipIf(skip).each(['40001', '40P01'])(
    'work that fails with %s runs again and commits once',
    async (state) => {
      let runs = 0
      const answer = await database.transaction(async (trx) => {
        runs += 1
        await put(trx, `repeated ${state}`)
        if (runs < 3) await fail(trx, state)
        return 'done'
      })
      expect([answer, runs]).toEqual(['done', 3])
      expect(await find(`repeated ${state}`)).toHaveLength(1)
    },
  )

  test.skipIf(skip)(
    'work that always collides fails in the end, and other failures are not repeated',
    async () => {
      const runs = { collision: 0, other: 0 }
      const collision = database.transaction(async (trx) => {
        runs.collision += 1
        await fail(trx, '40001')
      })
      await expect(collision).rejects.toSatisfy(isDatabaseUnavailable)
      const other = database.transaction(async (trx) => {
        runs.other += 1
        await fail(trx, '23505')
      })
      await expect(other).rejects.toMatchObject({ code: '23505' })
      expect(runs).toEqual({ collision: 5, other: 1 })
    },
  )

  test.skipIf(skip)('savepoints and isolation levels are obeyed', async () => {
    const { db } = database
    const level = await db
      .transaction()
      .setIsolationLevel('serializable')
      .execute(
        async (trx) =>
          (
            await sql<{
              level: string
            }>`select current_setting('transaction_isolation') as level`.execute(trx)
          ).rows[0]?.level,
      )
    expect(level).toBe('serializable')
    const trx = await db.startTransaction().execute()
    const saved = await trx.savepoint('here').execute()
    await put(saved, 'undone')
    await saved.rollbackToSavepoint('here').execute()
    await put(saved, 'kept')
    await saved.commit().execute()
    expect([await find('undone'), await find('kept')]).toEqual([[], [{ name: 'kept' }]])
  })

  test.skipIf(skip)('a constraint checked at the commit rejects it', async () => {
    await sql`create table one_parent (id int primary key)`.execute(database.db)
    await sql`create table one_child (id int references one_parent deferrable initially deferred)`.execute(
      database.db,
    )
    const work = database.transaction((trx) => sql`insert into one_child values (1)`.execute(trx))
    await expect(work).rejects.toMatchObject({ code: '23503' })
    expect(await find('still answers')).toEqual([])
  })

  test.skipIf(skip)(
    'close waits for the transaction in progress and refuses what comes after',
    { tags: ['long'] },
    async () => {
      const own = await open()
      const order: string[] = []
      const begun = Promise.withResolvers<void>()
      const work = own.transaction(async (trx) => {
        begun.resolve()
        await sleep(30)
        await put(trx, 'in time')
        order.push('committed')
      })
      await begun.promise
      const closed = own.close().then(() => order.push('closed'))
      await expect(own.db.selectFrom('settings').selectAll().execute()).rejects.toSatisfy(
        isDatabaseUnavailable,
      )
      await Promise.all([work, closed, own.close()])
      expect(order).toEqual(['committed', 'closed'])
      expect(await own.ping()).toBe(false)
      await expect(own.transaction(async () => {})).rejects.toSatisfy(isDatabaseUnavailable)
    },
  )
})
