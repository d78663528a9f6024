/** @module-tag night */

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import {
  connectionContext,
  createEncryption,
  type EncryptionKey,
} from '../../src/domain/encryption.ts'
import { openAuditKey } from '../../src/payments/audit/audit-key.ts'
import { sealWaiting } from '../../src/payments/audit/seal-activity.ts'
import { verifyActivityChain } from '../../src/payments/audit/verify-activity.ts'
import { checkEncryptionKeys } from '../../src/payments/encryption/check-encryption-keys.ts'
import { rotateSecrets } from '../../src/payments/encryption/rotate-encryption-keys.ts'
import {
  beginRenewal,
  findConnection,
  replaceTokens,
} from '../../src/repositories/connection/connection-queries.ts'
import {
  needsPostgres,
  openPostgresClone,
  openTestDatabase,
  postgresUrl,
} from '../support/database.ts'
import { seedEncrypted } from '../support/encrypted-rows.ts'
import { prepareData } from '../support/pglite-template.ts'
import { compiled } from './real-process.ts'

const command = fileURLToPath(new URL('../../src/commands/rotate-secrets.ts', import.meta.url))
const old: EncryptionKey = { id: 'k1', key: randomBytes(32) }
const fresh: EncryptionKey = { id: 'k2', key: randomBytes(32) }
const third: EncryptionKey = { id: 'k3', key: randomBytes(32) }

function run(env: Record<string, string>, keys: EncryptionKey[], words: string[] = []) {
  const child = spawn(process.execPath, [command, ...words], {
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: compiled,
      ADMIN_TOKEN: 'x'.repeat(32),
      ENCRYPTION_KEYS: keys.map(({ id, key }) => `${id}:${key.toString('base64')}`).join(','),
      ...env,
    },
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => {
      said += bytes.toString()
    })
  }
  const ended = new Promise<{ code: number | null; said: string }>((resolve) =>
    child.once('close', (code) => resolve({ code, said })),
  )
  return { child, ended }
}

/** As many connected clients as a killed run leaves work behind. */
async function manyClients(database: Database, count: number): Promise<string[]> {
  const names = Array.from({ length: count }, (_, index) => `shop ${index}`)
  for (const name of names) await seedEncrypted(database, [old], name)
  return names
}

/** A renewal as the service does it, by a process that encrypts with `keys`. */
async function renew(database: Database, keys: EncryptionKey[], name: string, text: string) {
  const encryption = createEncryption(keys)
  const client = name as never
  const before = await findConnection(database.db, client)
  if (!before) throw new Error('no connection')
  await beginRenewal(database.db, before, new Date())
  return database.transaction((trx) =>
    replaceTokens(trx, before, {
      access_token: encryption.encrypt(
        `access of ${text}`,
        connectionContext(name, 'access_token'),
      ),
      refresh_token: encryption.encrypt(
        `refresh of ${text}`,
        connectionContext(name, 'refresh_token'),
      ),
      public_key: null,
      live_mode: false,
      expires_at: new Date(Date.now() + 86_400_000),
      refreshed_at: new Date(),
    }),
  )
}

/** What the tokens of every client say, opened with these keys only. */
async function tokensWith(database: Database, keys: EncryptionKey[]) {
  const encryption = createEncryption(keys)
  const rows = await database.db.selectFrom('oauth_connections').selectAll().execute()
  return new Map(
    rows.map((row) => [
      String(row.client),
      [
        encryption.decrypt(row.access_token, connectionContext(row.client, 'access_token')),
        encryption.decrypt(
          String(row.refresh_token),
          connectionContext(row.client, 'refresh_token'),
        ),
      ],
    ]),
  )
}

const chain = async (database: Database, keys: EncryptionKey[]) => {
  const auditKey = await openAuditKey(database, createEncryption(keys), new Date())
  await sealWaiting({ database, auditKey })
  return verifyActivityChain({ auditKey, db: database.db })
}

