import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { createLogger } from '../../src/http/logging.ts'
import { type BothSides, openBothSides } from '../support/both-sides.ts'
import {
  needsPostgres,
  openPostgresClone,
  openTestDatabase,
  postgresUrl,
} from '../support/database.ts'
import { onServer } from '../support/postgres-template.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, charge, openShop, type Till } from '../support/till.ts'

test('one write answers all health requests within three seconds', async () => {
  const database = await openTestDatabase()
  const service = await startTestService({ database })
  await sql`create sequence proofs`.execute(database.db)
  await sql`create function count_proof() returns trigger language plpgsql as $$
    begin perform nextval('proofs'); return new; end $$`.execute(database.db)
  await sql`create trigger count_proof before insert on settings for each row
    execute function count_proof()`.execute(database.db)
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => call(service, { url: '/health' })),
  )
  expect(new Set(answers.map(({ statusCode }) => statusCode))).toEqual(new Set([200]))
  expect((await asAdmin(service, { url: '/health' })).json().checks.writes).toEqual({
    status: 'ok',
  })
  const { rows } = await sql<{ calls: number }>`
    select last_value::int as calls from proofs where is_called`.execute(database.db)
  expect(rows).toEqual([{ calls: 1 }])
  await service.stop()
  await database.close()
})

describe.skipIf(!postgresUrl)(
  `while the database reads but does not write (${needsPostgres})`,
  { tags: ['long'] },
  () => {
    let database: Database
    let name: string
    let service: TestService
    let till: Till
    let control: BothSides
    let flowsDir: string
    beforeAll(async () => {
      const clone = await openPostgresClone(postgresUrl ?? '')
      database = clone.database
      name = new URL(clone.url).pathname.slice(1)
      service = await startTestService({ database })
      till = await openShop(service, 'acme', '1804')
      flowsDir = await mkdtemp(join(tmpdir(), 'tillbridge-health-'))
      const { encryptionKeys } = service
      control = await openBothSides({
        ...{ database, flowsDir, encryptionKeys },
        logger: createLogger('silent'),
      })
    })
    afterAll(async () => {
      await control.close()
      await service.stop()
      await database.close()
      await rm(flowsDir, { recursive: true })
    })

    const both = async () => [
      (await call(service, { url: '/health' })).statusCode,
      (await control.side.app.inject('/health')).statusCode,
    ]
    const within = (ms: number, work: () => Promise<void>) =>
      vi.waitFor(work, { timeout: ms, interval: 200 })

    /** As after a failover to a standby, or when an operator has made the database read-only. */
    const setReadOnly = (value: 'on' | 'off') =>
      onServer(postgresUrl ?? '', async (client) => {
        await client.query(`alter database ${name} set default_transaction_read_only = ${value}`)
        await client.query(
          'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1',
          [name],
        )
      })

    test('read-only: both listeners are 503 within 5 s, a charge is 503 with its outcome, and 5 s after the end all work', async () => {
      await vi.waitFor(async () => expect(await both()).toEqual([200, 200]))
      await setReadOnly('on')
      await within(5_000, async () => expect(await both()).toEqual([503, 503]))
      const admin = await asAdmin(service, { url: '/health' })
      expect(admin.json()).toMatchObject({
        code: 'SERVICE_UNAVAILABLE',
        error: 'The database takes no writes',
      })
      // The critical notification is triggered by this metric.
      const figures = (await asAdmin(service, { url: '/metrics' })).body
      expect(figures).toMatch(/^tillbridge_database_up 0$/m)
      const refused = await charge(service, till, { reference: 'T-1' })
      expect([refused.statusCode, refused.json()]).toEqual([
        503,
        expect.objectContaining({
          code: 'SERVICE_UNAVAILABLE',
          outcome: 'unknown',
          retry_safe: true,
        }),
      ])
      expect(service.sandbox.ledger().orders).toEqual([])

      await setReadOnly('off')
      await within(5_000, async () => expect(await both()).toEqual([200, 200]))
      expect((await charge(service, till, { reference: 'T-1' })).statusCode).toBe(201)
    }, 30_000)

    test('a write that hangs delays no answer for more than two seconds and takes one connection only', async () => {
      const lock = await lockSettings(database)
      await new Promise((resolve) => setTimeout(resolve, 3_100))
      const startedAt = performance.now()
      const answers = await Promise.all([both(), both(), both()])
      expect(performance.now() - startedAt).toBeLessThan(3_500)
      expect(answers).toEqual([
        [503, 503],
        [503, 503],
        [503, 503],
      ])
      const { rows } = await sql<{ waiting: number }>`
      select count(*)::int as waiting from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(database.db)
      expect(rows[0]?.waiting).toBe(1)
      await lock.release()
      await within(8_000, async () => expect(await both()).toEqual([200, 200]))
    }, 30_000)

    test('after a charge met a full disk both listeners are 503 for some seconds', async () => {
      await within(8_000, async () => expect(await both()).toEqual([200, 200]))
      const full = database.transaction((trx) =>
        sql`do $$ begin raise exception 'could not extend file' using errcode = '53100'; end $$`.execute(
          trx,
        ),
      )
      await expect(full).rejects.toThrow()
      expect(await both()).toEqual([503, 503])
      await within(8_000, async () => expect(await both()).toEqual([200, 200]))
    }, 30_000)
  },
)

/** A lock on the table of the health write; a commit that waits for a lost standby behaves the same. */
async function lockSettings(database: Database) {
  const locked = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const work = database.transaction(async (trx) => {
    await sql`lock table settings in access exclusive mode`.execute(trx)
    locked.resolve()
    await released.promise
  })
  await locked.promise
  return {
    release: async () => {
      released.resolve()
      await work
    },
  }
}
