import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Database, Trx } from '../../src/db/database.ts'
import { deleteOldEntries } from '../../src/payments/audit/delete-old-entries.ts'
import { sealWaiting } from '../../src/payments/audit/seal-activity.ts'
import { verifyActivityChain } from '../../src/payments/audit/verify-activity.ts'
import { lastRemoval } from '../../src/repositories/settings.ts'
import { engines } from '../db/engines.ts'
import { type AuditLog, openAuditLog, withoutTriggers, writeEntry } from '../support/audit.ts'
import { truncateAll } from '../support/database.ts'
import { adminToken, startTestService } from '../support/service.ts'

/** Old entries of the audit log are deleted where a setting asks for it; the signed head says where the chain starts then. */

const limit = 4
const dayMs = 24 * 3_600_000
const daysAgo = (days: number) => new Date(Date.now() - days * dayMs)

describe.each(engines)('on $title', ({ skip, open }) => {
  if (skip) {
    test.skip('needs TEST_DATABASE_URL', () => {})
    return
  }
  let database: Database
  let auditLog: AuditLog
  beforeAll(async () => {
    database = await open()
  })
  afterAll(() => database.close())
  beforeEach(async () => {
    await truncateAll(database)
    auditLog = await openAuditLog(database)
  })

  /** Seals entries of these ages. */
  async function fill(...ages: number[]) {
    for (const age of ages) {
      await database.transaction((trx) =>
        writeEntry(auditLog.auditKey, trx, `${age}`, daysAgo(age)),
      )
    }
    await sealWaiting(auditLog)
  }
  const oldEntries = (count: number) => fill(...Array.from({ length: count }, () => 100))
  const remove = (atMost = limit) => deleteOldEntries(auditLog, daysAgo(50), atMost)
  const verify = (batch = 3) =>
    verifyActivityChain({ auditKey: auditLog.auditKey, db: database.db }, { batch })
  const places = async () => {
    const { rows } = await sql<{ seq: number }>`
      select s.seq from activity_seals s join activity_log l on l.id = s.entry_id order by s.seq`.execute(
      database.db,
    )
    return rows.map(({ seq }) => seq)
  }
  const change = (work: (trx: Trx) => Promise<unknown>) =>
    database.transaction(async (trx) => {
      await withoutTriggers(trx)
      await work(trx)
    })

  test('old entries are deleted in pieces, young ones stay, and the check starts after the last that was deleted', async () => {
    await oldEntries(6)
    await fill(10, 10)
    expect([await remove(), await remove(), await remove()]).toEqual([4, 2, 0])
    expect(await places()).toEqual([7, 8])
    expect(await verify()).toMatchObject({ valid: true, start: 6, entries: 2, head: { seq: 8 } })
    await fill(1)
    expect(await verify(500)).toMatchObject({ valid: true, start: 6, entries: 3 })
  })

  test('a log of which everything is old goes on after its end', async () => {
    await oldEntries(3)
    expect(await remove()).toBe(3)
    expect(await verify()).toMatchObject({ valid: true, start: 3, entries: 0, head: { seq: 3 } })
    await fill(1)
    expect(await places()).toEqual([4])
    expect(await verify()).toMatchObject({ valid: true, start: 3, entries: 1 })
  })

  test('an entry of a clock that was far ahead is deleted with the old ones after it; one that was behind takes few with it', async () => {
    await fill(100, -3_000, 100, 10)
    expect(await remove()).toBe(3)
    expect(await places()).toEqual([4])
    await fill(...Array.from({ length: 20 }, () => 10), 3_000)
    expect(await remove(100)).toBe(0)
    expect(await verify()).toMatchObject({ valid: true, start: 3, entries: 22 })
  })

  test('entries that wait for their seal are not deleted', async () => {
    await database.transaction((trx) => writeEntry(auditLog.auditKey, trx, 'waiting', daysAgo(100)))
    expect(await remove()).toBe(0)
    expect(await verify()).toMatchObject({ valid: true, unsealed: 1 })
  })

  test('a checkpoint at the start or after it is found, and one before it is not judged', async () => {
    await oldEntries(6)
    const { rows } = await sql<{ seq: number; hash: string }>`
      select seq, hash from activity_seals where seq in (2, 4, 5) order by seq`.execute(database.db)
    await remove()
    const checkWith = (checkpoint: { seq: number; hash: string }) =>
      verifyActivityChain({ auditKey: auditLog.auditKey, db: database.db }, { checkpoint })
    const found = []
    for (const checkpoint of rows) {
      const check = await checkWith(checkpoint)
      found.push([check.valid, check.checkpoint])
    }
    expect(found).toEqual([
      [true, { seq: 2, found: false }],
      [true, { seq: 4, found: true }],
      [true, { seq: 5, found: true }],
    ])
    expect(await checkWith({ seq: 4, hash: 'f'.repeat(64) })).toMatchObject({
      valid: false,
      checkpoint: { seq: 4, found: false },
    })
  })

  test('the database refuses to delete an entry or a seal after the start of the chain', async () => {
    await oldEntries(6)
    await remove()
    for (const table of ['activity_log', 'activity_seals']) {
      await expect(sql`delete from ${sql.table(table)}`.execute(database.db)).rejects.toThrow(
        'append-only',
      )
    }
    expect(await places()).toEqual([5, 6])
  })

  const tampering: [what: string, at: number, reason: string, work: (trx: Trx) => unknown][] = [
    [
      'the start is moved beyond entries that were deleted by hand',
      11,
      'the head of the log was changed',
      async (trx) => {
        await sql`update activity_head set start_seq = 6, start_hash = (select hash from activity_seals where seq = 6)`.execute(
          trx,
        )
        await sql`delete from activity_log where id in (select entry_id from activity_seals where seq <= 6)`.execute(
          trx,
        )
        await sql`delete from activity_seals where seq <= 6`.execute(trx)
      },
    ],
    [
      'the start is set back',
      1,
      'an entry is missing',
      (trx) => sql`update activity_head set start_seq = 0, start_hash = ''`.execute(trx),
    ],
    [
      'the hash of the start is changed',
      5,
      'the link is broken',
      (trx) => sql`update activity_head set start_hash = repeat('f', 64)`.execute(trx),
    ],
    [
      'the first entry after the start is removed',
      5,
      'an entry is missing',
      async (trx) => {
        await sql`delete from activity_log where id = (select entry_id from activity_seals where seq = 5)`.execute(
          trx,
        )
        await sql`delete from activity_seals where seq = 5`.execute(trx)
      },
    ],
    [
      'an entry is put in the place of one that was deleted',
      2,
      'an entry was added',
      async (trx) => {
        await sql`insert into activity_log (id, action, resource_type, status, metadata, duration_ms, created_at, mac)
          select gen_random_uuid(), action, resource_type, status, metadata, duration_ms, created_at, mac
          from activity_log limit 1`.execute(trx)
        await sql`insert into activity_seals (seq, entry_id, hash)
          select 2, id, repeat('f', 64) from activity_log order by seq desc limit 1`.execute(trx)
      },
    ],
  ]
  test.each(tampering)('the check detects that %s', async (_, brokenAt, reason, work) => {
    await oldEntries(10)
    await remove()
    await change(async (trx) => work(trx))
    expect(await verify()).toMatchObject({ valid: false, brokenAt, reason })
  })

  const broken: [what: string, message: string, work: (trx: Trx) => Promise<unknown>][] = [
    [
      'an entry was changed',
      'the entry was changed at place 3',
      (trx) =>
        sql`update activity_log set resource_id = 'X' where id = (select entry_id from activity_seals where seq = 3)`.execute(
          trx,
        ),
    ],
    [
      'an entry was removed',
      'an entry is missing at place 2',
      (trx) => sql`delete from activity_seals where seq = 2`.execute(trx),
    ],
    [
      'the head was changed',
      'the head of the log was changed',
      (trx) => sql`update activity_head set seq = 4`.execute(trx),
    ],
  ]
  test.each(broken)('where %s nothing is deleted, and the reason is said', async (_, why, work) => {
    await oldEntries(5)
    await change(work)
    await expect(remove()).rejects.toThrow(why)
    const { rows } = await sql<{ rows: number }>`
      select count(*)::int as rows from activity_log`.execute(database.db)
    expect(rows[0]?.rows).toBe(5)
  })

  test('a crash between the steps deletes nothing, and the next run continues', async () => {
    await oldEntries(6)
    for (const table of ['activity_seals', 'activity_head', 'activity_log']) {
      await sql`create function crash() returns trigger language plpgsql as $$ begin raise exception 'crash'; end $$`.execute(
        database.db,
      )
      await sql`create trigger crash before update or delete on ${sql.table(table)}
        for each row execute function crash()`.execute(database.db)
      await expect(remove()).rejects.toThrow('crash')
      await sql`drop function crash cascade`.execute(database.db)
      expect(await verify()).toMatchObject({ valid: true, start: 0, entries: 6 })
    }
    expect(await remove()).toBe(4)
    expect(await verify()).toMatchObject({ valid: true, start: 4, entries: 2 })
  })

  test('two processes that delete at once delete each entry once', async () => {
    await oldEntries(9)
    const counts = await Promise.all([remove(), remove(), remove()])
    for (let count = 1; count > 0; counts.push(count)) count = await remove()
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(9)
    expect(await verify()).toMatchObject({ valid: true, start: 9, entries: 0 })
  })

  test('what another process deletes while this one reads is no damage', async () => {
    await oldEntries(9)
    let isOther = true
    const db = database.db.withPlugin({
      transformQuery: ({ node }) => node,
      async transformResult({ result }) {
        const isFirst = isOther
        isOther = false
        if (isFirst) expect(await remove()).toBe(4)
        return result
      },
    })
    const slow = { ...auditLog, database: { ...database, db } }
    expect(await deleteOldEntries(slow, daysAgo(50), limit)).toBe(0)
    expect(await verify()).toMatchObject({ valid: true, start: 4, entries: 5 })
  })

  test.each([
    [5, 5],
    // Up to the end that the check began with.
    [100, 9],
  ])(
    'a check during which up to %i entries are deleted goes on at the new start',
    async (piece, start) => {
      await oldEntries(9)
      // After the head and the first entry were read.
      let results = 0
      const db = database.db.withPlugin({
        transformQuery: ({ node }) => node,
        async transformResult({ result }) {
          results += 1
          if (results === 2) await remove(piece).then(() => fill(1))
          return result
        },
      })
      const check = await verifyActivityChain({ auditKey: auditLog.auditKey, db }, { batch: 1 })
      expect(check).toMatchObject({ valid: true, start, entries: 10 - start, head: { seq: 10 } })
    },
  )
})

