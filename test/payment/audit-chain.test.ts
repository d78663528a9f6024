import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openAuditKey } from '../../src/payments/audit/audit-key.ts'
import { sealWaiting } from '../../src/payments/audit/seal-activity.ts'
import { verifyActivityChain } from '../../src/payments/audit/verify-activity.ts'
import { type AuditLog, openAuditLog, withoutTriggers, writeEntry } from '../support/audit.ts'
import {
  needsPostgres,
  openPostgresClone,
  openTestDatabase,
  postgresUrl,
  truncateAll,
} from '../support/database.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, charge, openShop, type Till } from '../support/till.ts'

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService()
  till = await openShop(service, 'acme', '1601')
})
beforeEach(() => service.chain.sealAll())
afterAll(() => service.stop())

const verify = async (query = '') =>
  (await asAdmin(service, { url: `/admin/activity/verify${query}` })).json()
const list = async (query = '') =>
  (await asAdmin(service, { url: `/admin/activity${query}` })).json().logs as {
    id: string
    action: string
    seq: number | null
    hash: string | null
  }[]
const revoke = () => asAdmin(service, { url: '/api-keys', body: { client: 'acme' } })
const linesOf = (message: string) =>
  service.logLines
    .map((line) => JSON.parse(line))
    .filter((line: { msg?: string }) => line.msg === message)

describe('audit entries and their seals', () => {
  test('an entry is listed at once, newest first, and gets its place and hash when it is sealed', async () => {
    const before = await verify()
    await revoke()
    const [fresh, older] = await list('?limit=2')
    expect(fresh).toMatchObject({ action: 'api_key.created', seq: null, hash: null })
    expect(older?.seq).toBe(before.head.seq)
    expect(await verify()).toMatchObject({ valid: true, head: before.head, unsealed: 1 })
    expect(await service.chain.sealAll()).toBe(1)
    const check = await verify()
    expect(check).toMatchObject({ valid: true, entries: before.entries + 1, unsealed: 0 })
    expect((await list('?limit=1'))[0]).toMatchObject({ id: fresh?.id, ...check.head })
  })

  test('pages keep their place while entries are sealed and new ones are written', async () => {
    for (let count = 0; count < 3; count += 1) await revoke()
    const url = '/admin/activity?limit=2'
    const first = (await asAdmin(service, { url })).json()
    await service.chain.sealAll()
    await revoke()
    const second = (await asAdmin(service, { url: `${url}&cursor=${first.next_cursor}` })).json()
    const back = (await asAdmin(service, { url: `${url}&cursor=${second.previous_cursor}` })).json()
    const ids = (page: typeof first) => page.logs.map(({ id }: { id: string }) => id)
    expect(ids(back)).toEqual(ids(first))
    expect(new Set([...ids(first), ...ids(second)]).size).toBe(4)
  })

  test('T42: an entry is sealed a second after it was written, and the sealer logs the end of the chain at start, hourly and at stop', async () => {
    const own = await startTestService({ twinOf: service })
    const { logLines } = own
    const checkpoints = () => logLines.filter((line) => line.includes('activity log checkpoint'))
    await revoke()
    own.chain.start()
    await expect.poll(async () => (await verify()).unsealed).toBe(0)
    await expect.poll(() => checkpoints().length).toBe(1)
    expect(own.sleeps).toContain(1_000)
    own.clock.advance(3_600_000)
    await expect.poll(() => checkpoints().length).toBe(2)
    await own.stop()
    expect(checkpoints()).toHaveLength(3)
    const { head } = await verify()
    const line = JSON.parse(checkpoints()[2] as string)
    expect(line).toEqual({
      level: expect.anything(),
      time: expect.any(String),
      ...head,
      msg: 'activity log checkpoint',
    })
    expect(await verify(`?checkpoint_seq=${line.seq}&checkpoint_hash=${line.hash}`)).toMatchObject({
      valid: true,
      checkpoint: { seq: head.seq, found: true },
    })
  })
})

