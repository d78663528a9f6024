import { createSecretKey, randomBytes } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Trx } from '../../src/db/database.ts'
import { sealWaiting } from '../../src/payments/audit/seal-activity.ts'
import { sealEntry } from '../../src/payments/audit/signatures.ts'
import { type ChainCheck, verifyActivityChain } from '../../src/payments/audit/verify-activity.ts'
import { readSealed } from '../../src/repositories/audit/activity-chain.ts'
import { type AuditLog, openAuditLog } from '../support/audit.ts'

// T42: who can write to the database and switch triggers off, but lacks the encryption key, changes nothing undetected.

const sealed = 12
const unsealed = 2

let auditLog: AuditLog
beforeAll(async () => {
  auditLog = await openAuditLog()
  await writeSealed(auditLog)
  for (let index = 1; index <= unsealed; index += 1) await auditLog.write(`W-${index}`)
})
afterAll(() => auditLog.database.close())

async function writeSealed(log: AuditLog): Promise<void> {
  for (let index = 1; index <= sealed; index += 1) {
    await log.write(`S-${index}`)
    if (index % 4 === 0) await sealWaiting(log)
  }
}

const entryAt = (place: number) => sql`(select entry_id from activity_seals where seq = ${place})`

const deleteEntries = (which: RawBuilder<unknown>) => async (trx: Trx) => {
  await sql`delete from activity_log where id in (select entry_id from activity_seals where ${which})`.execute(
    trx,
  )
}
const deleteWhole = (which: RawBuilder<unknown>) => async (trx: Trx) => {
  await deleteEntries(which)(trx)
  await sql`delete from activity_seals where ${which}`.execute(trx)
}
/** A copy of an entry under a new id, as a forger would insert it. */
const addEntry = async (trx: Trx, place: number) => {
  const { rows } = await sql<{ id: string }>`
    insert into activity_log (id, client_name, ip_address, action, resource_type, resource_id, status, error_message,
      metadata, duration_ms, created_at, mac)
    select gen_random_uuid(), client_name, ip_address, action, resource_type, 'forged', status, error_message,
      metadata, duration_ms, now(), mac from activity_log where id = ${entryAt(place)}
    returning id`.execute(trx)
  return rows[0]?.id as string
}
const addSeal = (trx: Trx, place: number, entryId: string, hash: string) =>
  sql`insert into activity_seals (seq, entry_id, hash) values (${place}, ${entryId}, ${hash})`.execute(
    trx,
  )
const exchangePlaces = async (trx: Trx, one: number, other: number) => {
  await sql`update activity_seals set seq = -seq where seq in (${one}, ${other})`.execute(trx)
  await sql`update activity_seals set seq = ${one + other} + seq where seq < 0`.execute(trx)
}
const setHeadTo = (trx: Trx, place: number) =>
  sql`update activity_head set seq = ${place},
    hash = coalesce((select hash from activity_seals where seq = ${place}), '')`.execute(trx)
const someHash = () => randomBytes(32).toString('hex')

test('before any tampering the check finds the log whole and counts the unsealed entries', async () => {
  const check = await auditLog.verify()
  expect(check).toMatchObject({ valid: true, entries: sealed, unsealed, findings: [] })
  expect(check.head.seq).toBe(sealed)
})

const fields: [column: string, value: RawBuilder<unknown>][] = [
  ['seq', sql`seq + 1000`],
  ['client_name', sql`'other'`],
  ['client_name', sql`null`],
  ['ip_address', sql`'192.0.2.1'`],
  ['action', sql`'store.deleted'`],
  ['resource_type', sql`'pos'`],
  ['resource_id', sql`'S-99'`],
  ['status', sql`case status when 'failed' then 'success' else 'failed' end`],
  ['error_message', sql`'it was somebody else'`],
  ['metadata', sql`'{"pos": 7}'`],
  ['metadata', sql`metadata || '{"key_id": "mine"}'`],
  ['duration_ms', sql`duration_ms + 1`],
  ['created_at', sql`created_at - interval '1 ms'`],
  ['mac', sql`md5('x') || md5('y')`],
]
const changeField =
  (place: number, [column, value]: (typeof fields)[number]) =>
  (trx: Trx) =>
    // With `overriding` no update may name an identity column that is always generated.
    column === 'seq'
      ? sql`alter table activity_log alter column seq drop identity`
          .execute(trx)
          .then(() =>
            sql`update activity_log set seq = ${value} where id = ${entryAt(place)}`.execute(trx),
          )
      : sql`update activity_log set ${sql.ref(column)} = ${value} where id = ${entryAt(place)}`.execute(
          trx,
        )