test('the housekeeping of a service deletes old entries only where the setting asks for it, and fails where the log was changed', {
  tags: ['long'],
}, async () => {
  const services = [
    await startTestService(),
    await startTestService({ env: { KEEP_AUDIT_DAYS: '30' } }),
  ] as const
  try {
    const left = []
    for (const { database, deps, chain, clock, sweeper, app } of services) {
      const countOfStores = async () => {
        const { rows } = await sql<{ rows: number }>`
          select count(*)::int as rows from activity_log where resource_type = 'store'`.execute(
          database.db,
        )
        return rows[0]?.rows
      }
      await database.transaction(async (trx) => {
        for (let count = 0; count < 401; count += 1) {
          await writeEntry(deps.auditKey, trx, `${count}`, daysAgo(31))
        }
      })
      await chain.sealAll()
      clock.advance(3_600_000)
      await sweeper.sweepOnce()
      left.push(await countOfStores())
      const response = await app.inject({
        url: '/admin/activity/verify',
        headers: { 'x-api-token': adminToken },
      })
      expect(response.json()).toMatchObject({ valid: true })
    }
    expect(left).toEqual([401, 0])

    const { database, deps, chain, clock, sweeper } = services[1]
    await database.transaction((trx) => writeEntry(deps.auditKey, trx, 'old', daysAgo(31)))
    await chain.sealAll()
    await sql`update activity_head set start_seq = 0`.execute(database.db)
    const removedAt = () =>
      database.db
        .selectFrom('settings')
        .select('updated_at')
        .where('name', '=', lastRemoval)
        .executeTakeFirstOrThrow()
    const before = await removedAt()
    clock.advance(3_600_000)
    await expect(sweeper.sweepOnce()).rejects.toThrow('old entries of the audit log')
    expect(await removedAt()).toEqual(before)
  } finally {
    for (const service of services) await service.stop()
  }
})
