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

test('one write proves it to everybody who asks within three seconds', async () => {
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
  `while the database answers but takes no writes (${needsPostgres})`,
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
      control = await openBothSides({ database, flowsDir, logger: createLogger('silent') })
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

    /** As after a failover: this server is a standby now, or the operator has closed it for writing. */
    const setReadOnly = (value: 'on' | 'off') =>
      onServer(postgresUrl ?? '', async (client) => {
        await client.query(`alter database ${name} set default_transaction_read_only = ${value}`)
        await client.query(
          'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1',
          [name],
        )
      })

    test('read-only: both listeners say 503 within 5 s, a charge 503 with what it means for money, and all is well 5 s after it', async () => {
      await vi.waitFor(async () => expect(await both()).toEqual([200, 200]))
      await setReadOnly('on')
      await within(5_000, async () => expect(await both()).toEqual([503, 503]))
      const admin = await asAdmin(service, { url: '/health' })
      expect(admin.json()).toMatchObject({
        code: 'SERVICE_UNAVAILABLE',
        error: 'The database takes no writes',
      })
      // The critical alert fires by this figure.
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

    test('a write that hangs holds nobody up for longer than two seconds, and collects no connections', async () => {
      const holder = await holdSettings(database)
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
      await holder.release()
      await within(8_000, async () => expect(await both()).toEqual([200, 200]))
    }, 30_000)

    test('a disk that is full for what needs room is noticed by the charge that met it', async () => {
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

/** Somebody's lock on the table of the proof, as a commit that waits for a lost standby looks from outside. */
async function holdSettings(database: Database) {
  const held = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const work = database.transaction(async (trx) => {
    await sql`lock table settings in access exclusive mode`.execute(trx)
    held.resolve()
    await released.promise
  })
  await held.promise
  return {
    release: async () => {
      released.resolve()
      await work
    },
  }
}