test.each(fields)('T42: a change of %s of one entry is detected', async (...field) => {
  const check = await auditLog.checkWith(changeField(5, field))
  expect(check).toMatchObject({ valid: false, entries: 4, brokenAt: 5 })
  expect(check.findings[0]?.entryId).not.toBeNull()
})

type Tampering = [what: string, brokenAt: number, reason: string, change: (trx: Trx) => unknown]

const beyond = sealed + 1
const named: Tampering[] = [
  ['an entry is removed', 5, 'an entry is missing', deleteEntries(sql`seq = 5`)],
  ['an entry and its seal are removed', 5, 'an entry is missing', deleteWhole(sql`seq = 5`)],
  ['the first entry is removed', 1, 'an entry is missing', deleteWhole(sql`seq = 1`)],
  [
    'an entry is removed and the gap is closed',
    5,
    'the link is broken',
    async (trx) => {
      await deleteWhole(sql`seq = 5`)(trx)
      await sql`update activity_seals set seq = -seq where seq > 5`.execute(trx)
      await sql`update activity_seals set seq = -seq - 1 where seq < 0`.execute(trx)
      await setHeadTo(trx, sealed - 1)
    },
  ],
  [
    'an entry is removed, and the gap is closed with new hashes',
    sealed,
    'the end of the log is missing',
    async (trx) => {
      await deleteWhole(sql`seq = 5`)(trx)
      await sealAgain(trx, 6)
    },
  ],
  [
    'an entry is removed, and the gap is closed with new hashes and the head set to them',
    sealed,
    'the head of the log was changed',
    async (trx) => {
      await deleteWhole(sql`seq = 5`)(trx)
      await sealAgain(trx, 6)
      await setHeadTo(trx, sealed - 1)
    },
  ],
  [
    'two entries exchange their places, with new hashes',
    sealed,
    'the end of the log was changed',
    async (trx) => {
      await exchangePlaces(trx, 5, 6)
      await sealAgain(trx, 5)
    },
  ],
  [
    'two entries exchange their places',
    5,
    'the link is broken',
    (trx) => exchangePlaces(trx, 5, 6),
  ],
  [
    'two entries exchange their contents',
    5,
    'the entry was changed',
    (trx) =>
      sql`update activity_log l set resource_id = o.resource_id, metadata = o.metadata, mac = o.mac
        from activity_log o where (l.id, o.id) in ((${entryAt(5)}, ${entryAt(9)}), (${entryAt(9)}, ${entryAt(5)}))`.execute(
        trx,
      ),
  ],
  [
    'the hash of a seal is changed',
    5,
    'the link is broken',
    (trx) => sql`update activity_seals set hash = '' where seq = 5`.execute(trx),
  ],
  ['the end is cut off', 10, 'the end of the log is missing', deleteWhole(sql`seq >= 10`)],
  [
    'the end is cut off and the head is set back',
    10,
    'the head of the log was changed',
    async (trx) => {
      await deleteWhole(sql`seq >= 10`)(trx)
      await setHeadTo(trx, 9)
    },
  ],
  ['only the head is set back', 10, 'the head of the log was changed', (trx) => setHeadTo(trx, 9)],
  [
    'the end is cut off and the head is marked as never signed',
    10,
    'the head of the log was changed',
    async (trx) => {
      await deleteWhole(sql`seq >= 10`)(trx)
      await setHeadTo(trx, 9)
      await sql`update activity_head set mac = null`.execute(trx)
    },
  ],
  [
    'the log is emptied',
    1,
    'an entry is missing',
    (trx) => sql`delete from activity_log`.execute(trx),
  ],
  [
    'the log and its seals are emptied',
    1,
    'the end of the log is missing',
    async (trx) => {
      await sql`delete from activity_log`.execute(trx)
      await sql`delete from activity_seals`.execute(trx)
      await sql`delete from activity_unsealed`.execute(trx)
    },
  ],
  [
    'everything is emptied and the head is set to the beginning',
    1,
    'the head of the log was changed',
    async (trx) => {
      await sql`delete from activity_log`.execute(trx)
      await sql`delete from activity_seals`.execute(trx)
      await sql`delete from activity_unsealed`.execute(trx)
      await setHeadTo(trx, 0)
    },
  ],
  [
    'everything is emptied, with the head',
    1,
    'the head of the log is missing',
    async (trx) => {
      await sql`delete from activity_log`.execute(trx)
      await sql`delete from activity_seals`.execute(trx)
      await sql`delete from activity_unsealed`.execute(trx)
      await sql`delete from activity_head`.execute(trx)
    },
  ],
  [
    'the head is removed',
    beyond,
    'the head of the log is missing',
    (trx) => sql`delete from activity_head`.execute(trx),
  ],
  ['an entry is added', beyond, 'an entry was added', (trx) => addEntry(trx, 3)],
  [
    'an entry is added to the unsealed ones',
    beyond,
    'an entry was added',
    async (trx) =>
      sql`insert into activity_unsealed values (${await addEntry(trx, 3)})`.execute(trx),
  ],
  [
    'a sealed entry is added beyond the head',
    beyond,
    'an entry was added',
    async (trx) => addSeal(trx, beyond, await addEntry(trx, 3), someHash()),
  ],
  [
    'a sealed entry is added far beyond the head',
    9_007_199_254_740_990,
    'an entry was added',
    async (trx) => addSeal(trx, 9_007_199_254_740_990, await addEntry(trx, 3), someHash()),
  ],
  [
    'an entry takes the place of another',
    5,
    'the entry was changed',
    async (trx) => {
      await deleteWhole(sql`seq = 5`)(trx)
      await addSeal(trx, 5, await addEntry(trx, 3), someHash())
    },
  ],
  [
    'an entry is added before the first',
    0,
    'an entry was added',
    async (trx) => addSeal(trx, 0, await addEntry(trx, 3), someHash()),
  ],
  [
    'a seal is added beyond the head after the last one was deleted',
    sealed,
    'the end of the log is missing',
    async (trx) => {
      await deleteWhole(sql`seq = ${sealed}`)(trx)
      await addSeal(trx, beyond, await addEntry(trx, 3), someHash())
    },
  ],
  [
    'an entry gets a second place',
    beyond,
    'an entry was added',
    async (trx) => {
      const { rows } = await sql<{ id: string }>`select ${entryAt(3)} as id`.execute(trx)
      await addSeal(trx, beyond, rows[0]?.id as string, someHash())
    },
  ],
  [
    'an unsealed entry is removed',
    beyond,
    'an entry is missing',
    (trx) => sql`delete from activity_log where resource_id = 'W-1'`.execute(trx),
  ],
  [
    'an entry is kept from being sealed',
    beyond,
    'an entry was kept out of the chain',
    (trx) =>
      sql`delete from activity_unsealed where entry_id = (select id from activity_log where resource_id = 'W-1')`.execute(
        trx,
      ),
  ],
  [
    'an unsealed entry is changed',
    beyond,
    'an entry was added',
    (trx) =>
      sql`update activity_log set client_name = 'other' where resource_id = 'W-1'`.execute(trx),
  ],
  [
    'an entry is changed and all hashes are recomputed without the key',
    5,
    'the entry was changed',
    (trx) => recompute(trx, 5),
  ],
]

