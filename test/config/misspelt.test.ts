import { expect, test } from 'vitest'
import { loadConfig, misspeltSettings } from '../../src/app/config.ts'
import { runCommand } from '../process/real-process.ts'

/** A variable that nobody reads because of a letter is named at the start. */

test.each([
  ['DATABASE_URI', 'DATABASE_URL'],
  ['ENCRYPTION_KEY', 'ENCRYPTION_KEYS'],
  ['MP_WEBHOOK_SECRET', 'MP_WEBHOOK_SECRETS'],
  ['TRUSTED_PROXY', 'TRUST_PROXY'],
  ['ADMINTOKEN', 'ADMIN_TOKEN'],
  ['PROVIDER_TIMEOUT', 'PROVIDER_TIMEOUT_MS'],
  ['SYNC_TOKENS', 'SYNC_TOKEN'],
  ['public_url', 'PUBLIC_URL'],
])('%s is named, with %s', (name, meant) => {
  expect(misspeltSettings({ [name]: 'x', PATH: '/bin' })).toEqual([{ name, meant }])
})

test('what is no setting, is empty, or is a setting of its own is left alone', () => {
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

test('a setting that is right beside its misspelt form is not hinted at', () => {
  const both = { DATABASE_URI: 'x', DATABASE_URL: 'postgres://x/y' }
  expect(misspeltSettings(both)).toEqual([])
})

test('a start that is refused names it too: the missing setting may be the misspelt one', () => {
  const env = {
    DATABASE_URL: 'postgres://db/till',
    ADMIN_TOKEN: 'a'.repeat(32),
    ENCRYPTION_KEY: 'x',
  }
  expect(() => loadConfig(env)).toThrow(
    /ENCRYPTION_KEYS: is required.*\n {2}ENCRYPTION_KEY: is not a setting; did you mean ENCRYPTION_KEYS\?$/,
  )
})

test('a command names it, so that it does not work on another database in silence', async () => {
  const { said } = await runCommand('verify-audit-log', [], {
    DATABASE_URI: 'postgres://db/till',
    DATA_DIR: '/nowhere',
  })
  expect(said).toContain('DATABASE_URI: is not a setting; did you mean DATABASE_URL?\n')
})