test.skipIf(!postgresUrl)(
  `an exchange of keys that is killed again and again beside renewals ends with every newest token under the first key (${needsPostgres})`,
  async () => {
    const { database, url } = await openPostgresClone(postgresUrl ?? '')
    const names = await manyClients(database, 400)
    const expected = new Map(names.map((name) => [name, name]))
    const env = { DATABASE_URL: url }
    let isRotating = true
    let renewals = 0
    const renewing = (async () => {
      for (let round = 0; isRotating; round += 1) {
        const name = names[(round * 7) % names.length] as string
        const text = `${name}, renewal ${round}`
        // At first some processes still encrypt with the old key.
        if (await renew(database, round % 2 === 0 ? [old, fresh] : [fresh, old], name, text)) {
          expected.set(name, text)
          renewals += 1
        }
        await wait(2)
      }
    })()
    let cut = 0
    for (let round = 0; round < 6; round += 1) {
      const { child, ended } = run(env, [fresh, old])
      // It works once the first value has moved.
      for (;;) {
        const { rows } = await sql<{ moved: number }>`
          select count(*)::int as moved from oauth_connections where access_token like 'v1.k2.%'`.execute(
          database.db,
        )
        if ((rows[0]?.moved ?? 0) > 40 * (round + 1) || child.exitCode !== null) break
        await wait(5)
      }
      child.kill('SIGKILL')
      if ((await ended).code === null) cut += 1
    }
    isRotating = false
    await renewing

    const last = await run(env, [fresh, old]).ended
    expect(last.said).toMatch(/values were encrypted again with k2/)
    expect(last.code).toBe(0)
    expect(cut).toBeGreaterThan(2)
    expect(renewals).toBeGreaterThan(20)
    expect(await tokensWith(database, [fresh])).toEqual(
      new Map(
        [...expected].map(([name, text]) => [name, [`access of ${text}`, `refresh of ${text}`]]),
      ),
    )
    expect(await checkEncryptionKeys(database.db, [fresh])).toEqual([])
    expect(await chain(database, [fresh])).toMatchObject({ valid: true })
    expect((await run(env, [fresh]).ended).said).toMatch(/^0 values/)
    await database.close()
  },
  120_000,
)

test('T14: keys are exchanged beside renewals and new clients, and then the old key is not needed', async () => {
  const database = await openTestDatabase()
  const deps = { database, now: () => new Date() }
  const names = await manyClients(database, 150)
  const expected = new Map(names.map((name) => [name, name]))
  let isRotating = true
  const serving = (async () => {
    // Step 1 of the procedure: all processes have both keys, and some still encrypt with the old one.
    for (let round = 0; isRotating; round += 1) {
      const keys = round % 3 === 0 ? [old, fresh] : [fresh, old]
      const name = names[(round * 7) % names.length] as string
      const text = `${name}, renewal ${round}`
      if (await renew(database, keys, name, text)) expected.set(name, text)
      await seedEncrypted(database, keys, `new ${round}`)
      expected.set(`new ${round}`, `new ${round}`)
    }
  })()
  const beside = await rotateSecrets(deps, [fresh, old])
  isRotating = false
  await serving
  expect(beside.renewed).toBeGreaterThan(150)
  expect(beside.unreadable).toEqual([])

  const after = await rotateSecrets(deps, [fresh, old])
  expect(after).toMatchObject({ unreadable: [], left: [] })
  expect(expected.size).toBeGreaterThan(names.length)
  expect(await tokensWith(database, [fresh])).toEqual(
    new Map(
      [...expected].map(([name, text]) => [name, [`access of ${text}`, `refresh of ${text}`]]),
    ),
  )
  expect(await checkEncryptionKeys(database.db, [fresh])).toEqual([])
  expect(await chain(database, [fresh])).toMatchObject({ valid: true, lost: null })
  await database.close()
})