test.each(named)('T42: the check detects that %s', async (_what, brokenAt, reason, change) => {
  const check = await auditLog.checkWith(async (trx) => change(trx))
  expect(check).toMatchObject({ valid: false, brokenAt, reason })
  expect(check.entries).toBeLessThan(Math.max(1, Math.min(brokenAt, sealed + 1)))
})

/** As a person does who knows the service well and has no key. */
async function recompute(trx: Trx, place: number): Promise<void> {
  await sql`update activity_log set client_name = 'other', mac = ${someHash()} where id = ${entryAt(place)}`.execute(
    trx,
  )
  await sealAgain(trx, place)
  await setHeadTo(trx, sealed)
}

/** Seals need no key: the chain from a place on, made again for the entries that are there. */
async function sealAgain(trx: Trx, from: number): Promise<void> {
  let previous = { seq: 0, hash: '' }
  for (const { seal, entry } of await readSealed(trx, undefined, 100)) {
    if (entry && seal.seq >= from) {
      const { seq, hash } = sealEntry(entry, previous)
      await sql`update activity_seals set seq = ${seq}, hash = ${hash} where seq = ${seal.seq}`.execute(
        trx,
      )
      previous = { seq, hash }
    } else previous = seal
  }
}

describe('tampering at random', () => {
  let state = 42
  const below = (limit: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
  const place = () => 1 + below(sealed)
  const field = () => fields[below(fields.length)] as (typeof fields)[number]

  const kinds: Record<string, () => { brokenAt: number; change: (trx: Trx) => unknown }> = {
    'altered field': () => {
      const brokenAt = place()
      return { brokenAt, change: changeField(brokenAt, field()) }
    },
    'deleted entries': () => {
      const brokenAt = place()
      const last = brokenAt + below(3)
      const remove = below(2) === 0 ? deleteEntries : deleteWhole
      return { brokenAt, change: remove(sql`seq between ${brokenAt} and ${last}`) }
    },
    'inserted row': () => {
      const copied = place()
      const at = place()
      return below(2) === 0
        ? { brokenAt: beyond, change: (trx) => addEntry(trx, copied) }
        : {
            brokenAt: at,
            change: async (trx) => {
              const added = await addEntry(trx, copied)
              await sql`update activity_seals set entry_id = ${added} where seq = ${at}`.execute(
                trx,
              )
            },
          }
    },
    'swapped rows': () => {
      const one = 1 + below(sealed - 1)
      const other = one + 1 + below(sealed - one)
      return {
        brokenAt: one,
        change: (trx) => exchangePlaces(trx, one, other),
      }
    },
    'tail cut, head set back': () => {
      const kept = below(sealed)
      return {
        brokenAt: kept + 1,
        change: async (trx) => {
          await deleteWhole(sql`seq > ${kept}`)(trx)
          await setHeadTo(trx, kept)
        },
      }
    },
    'row beyond the head': () => {
      const at = beyond + below(1000)
      const copied = place()
      return {
        brokenAt: at,
        change: async (trx) => addSeal(trx, at, await addEntry(trx, copied), someHash()),
      }
    },
    'hashes recomputed without the key': () => {
      const brokenAt = 2 + below(sealed - 1)
      return { brokenAt, change: (trx) => recompute(trx, brokenAt) }
    },
  }

  test.each(Object.entries(kinds))(
    '%s: the check finds 30 of 30, each at its place',
    { tags: ['long'] },
    async (_kind, draw) => {
      for (let round = 0; round < 30; round += 1) {
        const { brokenAt, change } = draw()
        const check: ChainCheck = await auditLog.checkWith(async (trx) => change(trx))
        expect(check, `round ${round}`).toMatchObject({ valid: false, brokenAt })
      }
    },
  )
})

test('the check needs the key that signed the entries', async () => {
  const { db } = auditLog.database
  const auditKey = createSecretKey(randomBytes(32))
  expect(await verifyActivityChain({ auditKey, db })).toMatchObject({
    valid: false,
    brokenAt: 1,
    reason: 'the entry was changed',
  })
})

test('the check stops at 100 findings, however many rows were added', async () => {
  const check = await auditLog.checkWith(async (trx) => {
    await sql`insert into activity_log (id, action, resource_type, status, metadata, duration_ms, created_at, mac)
      select gen_random_uuid(), 'x', 'x', 'success', '{}', 0, now(), 'x' from generate_series(1, 300)`.execute(
      trx,
    )
  })
  expect(check).toMatchObject({ valid: false, brokenAt: beyond, entries: sealed })
  expect(check.findings).toHaveLength(100)
})

test('T42: a checkpoint detects a log that was set back as a whole to an earlier state', {
  tags: ['long'],
}, async () => {
  // A log of its own, because the test writes to it.
  const auditLog = await openAuditLog()
  onTestFinished(() => auditLog.database.close())
  await writeSealed(auditLog)
  const { db } = auditLog.database
  const at = async (place: number) => {
    const row = await db
      .selectFrom('activity_seals')
      .select(['seq', 'hash'])
      .where('seq', '=', place)
      .executeTakeFirstOrThrow()
    return { seq: row.seq, hash: row.hash }
  }
  const later = await at(sealed)
  const early = await at(3)
  expect(await auditLog.verify({ checkpoint: later })).toMatchObject({
    valid: true,
    checkpoint: { seq: sealed, found: true },
  })
  const changed = { seq: 3, hash: later.hash }
  expect(await auditLog.verify({ checkpoint: changed })).toMatchObject({
    valid: false,
    brokenAt: 3,
    checkpoint: { seq: 3, found: false },
  })

  const whole = await db.selectFrom('activity_head').selectAll().executeTakeFirstOrThrow()
  await auditLog.write('S-13')
  await sealWaiting(auditLog)
  const newest = (await auditLog.verify()).head
  // A genuine older state, as from a backup: nothing in it is wrong.
  const setBack = async (trx: Trx) => {
    await deleteWhole(sql`seq > ${sealed}`)(trx)
    await sql`delete from activity_unsealed`.execute(trx)
    await trx.updateTable('activity_head').set(whole).execute()
    const db = trx
    expect(await verifyActivityChain({ auditKey: auditLog.auditKey, db })).toMatchObject({
      valid: true,
    })
    for (const [checkpoint, isValid] of [
      [early, true],
      [newest, false],
    ] as const) {
      expect(
        await verifyActivityChain({ auditKey: auditLog.auditKey, db }, { checkpoint }),
      ).toMatchObject({
        valid: isValid,
        brokenAt: isValid ? null : beyond,
        checkpoint: { seq: checkpoint.seq, found: isValid },
      })
    }
  }
  await auditLog.checkWith(setBack)
})
