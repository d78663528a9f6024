/** @module-tag long */
import { createHmac, randomBytes, randomUUID } from 'node:crypto'
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Database, openDatabase } from '../../src/db/database.ts'
import { migrate, migrationsFolder } from '../../src/db/migrate.ts'
import { createEncryption, type EncryptionKey } from '../../src/domain/encryption.ts'
import { canonicalJson } from '../../src/domain/json.ts'
import { sealWaiting, signHeadAgain } from '../../src/payments/audit/seal-activity.ts'
import { verifyActivityChain } from '../../src/payments/audit/verify-activity.ts'
import { checkEncryptionKeys } from '../../src/payments/encryption/check-encryption-keys.ts'
import { rotateSecrets } from '../../src/payments/encryption/rotate-encryption-keys.ts'
import { withoutTriggers, writeEntry } from '../support/audit.ts'
import { newPgliteTemplate } from '../support/pglite-template.ts'

const migration = '0033_audit_seals.sql'
const old: EncryptionKey = { id: 'k1', key: randomBytes(32) }
const fresh: EncryptionKey = { id: 'k2', key: randomBytes(32) }
const encryption = createEncryption([old])

let database: Database
let before: { seq: number; hash: string }
beforeAll(async () => {
  database = await openDatabase({ inMemory: true, loadDataDir: await newPgliteTemplate() })
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-migrations-'))
  for (const name of await readdir(migrationsFolder)) {
    if (name < migration) await cp(join(migrationsFolder, name), join(folder, name))
  }
  await migrate(database, { folder })
  await rm(folder, { recursive: true })
  before = await writeAsBefore(6)
})
afterAll(() => database.close())

/** Entries in one chain, written as versions before the migration did. */
async function writeAsBefore(count: number): Promise<{ seq: number; hash: string }> {
  let head = { seq: 0, hash: '' }
  for (let seq = 1; seq <= count; seq += 1) {
    const row = {
      seq,
      id: randomUUID(),
      client_name: 'acme',
      ip_address: null,
      action: 'store.created',
      resource_type: 'store',
      resource_id: `S-${seq}`,
      status: 'success',
      error_message: null,
      metadata: { pos: seq },
      duration_ms: 7,
      created_at: new Date(1_790_000_000_000 + seq).toISOString(),
      key_id: 'k1',
      previous_hash: head.hash,
    }
    const hash = createHmac('sha256', encryption.signingKey().key)
      .update(canonicalJson(row))
      .digest('hex')
    await sql`insert into activity_log select * from jsonb_populate_record(null::activity_log, ${JSON.stringify({ ...row, hash })}::jsonb)`.execute(
      database.db,
    )
    head = { seq, hash }
  }
  await sql`update activity_head set seq = ${head.seq}, hash = ${head.hash}`.execute(database.db)
  return head
}

const verify = (keys = [old], checkpoint?: { seq: number; hash: string }) =>
  verifyActivityChain({ encryption: createEncryption(keys), db: database.db }, { checkpoint })

test('an older log keeps its places and hashes, is continued, and tampering in either part is detected', async () => {
  expect(await checkEncryptionKeys(database.db, [old])).toEqual([])
  await migrate(database)
  expect(await checkEncryptionKeys(database.db, [old])).toEqual([])
  expect(await checkEncryptionKeys(database.db, [{ id: 'k1', key: randomBytes(32) }])).toEqual([
    { id: 'k1', kind: 'wrong', uses: ['the audit log'] },
  ])
  await signHeadAgain({ database, encryption })
  expect(await verify()).toMatchObject({ valid: true, entries: 6, head: before })

  await database.transaction((trx) => writeEntry(encryption, trx, 'new'))
  expect(await sealWaiting({ database, encryption })).toMatchObject({ sealed: 1 })
  expect(await verify([old], before)).toMatchObject({
    valid: true,
    entries: 7,
    checkpoint: { seq: 6, found: true },
  })

  for (const [brokenAt, change] of [
    [3, sql`update activity_log set resource_id = 'S-9' where seq = 3`],
    [3, sql`update activity_log set previous_hash = null where seq = 3`],
    [3, sql`delete from activity_log where seq = 3`],
    [3, sql`delete from activity_seals where seq = 3`],
    [6, sql`delete from activity_seals where seq = 6`],
    [3, sql`update activity_seals set seq = 7 - seq where seq in (3, 4)`],
    [7, sql`update activity_log set resource_id = 'other' where seq = 7`],
    [8, sql`update activity_head set key_id = null, mac = null`],
  ] as const) {
    let check: unknown
    await database
      .transaction(async (trx) => {
        await withoutTriggers(trx)
        await change.execute(trx)
        check = await verifyActivityChain({ encryption, db: trx })
        throw new Error('undo')
      })
      .catch(() => undefined)
    expect(check).toMatchObject({ valid: false, brokenAt })
  }
})

test('after a key rotation the old key can be removed, and unsealed entries are sealed', async () => {
  await database.transaction((trx) => writeEntry(encryption, trx, 'waits'))
  expect(await checkEncryptionKeys(database.db, [fresh])).toContainEqual({
    id: 'k1',
    kind: 'missing',
    uses: ['the audit log'],
  })
  const deps = { database, now: () => new Date(), sleep: async () => undefined }
  expect(await rotateSecrets(deps, [fresh, old])).toMatchObject({ stillUsed: [] })
  expect(await checkEncryptionKeys(database.db, [fresh])).toEqual([])
  const check = await verify([fresh], before)
  expect(check).toMatchObject({ valid: true, entries: 8, unsealed: 0 })

  // Who has the old key and writes to the database can neither add an entry nor set a head.
  const forger = createEncryption([old])
  await database.transaction((trx) => writeEntry(forger, trx, 'forged'))
  expect(await sealWaiting({ database, encryption: createEncryption([fresh]) })).toMatchObject({
    sealed: 0,
  })
  expect(await verify([fresh])).toMatchObject({
    valid: false,
    brokenAt: 9,
    reason: 'its encryption key is not configured',
  })
})

test('sealing continues after a key was lost for good', async () => {
  const third: EncryptionKey = { id: 'k3', key: randomBytes(32) }
  const deps = { database, now: () => new Date(), sleep: async () => undefined }
  await rotateSecrets(deps, [third], ['k1', 'k2'])
  await database.transaction((trx) => writeEntry(createEncryption([third]), trx, 'later'))
  expect(await sealWaiting({ database, encryption: createEncryption([third]) })).toMatchObject({
    sealed: 1,
    isBroken: false,
  })
  expect(await verify([third])).toMatchObject({
    valid: false,
    brokenAt: 1,
    reason: 'its encryption key is not configured',
    head: { seq: 9 },
  })
})
