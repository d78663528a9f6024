import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { archiveEntries } from '../../src/payments/audit/archive-activity.ts'
import { sealWaiting } from '../../src/payments/audit/seal-activity.ts'
import { verifyActivityChain } from '../../src/payments/audit/verify-activity.ts'
import { checkEncryptionKeys } from '../../src/payments/encryption/check-encryption-keys.ts'
import { lastRemoval } from '../../src/repositories/settings.ts'
import { engines } from '../db/engines.ts'
import { type AuditLog, openAuditLog, withoutTriggers, writeEntry } from '../support/audit.ts'
import { truncateAll } from '../support/database.ts'
import { adminToken, startTestService } from '../support/service.ts'

/** Old entries of the audit log move to files with their seals; the check reads all of them as one chain. */

const size = 4
const dayMs = 24 * 3_600_000
const daysAgo = (days: number) => new Date(Date.now() - days * dayMs)

describe.each(engines)('on $title', ({ skip, open }) => {
  if (skip) {
    test.skip('needs TEST_DATABASE_URL', () => {})
    return
  }
  let database: Database
  let auditLog: AuditLog
  let folder: string
  beforeAll(async () => {
    database = await open()
  })
  afterAll(() => database.close())
  beforeEach(async () => {
    await truncateAll(database)
    auditLog = await openAuditLog(database)
    folder = await mkdtemp(join(tmpdir(), 'tillbridge-archive-'))
    return () => rm(folder, { recursive: true })
  })

  /** Seals entries of these ages. */
  async function fill(...ages: number[]) {
    for (const age of ages) {
      await database.transaction((trx) =>
        writeEntry(auditLog.encryption, trx, `${age}`, daysAgo(age)),
      )
    }
    await sealWaiting(auditLog)
  }
  const oldEntries = (count: number) => fill(...Array.from({ length: count }, () => 100))
  const archive = (on: Pick<Database, 'db' | 'transaction'> = database) =>
    archiveEntries(
      { database: { ...database, ...on }, encryption: auditLog.encryption, now: () => new Date() },
      folder,
      daysAgo(50),
      size,
    )
  const verify = (batch = 3) =>
    verifyActivityChain(
      { encryption: auditLog.encryption, db: database.db, archiveDir: folder },
      { batch },
    )
  const files = async () => (await readdir(folder)).toSorted()
  const pathOf = async (index: number) => join(folder, (await files())[index] ?? 'none')
  const countOf = async (table: string) => {
    const { rows } = await sql<{ rows: number }>`
      select count(*)::int as rows from ${sql.table(table)}`.execute(database.db)
    return rows[0]?.rows
  }
  /** The ids of every line of every file, and of every entry of the database. */
  async function idsEverywhere() {
    const lines = await Promise.all(
      (await files()).map(async (name) =>
        gunzipSync(await readFile(join(folder, name)))
          .toString()
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line).entry.id as string),
      ),
    )
    const { rows } = await sql<{ id: string }>`select id from activity_log`.execute(database.db)
    return [...lines.flat(), ...rows.map(({ id }) => id)]
  }

  test('old entries move to files of equal size, young ones stay, and all is one chain', async () => {
    await oldEntries(9)
    await fill(10, 10)
    expect([await archive(), await archive(), await archive()]).toEqual([size, size, 0])
    expect(await files()).toEqual([
      expect.stringMatching(/^audit-000000000001-000000000004-[0-9a-f]{12}\.jsonl\.gz$/),
      expect.stringMatching(/^audit-000000000005-000000000008-[0-9a-f]{12}\.jsonl\.gz$/),
    ])
    expect([await countOf('activity_log'), await countOf('activity_seals')]).toEqual([3, 3])
    expect(await verify()).toMatchObject({ valid: true, entries: 11, head: { seq: 11 } })
    await fill(1)
    expect(await verify(500)).toMatchObject({ valid: true, entries: 12 })
  })

  test('a file is written when its last entry is old', async () => {
    await fill(100, 100, 100, 10, 10)
    expect(await archive()).toBe(0)
    expect(await files()).toEqual([])
  })

  test('an entry of a clock that was far ahead does not stop archiving', async () => {
    await fill(100, 100, 100, -3_000, 100)
    expect(await archive()).toBe(size)
    expect(await verify()).toMatchObject({ valid: true, entries: 5 })
  })

  test('entries stay in the database when their file does not read as written', async () => {
    await oldEntries(6)
    const { stringify } = JSON
    vi.spyOn(JSON, 'stringify').mockImplementation((value, ...more) =>
      stringify(
        value?.seal?.seq === 2 ? { ...value, entry: { ...value.entry, status: 'failed' } } : value,
        ...more,
      ),
    )
    try {
      await expect(archive()).rejects.toThrow('did not read as it was written')
    } finally {
      vi.restoreAllMocks()
    }
    expect([await countOf('activity_log'), await countOf('activity_seals')]).toEqual([6, 6])
    expect(await verify()).toMatchObject({ valid: true, entries: 6 })
    expect(await archive()).toBe(size)
    expect(await verify()).toMatchObject({ valid: true, entries: 6 })
  })

  test('a checkpoint in a file is found, a wrong one is not', async () => {
    await oldEntries(6)
    const { rows } = await sql<{ seq: number; hash: string }>`
      select seq, hash from activity_seals where seq = 2`.execute(database.db)
    const checkpoint = rows[0] ?? { seq: 0, hash: '' }
    await archive()
    const checkWith = (at: typeof checkpoint) =>
      verifyActivityChain(
        { encryption: auditLog.encryption, db: database.db, archiveDir: folder },
        { checkpoint: at },
      )
    expect(await checkWith(checkpoint)).toMatchObject({
      valid: true,
      checkpoint: { seq: 2, found: true },
    })
    expect(await checkWith({ ...checkpoint, hash: 'f'.repeat(64) })).toMatchObject({
      valid: false,
      checkpoint: { found: false },
    })
  })

  test('the database allows the deletion of archived entries only', async () => {
    await oldEntries(6)
    await archive()
    for (const table of ['activity_log', 'activity_seals', 'activity_archives']) {
      await expect(sql`delete from ${sql.table(table)}`.execute(database.db)).rejects.toThrow(
        'append-only',
      )
    }
    expect(await countOf('activity_log')).toBe(2)
  })

  test('a log that was changed is not archived, and the archive fails with the reason', async () => {
    await oldEntries(5)
    await database.transaction(async (trx) => {
      await withoutTriggers(trx)
      await sql`update activity_log set resource_id = 'X' where id = (
        select entry_id from activity_seals where seq = 3)`.execute(trx)
    })
    await expect(archive()).rejects.toThrow('is not archived: after entry 0')
    expect(await files()).toEqual([])
    expect(await countOf('activity_log')).toBe(5)
  })

  const lines = async (index: number, change: (lines: string[]) => string[]) => {
    const path = await pathOf(index)
    const text = gunzipSync(await readFile(path)).toString()
    await writeFile(path, gzipSync(`${change(text.trimEnd().split('\n')).join('\n')}\n`))
  }
  const tampering: [what: string, at: number, reason: string, change: () => Promise<unknown>][] = [
    [
      'an entry in a file is changed',
      5,
      'the entry was changed',
      () =>
        lines(1, (all) => all.map((line) => line.replace('"store.created"', '"store.deleted"'))),
    ],
    [
      'a field is added to an entry in a file',
      5,
      'is damaged',
      () => lines(1, ([first = '', ...rest]) => [first.replace('"id"', '"x":1,"id"'), ...rest]),
    ],
    ['an entry is removed from a file', 5, 'does not hold', () => lines(1, (all) => all.slice(1))],
    [
      'an entry is added to a file',
      5,
      'does not hold',
      () => lines(1, (all) => [...all, all[0] ?? '']),
    ],
    [
      'a file is cut off',
      5,
      'is damaged',
      async () => writeFile(await pathOf(1), (await readFile(await pathOf(1))).subarray(0, 200)),
    ],
    ['a file is removed', 5, 'is missing', async () => rm(await pathOf(1))],
    [
      'two files are exchanged',
      1,
      'does not hold',
      async () => {
        const [first, second] = [await pathOf(0), await pathOf(1)]
        await rename(first, join(folder, 'x'))
        await rename(second, first)
        await rename(join(folder, 'x'), second)
      },
    ],
    [
      'the record of a file is removed',
      5,
      'an entry is missing',
      () =>
        database.transaction(async (trx) => {
          await withoutTriggers(trx)
          await sql`delete from activity_archives where first_seq = 5`.execute(trx)
        }),
    ],
    [
      'an archived entry is put back with other contents',
      2,
      'an entry was added',
      () =>
        database.transaction(async (trx) => {
          await sql`insert into activity_log (id, action, resource_type, status, metadata, duration_ms, created_at, key_id, hash)
            select gen_random_uuid(), action, resource_type, status, metadata, duration_ms, created_at, key_id, hash
            from activity_log limit 1`.execute(trx)
          await sql`insert into activity_seals (seq, entry_id, previous_hash, hash)
            select 2, id, '', 'f' from activity_log order by seq desc limit 1`.execute(trx)
        }),
    ],
  ]
  test.each(tampering)('the check detects that %s', async (_, at, reason, change) => {
    await oldEntries(10)
    while ((await archive()) > 0);
    await change()
    const check = await verify()
    expect(check).toMatchObject({ valid: false, brokenAt: at, entries: at - 1 })
    expect(check.reason).toContain(reason)
    // Later entries are checked too.
    expect(check.head.seq).toBe(10)
  })

  test('a check without the folder names the setting', async () => {
    await oldEntries(5)
    await archive()
    const check = await verifyActivityChain({ encryption: auditLog.encryption, db: database.db })
    expect(check).toMatchObject({ valid: false, brokenAt: 1 })
    expect(check.reason).toContain('AUDIT_ARCHIVE_DIR is not set')
  })

  class Killed extends Error {}
  const kills: [when: string, transaction: Database['transaction']][] = [
    ['after the file, before the entries are deleted', () => Promise.reject(new Killed())],
    [
      'before the commit',
      (work) =>
        database.transaction(async (trx) => {
          await work(trx)
          throw new Killed()
        }),
    ],
    [
      'after the commit',
      async (work) => {
        await database.transaction(work)
        throw new Killed()
      },
    ],
  ]
  test.each(kills)('a kill %s loses and duplicates nothing', async (_, transaction) => {
    await oldEntries(9)
    await expect(archive({ db: database.db, transaction })).rejects.toThrow(Killed)
    expect(await verify()).toMatchObject({ valid: true, entries: 9 })
    while ((await archive()) > 0);
    expect(await verify()).toMatchObject({ valid: true, entries: 9 })
    const ids = await idsEverywhere()
    expect([ids.length, new Set(ids).size, (await files()).length]).toEqual([9, 9, 2])
  })

  test('two processes that archive at once archive each entry once', async () => {
    await oldEntries(9)
    await Promise.allSettled([archive(), archive(), archive()])
    while ((await archive()) > 0);
    const ids = await idsEverywhere()
    expect([ids.length, new Set(ids).size]).toEqual([9, 9])
    expect(await verify()).toMatchObject({ valid: true, entries: 9 })
  })

  test('a check during archiving finds nothing wrong', async () => {
    await oldEntries(41)
    const archived = (async () => {
      while ((await archive()) > 0);
    })()
    const checks = []
    for (let count = 0; count < 8; count += 1) checks.push(await verify(2))
    await archived
    expect(checks.filter(({ valid }) => !valid)).toEqual([])
  })

  test('a key is still needed when all its entries are archived', async () => {
    await oldEntries(size)
    await archive()
    const keys = [{ id: 'k2', key: Buffer.alloc(32, 1) }]
    expect(await checkEncryptionKeys(database.db, keys)).toContainEqual({
      id: 'k1',
      kind: 'missing',
      uses: ['the audit log'],
    })
  })
})

