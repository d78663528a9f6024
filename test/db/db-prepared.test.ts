import { sql } from 'kysely'
import { Query } from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import {
  needsPostgres,
  openPostgresClone,
  type PostgresClone,
  postgresUrl,
} from '../support/database.ts'
import { onServer } from '../support/postgres-template.ts'

describe.skipIf(!postgresUrl)(`repeated statements (${needsPostgres})`, () => {
  let clone: PostgresClone
  /** One connection, so that it is known which one is asked. */
  let own: Database
  beforeAll(async () => {
    clone = await openPostgresClone(postgresUrl ?? '')
    const { db } = clone.database
    await sql`create table things (id int primary key, name text)`.execute(db)
    await sql`insert into things values (1, 'one')`.execute(db)
  })
  afterAll(() => clone?.database.close())
  beforeEach(async () => {
    own = await openDatabase({ databaseUrl: clone.url, maxConnections: 1 })
  })
  afterEach(async () => {
    vi.restoreAllMocks()
    await own.close()
  })

  const elsewhere = (statement: string) =>
    onServer(clone.url, async (client) => void (await client.query(statement)))
  const prepared = async () => {
    const { rows } = await sql<{ statement: string }>`
      select statement from pg_prepared_statements order by prepare_time`.execute(own.db)
    return rows.map(({ statement }) => statement)
  }
  const find = (id: number) => sql<{ id: number }>`select * from things where id = ${id}`
  const findOften = async () => {
    for (let round = 0; round < 5; round += 1) await find(1).execute(own.db)
  }

  test('are prepared once, and single statements are not', async () => {
    await sql`select ${'once'}::text`.execute(own.db)
    await findOften()
    expect(await prepared()).toEqual(['select * from things where id = $1'])
  })

  test('are described once, and each answer has all columns', async () => {
    const described = vi.spyOn(
      Query.prototype as unknown as { handleRowDescription(): void },
      'handleRowDescription',
    )
    const ask = (id: number) =>
      sql`select id, name, ${'given'}::text as word, ${[1, 2]}::int[] as list from things where id = ${id}`
    const answers: unknown[] = []
    for (const id of [1, 1, 1, 1, 1, 2, 1]) answers.push((await ask(id).execute(own.db)).rows)
    const one = [{ id: 1, name: 'one', word: 'given', list: [1, 2] }]
    expect(answers).toEqual([one, one, one, one, one, [], one])
    // Twice without a name, once with it.
    expect(described).toHaveBeenCalledTimes(3)
  })

  test('work on after a value that the server refuses, and one that cannot be sent', async () => {
    const other = await openDatabase({ databaseUrl: clone.url, maxConnections: 1 })
    const ask = (value: unknown) => sql`select ${value}::int as number`.execute(other.db)
    for (let round = 0; round < 4; round += 1) expect((await ask(7)).rows).toEqual([{ number: 7 }])
    const unsendable = {
      toPostgres() {
        throw new Error('no such value')
      },
    }
    await expect(ask('seven')).rejects.toThrow()
    await expect(ask(unsendable)).rejects.toThrow('no such value')
    expect((await ask(8)).rows).toEqual([{ number: 8 }])
    await other.close()
  })

  test('are never compiled by the server, whatever their estimated cost on large tables', async () => {
    const { rows } = await sql<{ jit: string }>`select current_setting('jit') as jit`.execute(
      own.db,
    )
    expect(rows).toEqual([{ jit: 'off' }])
  })

  test('are a bounded number, however many different ones there are', async () => {
    for (let place = 0; place < 250; place += 1) {
      for (let round = 0; round < 4; round += 1) {
        await sql`select ${sql.lit(place)}::int, ${round}::int`.execute(own.db)
      }
    }
    expect((await prepared()).length).toBeLessThanOrEqual(200)
    expect((await prepared()).length).toBeGreaterThan(100)
  })

  test('work on when a newer version adds a column, outside of a transaction and inside', async () => {
    const other = await openDatabase({ databaseUrl: clone.url, maxConnections: 2 })
    const both = () =>
      Promise.all(
        [1, 2].map(() =>
          other.transaction(async (trx) => {
            await sql`select pg_sleep(0.01)`.execute(trx)
            return (await find(1).execute(trx)).rows
          }),
        ),
      )
    for (let round = 0; round < 4; round += 1) await both()
    await elsewhere('alter table things add column colour text')
    expect((await find(1).execute(other.db)).rows).toEqual([{ id: 1, name: 'one', colour: null }])
    for (let round = 0; round < 4; round += 1) await both()
    await elsewhere('alter table things add column size int default 7')
    expect(await both()).toEqual([1, 2].map(() => [{ id: 1, name: 'one', colour: null, size: 7 }]))
    await other.close()
  })

  test('work on when the session has forgotten them', async () => {
    const other = await openDatabase({ databaseUrl: clone.url, maxConnections: 1 })
    for (let round = 0; round < 5; round += 1) await find(1).execute(other.db)
    await sql`deallocate all`.execute(other.db)
    expect((await find(1).execute(other.db)).rows).toHaveLength(1)
    for (let round = 0; round < 5; round += 1) await find(1).execute(other.db)
    await sql`deallocate all`.execute(other.db)
    const found = await other.transaction(async (trx) => (await find(1).execute(trx)).rows)
    expect(found).toHaveLength(1)
    await other.close()
  })

  test('that fail leave the connection as it was', async () => {
    const other = await openDatabase({ databaseUrl: clone.url, maxConnections: 1 })
    const divide = (by: number) => sql<{ q: number }>`select 6 / ${by}::int as q`.execute(other.db)
    for (let round = 0; round < 4; round += 1) {
      expect((await divide(2)).rows).toEqual([{ q: 3 }])
      await expect(divide(0)).rejects.toMatchObject({ code: '22012' })
    }
    await other.close()
  })
})
