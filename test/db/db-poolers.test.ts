import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Database, notify, openDatabase } from '../../src/db/database.ts'
import type { Log } from '../../src/db/engine.ts'
import { migrate } from '../../src/db/migrate.ts'
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

/** What a start logs. */
function listening(): { log: Log; lines: string[] } {
  const lines: string[] = []
  return { lines, log: (_level, _fields, message) => lines.push(message) }
}

describe.each(['session', 'transaction'] as const)(
  `behind a pooler in %s mode${reason}`,
  (mode) => {
    let pooler: Pgbouncer
    let clone: PostgresClone
    let database: Database
    const atStart = listening()
    beforeAll(async () => {
      if (missing) return
      pooler = await startPgbouncer(server, mode)
      clone = await openPostgresClone(server)
      database = await openDatabase({ databaseUrl: pooler.urlOf(clone.url), log: atStart.log })
    })
    afterAll(async () => {
      await database?.close()
      await clone?.database.close()
      await pooler?.close()
    })

    test.skipIf(missing)('the log at the start names the mode of the pooler', () => {
      const lines = atStart.lines.filter((line) => line.includes('pooler'))
      expect(lines).toHaveLength(1)
      expect(lines[0]).toContain(`${mode} mode`)
      if (mode === 'transaction') expect(lines[0]).toContain('every second')
    })

    test.skipIf(missing)('a transaction has its timeouts, and no session keeps them', async () => {
      const limits = await database.transaction(async (trx) => {
        const { rows } = await sql<{ limits: string }>`
        select concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'),
          current_setting('idle_in_transaction_session_timeout')) as limits`.execute(trx)
        return rows[0]?.limits
      })
      expect(limits).toBe('15s 5s 10s')
      if (mode === 'session') return
      const outside = await sql<{ limit: string }>`
      select current_setting('statement_timeout') as limit`.execute(database.db)
      expect(outside.rows).toEqual([{ limit: '0' }])
    })

    test.skipIf(missing)(
      'an announcement of another process is received, or found by a query within moments',
      async () => {
        let received = 0
        const count = () => {
          received += 1
        }
        const end = await database.listen('changes', count, count)
        await database.transaction((trx) => notify(trx, 'changes', 'hello'))
        await expect.poll(() => received).toBeGreaterThan(0)
        await end()
        const before = received
        await wait(1_200)
        expect(received).toBe(before)
      },
    )

    test.skipIf(missing)(
      'with DATABASE_DIRECT_URL an announcement is received at once',
      async () => {
        const own = listening()
        const duplicate = await openDatabase({
          databaseUrl: pooler.urlOf(clone.url),
          directUrl: clone.url,
          log: own.log,
        })
        const payload = Promise.withResolvers<string>()
        const end = await duplicate.listen('changes', payload.resolve, () =>
          payload.resolve('a gap'),
        )
        await database.transaction((trx) => notify(trx, 'changes', 'hello'))
        expect(await payload.promise).toBe('hello')
        const how = mode === 'transaction' ? 'DATABASE_DIRECT_URL' : 'all functions work'
        expect(own.lines.join()).toContain(how)
        await end()
        await duplicate.close()
      },
    )

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
  },
)

test.skipIf(missing)(
  `a role whose time zone is not UTC is refused in transaction mode, with what to do${reason}`,
  async () => {
    const pooler = await startPgbouncer(server, 'transaction')
    const clone = await openPostgresClone(server)
    const name = new URL(clone.url).pathname.slice(1)
    await onServer(clone.url, (client) =>
      client.query(`alter database ${name} set timezone = 'America/Argentina/Buenos_Aires'`),
    )
    try {
      const attempt = openDatabase({ databaseUrl: pooler.urlOf(clone.url) })
      await expect(attempt).rejects.toBeInstanceOf(PoolerError)
      await expect(attempt).rejects.toThrow(/alter role .* set TimeZone = 'UTC'/)
    } finally {
      await pooler.close()
      await clone.database.close()
    }
  },
)
