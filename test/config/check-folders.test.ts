import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { folderProblems } from '../../src/app/check-folders.ts'
import { loadConfig } from '../../src/app/config.ts'
import { spawnService } from '../process/real-process.ts'
import { prepareData } from '../support/pglite-template.ts'

/** A folder that the service cannot use stops the start before anything is created. The message names the setting. */

let folder = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tillbridge-places-'))
  await mkdir(join(folder, 'flows'))
  await writeFile(join(folder, 'file'), '')
  await symlink(join(folder, 'nowhere'), join(folder, 'link'))
})
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))

const postgres = {
  DATABASE_URL: 'postgres://db/till',
  ADMIN_TOKEN: 'a'.repeat(32),
  ENCRYPTION_KEYS: `k1:${Buffer.alloc(32, 7).toString('base64')}`,
}
const real = {
  ...postgres,
  PROVIDER: 'mercadopago',
  PUBLIC_URL: 'https://pay.example',
  MP_CLIENT_ID: '1',
  MP_CLIENT_SECRET: 'secret',
}
const named = (env: Record<string, string>) =>
  folderProblems(loadConfig(env)).map(({ variable, message }) => {
    expect(message).toMatch(/^must be a folder/)
    return variable
  })

test.each(['file', 'file/below', 'link'])('DATA_DIR cannot be %s', (name) => {
  expect(named({ DATA_DIR: join(folder, name) })).toEqual(['DATA_DIR'])
})

test('DATA_DIR cannot be a folder without permission to write', () => {
  expect(named({ DATA_DIR: '/proc/tillbridge' })).toEqual(['DATA_DIR'])
})

test('DATA_DIR may exist or not, and the check leaves no file behind', async () => {
  const before = await readdir(folder, { recursive: true })
  for (const name of ['.', 'new', 'new/and/below']) {
    expect(named({ DATA_DIR: join(folder, name) })).toEqual([])
  }
  expect(await readdir(folder, { recursive: true })).toEqual(before)
})

test('DATA_DIR may be anything when the service writes nothing there', () => {
  const DATA_DIR = join(folder, 'file')
  expect(named({ ...real, DATA_DIR })).toEqual([])
  expect(named({ ...postgres, DATA_DIR, PROVIDER: 'sandbox' })).toEqual(['DATA_DIR'])
})

test('FLOWS_DIR must be a folder or absent', () => {
  const at = (name: string) => named({ DATA_DIR: folder, FLOWS_DIR: join(folder, name) })
  expect(at('file')).toEqual(['FLOWS_DIR'])
  expect(at('file/below')).toEqual(['FLOWS_DIR'])
  expect(at('flows')).toEqual([])
  expect(at('not-there')).toEqual([])
})

test('a refused start lists all problems in one message, without a stack', {
  tags: ['long'],
}, async () => {
  const service = spawnService({
    HOST: '999.1.1.1',
    PUBLIC_URL: 'https:/Pay.example',
    DATA_DIR: '/proc/tillbridge',
    FLOWS_DIR: join(folder, 'file'),
    TRUST_PROXY: '10.0.0.0/1',
    SMTP_URL: 'smtp://',
    MAIL_FROM: '@',
    ALERT_QUIET_HOURS: '22:00-22:00 America/Argentina/Buenos_Aires',
    MP_WEBHOOK_SECRETS: ',',
    LOG_LEVEL: 'loud',
  })
  expect(await service.ended).toBe(1)
  const lines = service.stderr().trim().split('\n')
  expect(lines[0]).toBe('The settings are not usable:')
  expect(lines.slice(1).map((line) => /^ {2}(\w+): must /.exec(line)?.[1])).toEqual([
    'HOST',
    'PUBLIC_URL',
    'MP_WEBHOOK_SECRETS',
    'SMTP_URL',
    'MAIL_FROM',
    'ALERT_QUIET_HOURS',
    'TRUST_PROXY',
    'LOG_LEVEL',
    'DATA_DIR',
    'FLOWS_DIR',
  ])
  expect(service.stdout()).toBe('')
})

test('a start names the setting of an address that is not of this machine, whatever the port', {
  tags: ['long'],
}, async () => {
  const DATA_DIR = join(folder, 'data')
  await prepareData(DATA_DIR)
  for (const PORT of ['0', '1']) {
    const service = spawnService({
      HOST: '203.0.113.5',
      PORT,
      PROVIDER: 'sandbox',
      DATA_DIR,
      SANDBOX_PORT: '0',
    })
    expect(await service.ended).toBe(1)
    expect(service.stderr().trim()).toMatch(
      /^The payment API cannot listen on 203.0.113.5:\d \(HOST and PORT\).*$/,
    )
  }
})
