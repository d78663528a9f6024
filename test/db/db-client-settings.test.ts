import { expect, test } from 'vitest'
import { isClientSetting, withClientSettings } from '../../src/db/client-settings.ts'

test.each([
  ['postgres://u@h/d', { PGPASSWORD: 'p/?#@' }, `postgres://u:${encodeURIComponent('p/?#@')}@h/d`],
  ['postgres://u:own@h/d', { PGPASSWORD: 'p' }, 'postgres://u:own@h/d'],
  ['postgres://h', { PGUSER: 'u', PGDATABASE: 'd', PGPORT: '6432' }, 'postgres://u@h:6432/d'],
  ['postgres://u@h/d', { PGSSLMODE: 'require' }, 'postgres://u@h/d?sslmode=require'],
  [
    'postgres://u@h/d?sslmode=disable',
    { PGSSLMODE: 'require' },
    'postgres://u@h/d?sslmode=disable',
  ],
  ['postgres://u@h/d', { PGHOST: 'other', HOME: '/' }, 'postgres://u@h/d'],
])('the address %s takes from the variables what it lacks', (url, env, expected) => {
  expect(withClientSettings(url, env)).toBe(expected)
})

test('the variables of the client are known by their beginning', () => {
  const names = ['PGPASSFILE', 'ISC_PASSWORD', 'FIREBIRD_ROLE', 'PAGER', 'PG', 'ISC_DSN']
  expect(names.filter(isClientSetting)).toEqual(['PGPASSFILE', 'ISC_PASSWORD', 'FIREBIRD_ROLE'])
})