describe('rows that the service did not write', () => {
  const forged = (seq?: number) => sql`
    insert into activity_log (${seq === undefined ? sql`` : sql`seq, `}id, action, resource_type, status, metadata, duration_ms, created_at, mac)
    overriding system value
    select ${seq === undefined ? sql`` : sql`${seq}::bigint, `}gen_random_uuid(), 'order.refunded', 'forged', 'success', '{}', 0, now(), ${'f'.repeat(64)}
    returning id`

  test('added rows stop no charge, are neither listed nor sealed, and the check names them', async () => {
    const { db } = service.database
    const { head } = await verify()
    const { rows } = await sql<{ last: number }>`select max(seq) as last from activity_log`.execute(
      db,
    )
    const last = rows[0]?.last ?? 0
    const put: string[] = []
    for (const seq of [last + 1, last + 2, last + 50, undefined]) {
      const added = await forged(seq).execute(db)
      put.push((added.rows[0] as { id: string }).id)
    }
    for (const [index, place] of [head.seq + 1, head.seq + 2].entries()) {
      await sql`insert into activity_seals values (${place}, ${put[index]}, ${'f'.repeat(64)})`.execute(
        db,
      )
    }
    await sql`insert into activity_unsealed values (${put[2]})`.execute(db)

    const charged = await charge(service, till, { reference: 'beside junk' })
    expect(charged.statusCode, charged.body).toBe(201)
    const beforeSeal = await list('?limit=5')
    expect(beforeSeal[0]?.action).toBe('order.created')
    expect(await service.chain.sealAll()).toBe(1)
    // Two seals beyond the head, which are deleted, and an entry that waits for one.
    const found = linesOf('audit log entry found that this service did not write')
    expect(found.map(({ entry }) => entry)).toEqual(put.slice(0, 3))
    const { rows: seals } = await sql`
      select from activity_seals where entry_id = any(${put})`.execute(db)
    expect(seals).toEqual([])
    const [newest, ...others] = await list('?limit=5')
    expect(newest).toMatchObject({ action: 'order.created', seq: head.seq + 1 })
    for (const { id } of [...beforeSeal, ...others]) expect(put).not.toContain(id)
    const check = await verify()
    expect(check).toMatchObject({ valid: false, reason: 'an entry was added' })
    const reported = new Set(check.findings.map(({ entry_id: id }: { entry_id: string }) => id))
    expect(reported).toEqual(new Set(put))
    for (const { reason } of check.findings) expect(reason).toBe('an entry was added')

    await service.database.transaction(async (trx) => {
      await withoutTriggers(trx)
      await sql`delete from activity_log where id = any(${put})`.execute(trx)
      await sql`delete from activity_seals where entry_id = any(${put})`.execute(trx)
    })
    expect(await verify()).toMatchObject({ valid: true, unsealed: 0 })
  })

  test('with a head that the service did not sign nothing is sealed, charges go on, and all entries are listed', async () => {
    const { db } = service.database
    const genuine = await db.selectFrom('activity_head').selectAll().executeTakeFirstOrThrow()
    await db.updateTable('activity_head').set({ seq: 2 }).execute()
    await revoke()
    expect(await service.chain.sealAll()).toBe(0)
    expect(await service.chain.sealAll()).toBe(0)
    expect(
      linesOf(
        'audit log head missing or not signed by this service: sealing stopped; see GET /admin/activity/verify',
      ),
    ).toHaveLength(1)
    const listed = await list('?limit=3')
    expect(listed.map(({ seq }) => seq)).toEqual([null, genuine.seq, genuine.seq - 1])
    // A restart does not sign it either.
    const restarted = await startTestService({ twinOf: service })
    await restarted.stop()
    expect(await verify()).toMatchObject({
      valid: false,
      broken_at: 3,
      reason: 'the head of the log was changed',
    })
    await db.updateTable('activity_head').set(genuine).execute()
    expect(await service.chain.sealAll()).toBe(1)
    expect(await verify()).toMatchObject({ valid: true })
  })
})