test('the housekeeping of a service archives, and the check of the administrator reads the files', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-archive-'))
  const service = await startTestService({
    env: { AUDIT_ARCHIVE_DIR: join(folder, 'made', 'here'), KEEP_AUDIT_DAYS: '30' },
  })
  try {
    const { database, deps } = service
    const removedAt = async () =>
      (
        await database.db
          .selectFrom('settings')
          .select('updated_at')
          .where('name', '=', lastRemoval)
          .executeTakeFirst()
      )?.updated_at
    await database.transaction(async (trx) => {
      for (let count = 0; count < 2_001; count += 1) {
        await writeEntry(deps.encryption, trx, `${count}`, daysAgo(31))
      }
    })
    await service.chain.sealAll()
    await writeFile(join(folder, 'made'), 'no folder')
    service.clock.advance(3_600_000)
    await expect(service.sweeper.sweepOnce()).rejects.toThrow()
    expect(await removedAt()).toBeUndefined()
    await rm(join(folder, 'made'))
    service.clock.advance(3_600_000)
    await service.sweeper.sweepOnce()
    expect(await removedAt()).toBeInstanceOf(Date)
    expect(await readdir(join(folder, 'made', 'here'))).toHaveLength(2)
    const { rows } = await sql<{ rows: number }>`
      select count(*)::int as rows from activity_log where resource_type = 'store'`.execute(
      database.db,
    )
    expect(rows[0]?.rows).toBe(1)
    const response = await service.app.inject({
      url: '/admin/activity/verify',
      headers: { 'x-api-token': adminToken },
    })
    expect(response.json()).toMatchObject({ valid: true })
  } finally {
    await service.stop()
    await rm(folder, { recursive: true })
  }
})
