import { expect, test } from 'vitest'
import { misspeltSettings } from '../../src/app/config.ts'

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
