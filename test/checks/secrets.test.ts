import { spawnSync } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tillbridge-secrets-'))
})
afterAll(() => rm(folder, { recursive: true }))

const hex = (bytes: number) => randomBytes(bytes).toString('hex')

test('T48: a planted key, token, password or private key stops the check, which does not repeat it', {
  tags: ['long'],
}, async () => {
  const { privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
  })
  const planted = {
    'key.md': `mk_${hex(32)}`,
    'token.ts': `const token = 'APP_USR-${'1234567890123456'}-112210-${hex(16)}-99887766'`,
    'refresh.json': `{"refresh_token":"TG-${hex(12)}-99887766"}`,
    'settings.env': `DATABASE_URL=postgres://till:${hex(8)}@db.internal:5432/till`,
    'id.pem': privateKey,
    'clean.md': 'mk_… and APP_USR-… are how they begin; postgres://till:…@db/till',
  }
  for (const [name, text] of Object.entries(planted)) await writeFile(join(folder, name), text)
  const files = Object.keys(planted).map((name) => join(folder, name))
  const run = spawnSync(
    process.execPath,
    [join(root, 'node_modules/secretlint/bin/secretlint.js'), '--maskSecrets', ...files],
    { cwd: root, encoding: 'utf8' },
  )
  expect(run.stderr).toBe('')
  expect(run.status).toBe(1)
  const found = Object.keys(planted).filter((name) => run.stdout.includes(join(folder, name)))
  expect(found.toSorted()).toEqual(['id.pem', 'key.md', 'refresh.json', 'settings.env', 'token.ts'])
  for (const text of Object.values(planted)) expect(run.stdout).not.toContain(text)
})
