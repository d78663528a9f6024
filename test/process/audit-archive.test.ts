import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gunzipSync } from 'node:zlib'
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openDatabase } from '../../src/db/database.ts'
import { createEncryption } from '../../src/domain/encryption.ts'
import { sealWaiting } from '../../src/payments/audit/seal-activity.ts'
import { writeEntry } from '../support/audit.ts'
import { seedEncrypted } from '../support/encrypted-rows.ts'
import { prepareData } from '../support/pglite-template.ts'
import { adminToken } from '../support/service.ts'
import { compiled, freePort, type RealProcess, spawnService } from './real-process.ts'

/** Real processes archive the audit log, are killed meanwhile, and are backed up and restored. */

const key = { id: 'k1', key: randomBytes(32) }
const oldEntries = 3_000
const inFile = 1_000
const daysAgo = (days: number) => new Date(Date.now() - days * 24 * 3_600_000)

let parent: string
let dataDir: string
let archiveDir: string
let running: RealProcess[]
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'tillbridge-archive-'))
  dataDir = join(parent, 'data')
  archiveDir = join(parent, 'audit')
  running = []
})
afterEach(async () => {
  for (const { child } of running) if (child.exitCode === null) child.kill('SIGKILL')
  await Promise.all(running.map(({ ended }) => ended))
  await rm(parent, { recursive: true, force: true, maxRetries: 5 })
})

const settings = () => ({
  ADMIN_TOKEN: adminToken,
  ENCRYPTION_KEYS: `k1:${key.key.toString('base64')}`,
  DATA_DIR: dataDir,
  AUDIT_ARCHIVE_DIR: archiveDir,
  KEEP_AUDIT_DAYS: '30',
})

async function start(): Promise<RealProcess> {
  const service = spawnService({
    ...settings(),
    PORT: String(await freePort()),
    SYNC_PORT: '0',
    SANDBOX_PORT: String(await freePort()),
  })
  running.push(service)
  return service
}

async function command(name: string, words: string[], more: Record<string, string> = {}) {
  const file = fileURLToPath(new URL(`../../src/commands/${name}.ts`, import.meta.url))
  const env = { PATH: process.env.PATH, NODE_COMPILE_CACHE: compiled, ...settings(), ...more }
  return promisify(execFile)(process.execPath, [file, ...words], { env }).then(
    ({ stdout }) => ({ code: 0, said: stdout }),
    ({ code, stdout, stderr }) => ({ code, said: stdout + stderr }),
  )
}

const archives = async () =>
  (await readdir(archiveDir).catch(() => [])).filter((name) => name.endsWith('.jsonl.gz')).sort()

/** Until the folder holds this many files. */
async function untilArchived(count: number) {
  await expect
    .poll(async () => (await archives()).length, { timeout: 60_000 })
    .toBeGreaterThanOrEqual(count)
}

async function stop({ child, ended }: RealProcess, signal: 'SIGTERM' | 'SIGKILL') {
  child.kill(signal)
  await ended
}

test('a service that is killed while it archives loses and doubles nothing, and a restored backup verifies with the files alone', {
  tags: ['long'],
  timeout: 240_000,
}, async () => {
  await prepareData(dataDir)
  const database = await openDatabase({ dataDir })
  const encryption = createEncryption([key])
  await seedEncrypted(database, [key])
  for (let count = 0; count < oldEntries; count += inFile) {
    await database.transaction(async (trx) => {
      for (let index = 0; index < inFile; index += 1) {
        await writeEntry(encryption, trx, `${count + index}`, daysAgo(31))
      }
    })
  }
  await sealWaiting({ database, encryption })
  await database.close()

  const killed = await start()
  await untilArchived(1)
  await stop(killed, 'SIGKILL')
  const between = await command('verify-audit-log', [])
  expect([between.code, between.said]).toEqual([0, expect.stringContaining('verifies')])
  const last = await start()
  await untilArchived(oldEntries / inFile)
  await wait(500)
  await stop(last, 'SIGTERM')
  const ids = await everyId()
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.length).toBeGreaterThan(oldEntries)

  const file = join(parent, 'one.backup')
  const backup = await command('back-up', [file])
  expect([backup.code, backup.said]).toEqual([
    0,
    expect.stringContaining('the files in AUDIT_ARCHIVE_DIR'),
  ])
  const into = join(parent, 'restored')
  const restored = await command('restore', [file, '--into', into])
  expect([restored.code, restored.said]).toEqual([0, expect.stringContaining(into)])
  const whole = await command('verify-audit-log', [], { DATA_DIR: into })
  expect([whole.code, whole.said]).toEqual([0, expect.stringContaining('verifies')])
  const [first = ''] = await archives()
  await rename(join(archiveDir, first), join(parent, first))
  for (const more of [{ DATA_DIR: into }, {}]) {
    const check = await command('verify-audit-log', [], more)
    expect([check.code, check.said]).toEqual([
      3,
      expect.stringContaining(`entry 1: the archive file ${first} is missing`),
    ])
  }
})

/** Of the files and of the database, each as often as it is there. */
async function everyId(): Promise<string[]> {
  const inFiles = await Promise.all(
    (await archives()).map(async (name) =>
      gunzipSync(await readFile(join(archiveDir, name)))
        .toString()
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).entry.id as string),
    ),
  )
  const database = await openDatabase({ dataDir })
  try {
    const { rows } = await sql<{ id: string }>`select id from activity_log`.execute(database.db)
    return [...inFiles.flat(), ...rows.map(({ id }) => id)]
  } finally {
    await database.close()
  }
}