describe('after an exchange', () => {
  test('T14: the old key may be removed, also a second time, and the audit log verifies its signatures', async () => {
    const database = await openTestDatabase()
    const deps = { database, now: () => new Date() }
    await manyClients(database, 3)
    expect(await rotateSecrets(deps, [fresh, old])).toEqual({
      first: 'k2',
      renewed: 10,
      givenUp: [],
      unreadable: [],
      left: [],
    })
    expect(await chain(database, [fresh])).toMatchObject({ valid: true, entries: 4 })
    expect(await rotateSecrets(deps, [third, fresh])).toMatchObject({ renewed: 10, left: [] })
    expect(await checkEncryptionKeys(database.db, [third])).toEqual([])
    expect(await chain(database, [third])).toMatchObject({ valid: true, entries: 5 })
    expect((await tokensWith(database, [third])).get('shop 1')?.[0]).toBe('access of shop 1')

    await sql`alter table activity_log disable trigger all`.execute(database.db)
    await sql`update activity_log set action = 'other' where seq = 2`.execute(database.db)
    expect(await chain(database, [third])).toMatchObject({ valid: false, brokenAt: 2 })
    await database.close()
  })

  test('values that a process still encrypted with the old key are reported, and another run exchanges them', async () => {
    const database = await openTestDatabase()
    await manyClients(database, 2)
    const deps = { database, now: () => new Date() }
    expect(await rotateSecrets(deps, [fresh, old])).toMatchObject({ left: [] })
    await renew(database, [old], 'shop 1', 'later')
    expect(await checkEncryptionKeys(database.db, [fresh])).toEqual([
      { id: 'k1', kind: 'missing', uses: ['tokens of clients'] },
    ])
    expect(await rotateSecrets(deps, [fresh, old])).toMatchObject({ renewed: 2 })
    expect(await checkEncryptionKeys(database.db, [fresh])).toEqual([])
    expect((await tokensWith(database, [fresh])).get('shop 1')?.[0]).toBe('access of later')
    await database.close()
  })

  test('a lost key ends only the connections of the clients whose tokens it encrypted, and the audit log goes on', async () => {
    const database = await openTestDatabase()
    await seedEncrypted(database, [old], 'before')
    await seedEncrypted(database, [fresh, old], 'after')
    expect(await chain(database, [fresh, old])).toMatchObject({ valid: true, entries: 2 })
    const deps = { database, now: () => new Date() }
    expect(await checkEncryptionKeys(database.db, [fresh])).toEqual([
      {
        id: 'k1',
        kind: 'missing',
        uses: ['tokens of clients', 'logins under way', 'the audit log'],
      },
    ])
    expect(await rotateSecrets(deps, [fresh], ['k1'])).toMatchObject({
      givenUp: [
        { use: 'tokens of clients', owner: 'before' },
        { use: 'the audit log', owner: 'audit_key' },
      ],
      left: [],
    })
    expect(await checkEncryptionKeys(database.db, [fresh])).toEqual([])
    const rows = await database.db
      .selectFrom('oauth_connections')
      .select(['client', 'status', 'lost_reason'])
      .orderBy('client')
      .execute()
    expect(rows).toEqual([
      { client: 'after', status: 'connected', lost_reason: null },
      { client: 'before', status: 'lost', lost_reason: 'encryption_key_lost' },
    ])
    // The audit key is lost too: what the first two entries say is not checked, their places are.
    expect(await chain(database, [fresh])).toMatchObject({ valid: true, entries: 3, lost: 2 })
    await sql`alter table activity_log disable trigger all`.execute(database.db)
    await sql`delete from activity_log where seq = 1`.execute(database.db)
    expect(await chain(database, [fresh])).toMatchObject({ valid: false, brokenAt: 1 })
    await database.close()
  })

  test('a value that no key decrypts is named and left unchanged', async () => {
    const database = await openTestDatabase()
    await manyClients(database, 2)
    const damaged = createEncryption([{ id: 'k1', key: randomBytes(32) }]).encrypt('x', 'y')
    await database.db
      .updateTable('oauth_connections')
      .set({ access_token: damaged })
      .where('client', '=', 'shop 1' as never)
      .execute()
    const deps = { database, now: () => new Date() }
    // One of two values under the key opens, so it is the value that is wrong.
    expect(await checkEncryptionKeys(database.db, [old])).toEqual([])
    expect(await rotateSecrets(deps, [fresh, old])).toMatchObject({
      renewed: 6,
      unreadable: [{ use: 'tokens of clients', owner: 'shop 1' }],
      left: [{ key: 'k1', use: 'tokens of clients', values: 1 }],
    })
    await database.close()
  })
})

test(`the embedded database is exchanged while the service is stopped, and refused while it runs`, async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'tillbridge-rotate-'))
  await prepareData(dataDir)
  const database = await openDatabase({ dataDir })
  await seedEncrypted(database, [old])
  const busy = await run({ DATA_DIR: dataDir }, [fresh, old]).ended
  expect([busy.code, busy.said]).toEqual([1, expect.stringContaining('stop the service')])
  await database.close()

  const wrong = await run({ DATA_DIR: dataDir }, [fresh]).ended
  expect([wrong.code, wrong.said]).toEqual([1, expect.stringContaining('key k1 is missing')])
  const notLost = await run({ DATA_DIR: dataDir }, [fresh, old], ['--lost=k1']).ended
  expect([notLost.code, notLost.said]).toEqual([1, expect.stringContaining('not lost')])
  const done = await run({ DATA_DIR: dataDir }, [fresh, old]).ended
  expect([done.code, done.said]).toEqual([0, expect.stringContaining('4 values')])
  const after = await openDatabase({ dataDir })
  expect(await checkEncryptionKeys(after.db, [fresh])).toEqual([])
  await after.close()
  await rm(dataDir, { recursive: true, force: true })
}, 120_000)
