/** @module-tag long */

import { randomBytes } from 'node:crypto'
import { access, cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import type { EncryptionKey } from '../../src/domain/encryption.ts'
import { needsPostgres, openPostgresClone, postgresUrl } from '../support/database.ts'
import { encryptedRows, seedEncrypted } from '../support/encrypted-rows.ts'
import { prepareData } from '../support/pglite-template.ts'
import { adminToken } from '../support/service.ts'
import { freePort, type RealProcess, spawnService, startService } from './real-process.ts'

const right = newKey('k1')
const started: RealProcess[] = []
let dataDir: string
let folder: string
let encrypted: unknown

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tillbridge-keys-'))
  dataDir = join(folder, 'data')
  await prepareData(dataDir)
  const database = await openDatabase({ dataDir })
  await seedEncrypted(database, [right])
  encrypted = await encryptedRows(database)
  await database.close()
  await cp(dataDir, join(folder, 'without-secrets'), { recursive: true })
})
afterAll(async () => {
  for (const { child } of started) if (child.exitCode === null) child.kill('SIGKILL')
  await Promise.all(started.map(({ ended }) => ended))
  await rm(folder, { recursive: true, force: true })
})

function newKey(id: string): EncryptionKey {
  return { id, key: randomBytes(32) }
}

const inWords = (keys: EncryptionKey[]) =>
  keys.map(({ id, key }) => `${id}:${key.toString('base64')}`).join(',')

async function settings(keys: EncryptionKey[], more: Record<string, string>) {
  return {
    PORT: String(await freePort()),
    SYNC_PORT: '0',
    SANDBOX_PORT: String(await freePort()),
    DATA_DIR: dataDir,
    ADMIN_TOKEN: adminToken,
    ENCRYPTION_KEYS: inWords(keys),
    ...more,
  }
}

async function refusal(env: Record<string, string>): Promise<string> {
  const running = spawnService(env)
  started.push(running)
  // One that starts after all would never end.
  const served = setInterval(() => {
    if (running.stdout().includes('is ready')) running.child.kill('SIGKILL')
  }, 50)
  expect(await running.ended).toBe(1)
  clearInterval(served)
  expect(running.stderr()).not.toContain('    at ')
  expect(running.stderr()).not.toContain(env.ENCRYPTION_KEYS?.split(':')[1]?.slice(0, 20) ?? '?')
  return running.stderr()
}

const databases: [name: string, isThere: boolean, open: () => Promise<Opened>][] = [
  [
    'the embedded database',
    true,
    async () => {
      const rows = async () => {
        const again = await openDatabase({ dataDir })
        const found = await encryptedRows(again)
        await again.close()
        return found
      }
      return { env: {}, before: encrypted, rows }
    },
  ],
  [
    `PostgreSQL (${needsPostgres})`,
    postgresUrl !== undefined,
    async () => {
      const { database, url } = await openPostgresClone(postgresUrl ?? '')
      await seedEncrypted(database, [right])
      const before = await encryptedRows(database)
      return { env: { DATABASE_URL: url }, before, rows: () => encryptedRows(database), database }
    },
  ],
]
type Opened = {
  env: Record<string, string>
  before: unknown
  rows: () => Promise<unknown>
  database?: Database
}

describe.each(databases)('on %s', (_name, isThere, open) => {
  test.skipIf(!isThere)(
    'a start without a key of stored values is refused with the name of the key, and changes nothing',
    async () => {
      const { env, before, rows, database } = await open()
      const missing = await refusal(await settings([newKey('k2')], env))
      expect(missing).toMatch(/\bk1\b.*missing|missing.*\bk1\b/)
      expect(missing).toContain('ENCRYPTION_KEYS')
      const wrong = await refusal(await settings([newKey('k2'), newKey('k1')], env))
      expect(wrong).toMatch(/\bk1\b.*other bytes/)
      expect(await rows()).toEqual(before)

      const added = await startService(await settings([newKey('k2'), right], env))
      started.push(added)
      added.child.kill('SIGTERM')
      await added.ended
      await database?.close()
    },
    120_000,
  )
})

test('a lost file of secrets is not replaced by a new one that cannot open anything', async () => {
  const lost = join(folder, 'without-secrets')
  const env = await settings([right], { DATA_DIR: lost })
  const said = await refusal({ ...env, ENCRYPTION_KEYS: '' })
  const file = join(lost, 'secrets', 'secrets.env')
  expect(said).toContain(file)
  expect(said).toMatch(/\bk1\b/)
  await expect(access(file)).rejects.toThrow('ENOENT')
}, 60_000)
