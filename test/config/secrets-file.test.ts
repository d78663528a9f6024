import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, expect, test } from 'vitest'
import { ConfigError } from '../../src/app/config.ts'
import { ensureSecrets } from '../../src/app/secrets-file.ts'

const folders: string[] = []

function dataDir(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tillbridge-secrets-'))
  folders.push(folder)
  return join(folder, 'data')
}

const mode = (path: string) => statSync(path).mode & 0o777

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

test('the first start creates a token and a key; later starts read the same', async () => {
  const dir = dataDir()
  const first = await ensureSecrets(dir)
  expect(first.created).toBe(true)
  expect(first.adminToken).toMatch(/^[0-9a-f]{64}$/)
  expect(first.encryptionKeys.map(({ id, key }) => [id, key.length])).toEqual([['k1', 32]])
  const second = await ensureSecrets(dir)
  expect(second).toEqual({ ...first, created: false })
  expect((await ensureSecrets(dataDir())).adminToken).not.toBe(first.adminToken)
})

test('T19: nobody but the owner can read the file or its folder, also after a change of their permissions', async () => {
  const dir = dataDir()
  const { path } = await ensureSecrets(dir)
  expect([mode(dir), mode(join(dir, 'secrets')), mode(path)]).toEqual([0o700, 0o700, 0o600])
  await chmod(path, 0o644)
  await chmod(join(dir, 'secrets'), 0o755)
  await ensureSecrets(dir)
  expect([mode(join(dir, 'secrets')), mode(path)]).toEqual([0o700, 0o600])
})

test('processes that start together use the same secrets; one creates the file, and no other file remains', {
  tags: ['long'],
}, async () => {
  const dir = dataDir()
  const script = `
    const { ensureSecrets } = await import(${JSON.stringify(new URL('../../src/app/secrets-file.ts', import.meta.url).href)})
    const all = await Promise.all(Array.from({ length: 8 }, () => ensureSecrets(${JSON.stringify(dir)})))
    process.stdout.write(JSON.stringify(all.map((s) => [s.adminToken, s.encryptionKeys[0].key.toString('hex'), s.created])))`
  const runs = await Promise.all(
    [1, 2, 3].map(() =>
      promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]),
    ),
  )
  const results = runs.flatMap(({ stdout }) => JSON.parse(stdout) as [string, string, boolean][])
  expect(results).toHaveLength(24)
  expect(new Set(results.map(([token, key]) => `${token} ${key}`)).size).toBe(1)
  expect(results.filter(([, , created]) => created)).toHaveLength(1)
  expect(readdirSync(join(dir, 'secrets'))).toEqual(['secrets.env'])
})

test('a damaged file stops the start and is not replaced, since a new key decrypts no stored token', async () => {
  const dir = dataDir()
  const { path } = await ensureSecrets(dir)
  for (const text of ['', 'ADMIN_TOKEN=short\n', readFileSync(path, 'utf8').replace('k1:', 'k1')]) {
    writeFileSync(path, text)
    await expect(ensureSecrets(dir)).rejects.toThrow(ConfigError)
    expect(readFileSync(path, 'utf8')).toBe(text)
  }
})