describe('the check of the audit log', () => {
  test('the check ends when its client disconnects and when the service stops', {
    tags: ['long'],
  }, async () => {
    const auditLog = await openAuditLog()
    for (let index = 0; index < 20; index += 1) await auditLog.write(`S-${index}`)
    await sealWaiting(auditLog)
    const ended = new AbortController()
    let batches = 0
    const counting = new Proxy(auditLog.database.db, {
      get(target, name, receiver) {
        if (name === 'getExecutor') batches += 1
        if (batches === 6) ended.abort(new Error('disconnected'))
        const value = Reflect.get(target, name, receiver)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    await expect(
      verifyActivityChain(
        { auditKey: auditLog.auditKey, db: counting },
        { signal: ended.signal, batch: 1 },
      ),
    ).rejects.toThrow('disconnected')
    // 20 entries, one at a time, twice.
    expect(batches).toBeLessThan(15)
    await auditLog.database.close()
  })

  test('two checks run at a time, and a client that disconnects frees one', async () => {
    const { database } = service
    const locked = Promise.withResolvers<void>()
    const mayGoOn = Promise.withResolvers<void>()
    const holding = database.transaction(async (trx) => {
      await sql`lock table activity_head in access exclusive mode`.execute(trx)
      locked.resolve()
      await mayGoOn.promise
    })
    await locked.promise
    await service.app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = service.app.server.address() as { port: number }
    const ask = (signal?: AbortSignal) =>
      fetch(`http://127.0.0.1:${port}/admin/activity/verify`, {
        headers: { 'x-api-token': adminToken },
        ...(signal && { signal }),
      })
    const disconnect = new AbortController()
    const cut = [1, 2].map(() => ask(disconnect.signal).catch(() => 'cut'))
    await expect
      .poll(async () => (await ask(AbortSignal.timeout(200)).catch(() => undefined))?.status)
      .toBe(429)
    disconnect.abort()
    expect(await Promise.all(cut)).toEqual(['cut', 'cut'])
    mayGoOn.resolve()
    await holding
    await expect.poll(async () => (await ask()).status).toBe(200)
  })

  test('the check yields to other work between batches', async () => {
    let rounds = 0
    let isOver = false
    const others = (async () => {
      while (!isOver) {
        rounds += 1
        await new Promise((resolve) => setImmediate(resolve))
      }
    })()
    const { db } = service.database
    await verifyActivityChain({ auditKey: service.deps.auditKey, db }, { batch: 1 })
    isOver = true
    await others
    expect(rounds).toBeGreaterThan(10)
  })
})

describe('sealing', () => {
  let auditLog: AuditLog
  beforeAll(async () => {
    auditLog = await openAuditLog()
  })
  beforeEach(async () => {
    await truncateAll(auditLog.database)
    auditLog = await openAuditLog(auditLog.database)
  })
  afterAll(() => auditLog.database.close())

  const places = async () => {
    const { rows } = await sql<{ text: string; place: number | null }>`
      select resource_id as text, s.seq as place from activity_log l
      left join activity_seals s on s.entry_id = l.id order by l.seq`.execute(auditLog.database.db)
    return rows.map(({ text, place }) => `${text} ${place}`)
  }

  test('an entry that is rolled back leaves a gap in the log and none in the chain', async () => {
    await auditLog.write('first')
    await auditLog.database
      .transaction(async (trx) => {
        await writeEntry(auditLog.auditKey, trx, 'undone')
        throw new Error('undo')
      })
      .catch(() => undefined)
    await auditLog.write('second')
    expect(await sealWaiting(auditLog)).toMatchObject({ sealed: 2 })
    expect(await places()).toEqual(['first 1', 'second 2'])
    expect(await auditLog.verify()).toMatchObject({ valid: true, entries: 2 })
  })

  test('a crash between the steps of sealing leaves nothing half sealed, and the next run continues', async () => {
    await auditLog.write('first')
    await auditLog.write('second')
    await sealWaiting(auditLog)
    await auditLog.write('third')
    for (const table of ['activity_seals', 'activity_head', 'activity_unsealed']) {
      // All three statements are one transaction, whichever fails.
      await sql`create function crash() returns trigger language plpgsql as $$ begin raise exception 'crash'; end $$`.execute(
        auditLog.database.db,
      )
      await sql`create trigger crash before insert or update or delete on ${sql.table(table)}
        for each row execute function crash()`.execute(auditLog.database.db)
      await expect(sealWaiting(auditLog)).rejects.toThrow('crash')
      await sql`drop function crash cascade`.execute(auditLog.database.db)
      expect(await auditLog.verify()).toMatchObject({ valid: true, entries: 2, unsealed: 1 })
    }
    expect(await sealWaiting(auditLog)).toMatchObject({ sealed: 1 })
    expect(await auditLog.verify()).toMatchObject({ valid: true, entries: 3, unsealed: 0 })
  })

  test('two sealers beside concurrent writers give each entry one place', async () => {
    const writing = Array.from({ length: 40 }, (_, index) => auditLog.write(`w${index}`))
    const sealing = [1, 2].map(async () => {
      for (let round = 0; round < 20; round += 1) await sealWaiting(auditLog)
    })
    await Promise.all([...writing, ...sealing])
    await sealWaiting(auditLog)
    expect(await auditLog.verify()).toMatchObject({ valid: true, entries: 40, unsealed: 0 })
  })

  test('an entry that is queued for sealing again gets no second place', async () => {
    const { db } = auditLog.database
    await auditLog.write('first')
    await auditLog.write('second')
    await sealWaiting(auditLog)
    await sql`insert into activity_unsealed select entry_id from activity_seals where seq = 1`.execute(
      db,
    )
    expect(await sealWaiting(auditLog)).toMatchObject({ sealed: 0, strays: [] })
    expect(await auditLog.verify()).toMatchObject({ valid: true, entries: 2, unsealed: 0 })
  })

  test('one run seals more than one batch', { tags: ['long'] }, async () => {
    await auditLog.database.transaction(async (trx) => {
      for (let index = 0; index < 520; index += 1)
        await writeEntry(auditLog.auditKey, trx, `b${index}`)
    })
    expect(await sealWaiting(auditLog)).toMatchObject({ sealed: 520 })
    expect(await auditLog.verify()).toMatchObject({ valid: true, entries: 520, unsealed: 0 })
  })

  test('an emptied database is not taken for a new one', async () => {
    const { database, encryption } = auditLog
    await auditLog.write('before')
    await sealWaiting(auditLog)
    await sql`insert into clients (name, created_at) values ('acme', now())`.execute(database.db)
    await database.transaction(async (trx) => {
      await withoutTriggers(trx)
      for (const table of ['activity_log', 'activity_seals', 'activity_unsealed']) {
        await sql`delete from ${sql.table(table)}`.execute(trx)
      }
      await sql`update activity_head set seq = 0, hash = '', mac = null`.execute(trx)
    })
    // With the key, and with a key that is made anew because it was removed too.
    for (const table of ['activity_log', 'settings']) {
      await database.transaction(async (trx) => {
        await withoutTriggers(trx)
        await sql`delete from ${sql.table(table)}`.execute(trx)
      })
      const auditKey = await openAuditKey(database, encryption, new Date())
      await database.transaction((trx) => writeEntry(auditKey, trx, 'after'))
      expect(await sealWaiting({ database, auditKey })).toMatchObject({ sealed: 0, isBroken: true })
      expect(await verifyActivityChain({ auditKey, db: database.db })).toMatchObject({
        valid: false,
        brokenAt: 1,
        reason: 'the head of the log was changed',
      })
    }
    await truncateAll(database)
    auditLog = await openAuditLog(database)
    await auditLog.write('new')
    expect(await sealWaiting(auditLog)).toMatchObject({ sealed: 1 })
  })
})

test.skipIf(!postgresUrl)(
  `an entry that commits after later ones were sealed is sealed then, and writers do not wait (${needsPostgres})`,
  async () => {
    const { database } = await openPostgresClone(postgresUrl ?? '')
    const auditLog = await openAuditLog(database)
    const written = Promise.withResolvers<void>()
    const mayCommit = Promise.withResolvers<void>()
    const late = database.transaction(async (trx) => {
      await writeEntry(auditLog.auditKey, trx, 'late')
      written.resolve()
      await mayCommit.promise
    })
    await written.promise
    // An open transaction blocks neither writers nor the sealer.
    await auditLog.write('early')
    expect(await sealWaiting(auditLog)).toMatchObject({ sealed: 1 })
    expect(await auditLog.verify()).toMatchObject({ valid: true, entries: 1, unsealed: 0 })
    mayCommit.resolve()
    await late
    expect(await auditLog.verify()).toMatchObject({ valid: true, entries: 1, unsealed: 1 })
    expect(await sealWaiting(auditLog)).toMatchObject({ sealed: 1 })
    expect(await auditLog.verify()).toMatchObject({ valid: true, entries: 2, unsealed: 0 })
    const { rows } = await sql<{ resource_id: string; place: number }>`
      select resource_id, s.seq as place from activity_seals s join activity_log l on l.id = s.entry_id
      order by l.seq`.execute(database.db)
    expect(rows).toEqual([
      { resource_id: 'late', place: 2 },
      { resource_id: 'early', place: 1 },
    ])
    await database.close()
  },
)

test('an entry whose number was drawn long before its commit is sealed after those that overtook it', {
  tags: ['long'],
}, async () => {
  // The embedded database runs one transaction at a time, so the test draws the number early instead of delaying the commit.
  const auditLog = await openAuditLog(await openTestDatabase())
  const { database, auditKey } = auditLog
  await auditLog.write('one')
  await auditLog.write('two')
  await sealWaiting(auditLog)
  await database.transaction(async (trx) => {
    await writeEntry(auditKey, trx, 'late')
    await withoutTriggers(trx)
    await sql`alter table activity_log alter column seq drop identity`.execute(trx)
    await sql`update activity_log set seq = 0 where resource_id = 'late'`.execute(trx)
  })
  expect(await sealWaiting(auditLog)).toMatchObject({ sealed: 1 })
  expect(await auditLog.verify()).toMatchObject({ valid: true, entries: 3, unsealed: 0 })
  await database.close()
})
