import { expect, test } from 'vitest'
import { loadConfig, misspeltSettings } from '../../src/app/config.ts'
import { runCommand } from '../process/real-process.ts'

/** The start names a variable that has no effect because of a misspelt name. */

test.each([
  ['DATABASE_URI', 'DATABASE_URL'],
  ['ENCRYPTION_KEY', 'ENCRYPTION_KEYS'],
  ['MP_WEBHOOK_SECRET', 'MP_WEBHOOK_SECRETS'],
  ['TRUSTED_PROXY', 'TRUST_PROXY'],
  ['ADMINTOKEN', 'ADMIN_TOKEN'],
  ['PROVIDER_TIMEOUT', 'PROVIDER_TIMEOUT_MS'],
  ['SYNC_TOKENS', 'SYNC_TOKEN'],
  ['public_url', 'PUBLIC_URL'],
])('the message names %s, with %s as the likely setting', (name, meant) => {
  expect(misspeltSettings({ [name]: 'x', PATH: '/bin' })).toEqual([{ name, meant }])
})

test('unrelated names, empty values and valid settings are ignored', () => {
  const others = {
    ...{
      PATH: '/bin',
      HOME: '/root',
      HOSTNAME: 'box',
      LOGNAME: 'root',
      PWD: '/',
      SHELL: '/bin/sh',
    },
    ...{ NODE_ENV: 'production', NODE_OPTIONS: '', TZ: 'UTC', LANG: 'C', MAIL: '/var/mail/root' },
    ...{
      PGPASSWORD: 'x',
      POSTGRES_PASSWORD: 'x',
      SHOP_URL: 'https://shop.example',
      ERP_DB_URL: 'x',
    },
    ...{ SMTP_URL: 'smtp://x', MAIL_FROM: 'a@b', DATABASE_URI: '', npm_config_user_agent: 'npm' },
  }
  expect(misspeltSettings(others)).toEqual([])
})

test('a misspelt name is ignored when the right setting is set too', () => {
  const both = { DATABASE_URI: 'x', DATABASE_URL: 'postgres://x/y' }
  expect(misspeltSettings(both)).toEqual([])
})

test('a refused start also names misspelt settings, since one may be the missing one', () => {
  const env = {
    DATABASE_URL: 'postgres://db/till',
    ADMIN_TOKEN: 'a'.repeat(32),
    ENCRYPTION_KEY: 'x',
  }
  expect(() => loadConfig(env)).toThrow(
    /ENCRYPTION_KEYS: is required.*\n {2}ENCRYPTION_KEY: is not a setting; did you mean ENCRYPTION_KEYS\?$/,
  )
})

test('a command names a misspelt setting, since it could use another database', {
  tags: ['long'],
}, async () => {
  const { said } = await runCommand('verify-audit-log', [], {
    DATABASE_URI: 'postgres://db/till',
    DATA_DIR: '/nowhere',
  })
  expect(said).toContain('DATABASE_URI: is not a setting; did you mean DATABASE_URL?\n')
})
