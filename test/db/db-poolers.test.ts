import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Database, notify } from '../../src/db/database.ts'
import type { DatabaseLog } from '../../src/db/engine.ts'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { PoolerError } from '../../src/db/postgres-pooler.ts'
import {
  needsPostgres,
  openPostgresClone,
  type PostgresClone,
  postgresUrl,
} from '../support/database.ts'
import { noPgbouncer, type Pgbouncer, startPgbouncer } from '../support/pgbouncer.ts'
import { onServer } from '../support/postgres-template.ts'

const missing = postgresUrl ? noPgbouncer : needsPostgres
const server = postgresUrl ?? ''
const reason = missing === undefined ? '' : ` (${missing})`

describe(`behind a pooler in session mode${reason}`, () => {
  let pooler: Pgbouncer
  let clone: PostgresClone
  let database: Database
  const lines: string[] = []
  beforeAll(async () => {
    if (missing) return
    pooler = await startPgbouncer(server, 'session')
    clone = await openPostgresClone(server)
    const log: DatabaseLog = (_level, _fields, message) => lines.push(message)
    database = await openDatabase({ databaseUrl: pooler.urlOf(clone.url), log })
  })
  afterAll(async () => {
    await database?.close()
    await clone?.database.close()
    await pooler?.close()
  })

  test.skipIf(missing)('the log at the start names the mode of the pooler', () => {
    expect(lines.filter((line) => line.includes('pooler'))).toEqual([
      'PostgreSQL is behind a pooler in session mode',
    ])
  })

  test.skipIf(missing)('a transaction has its timeouts', async () => {
    const limits = await database.transaction(async (trx) => {
      const { rows } = await sql<{ limits: string }>`
        select concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'),
          current_setting('idle_in_transaction_session_timeout')) as limits`.execute(trx)
      return rows[0]?.limits
    })
    expect(limits).toBe('15s 5s 10s')
  })

  test.skipIf(missing)('an announcement of another process is received until the end', async () => {
    let received = 0
    const count = () => {
      received += 1
    }
    const end = await database.listen('changes', count, count)
    await database.transaction((trx) => notify(trx, 'changes', 'hello'))
    await expect.poll(() => received).toBeGreaterThan(0)
    await end()
    const before = received
    await database.transaction((trx) => notify(trx, 'changes', 'hello'))
    await wait(200)
    expect(received).toBe(before)
  })

  test.skipIf(missing)('a lock of a session ends with it', async () => {
    const [one, two] = await Promise.all([database.openSession(), database.openSession()])
    expect([await one.tryLock(7), await two.tryLock(7)]).toEqual([true, false])
    await one.close()
    await expect.poll(() => two.tryLock(7)).toBe(true)
    await two.close()
  })

  test.skipIf(missing)(
    'migrations that begin together wait for each other, and leave no lock',
    async () => {
      await Promise.all([migrate(database), migrate(database)])
      const { rows } = await onServer(clone.url, (client) =>
        client.query(`select from pg_locks where locktype = 'advisory'
        and database = (select oid from pg_database where datname = current_database())`),
      )
      expect(rows).toEqual([])
    },
  )

  test.skipIf(missing)(
    'no statement is prepared in a session that another client may get',
    async () => {
      for (let round = 0; round < 5; round += 1) {
        await sql`select ${round}::int as again`.execute(database.db)
      }
      const { rows } = await sql`select name from pg_prepared_statements`.execute(database.db)
      expect(rows).toEqual([])
    },
  )

  test.skipIf(missing)('many transactions at a time keep withConnectionLimit', async () => {
    await sql`create table counted (n int)`.execute(database.db)
    await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        database.transaction(async (trx) => {
          await sql`insert into counted values (${n})`.execute(trx)
          await sql`select pg_sleep(0.01)`.execute(trx)
          if (n % 2 === 1) await sql`delete from counted where n = ${n}`.execute(trx)
        }),
      ),
    )
    const { rows } = await sql<{ left: number }>`select count(*) as left from counted`.execute(
      database.db,
    )
    expect(rows).toEqual([{ left: 20 }])
    expect(await database.takesWrites()).toBe(true)
  })
})

test.skipIf(missing).each(['transaction', 'statement'] as const)(
  `a pooler in %s mode is refused at the start, with the address to use${reason}`,
  async (mode) => {
    const pooler = await startPgbouncer(server, mode)
    const clone = await openPostgresClone(server)
    try {
      const attempt = openDatabase({ databaseUrl: pooler.urlOf(clone.url) })
      await expect(attempt).rejects.toBeInstanceOf(PoolerError)
      const { username, port, pathname } = new URL(clone.url)
      const address = `postgres://${username}@127.0.0.1:${port || 5432}${pathname}`
      await expect(attempt).rejects.toThrow(
        `Set DATABASE_URL to the server itself (${address}, as the server sees its address)`,
      )
    } finally {
      await pooler.close()
      await clone.database.close()
    }
  },
)
