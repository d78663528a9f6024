import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { expect, test } from 'vitest'
import { ConfigError, loadConfig } from '../../src/app/config.ts'
import { isLoopback, settings } from '../../src/app/config-schema.ts'

const key = Buffer.alloc(32, 7).toString('base64')
const live = {
  MP_CLIENT_ID: '123456',
  MP_CLIENT_SECRET: 'canary-client-secret',
  MP_WEBHOOK_SECRETS: 'canary-hook-1,canary-hook-2',
}
const production = {
  ...live,
  PROVIDER: 'mercadopago',
  PUBLIC_URL: 'https://pay.example.com/',
  DATABASE_URL: 'postgres://till:canary-db-password@db/till',
  ADMIN_TOKEN: 'a'.repeat(32),
  ENCRYPTION_KEYS: `k2:${key},k1:${Buffer.alloc(32, 1).toString('base64')}`,
}

function problems(env: Record<string, string | undefined>): Record<string, string> {
  try {
    loadConfig(env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const { variable, message } of error.problems) {
      expect(error.message).toContain(`${variable}: ${message}`)
    }
    return Object.fromEntries(error.problems.map(({ variable, message }) => [variable, message]))
  }
  return {}
}

test('an empty environment is a working sandbox on loopback with the documented defaults', () => {
  const config = loadConfig({})
  expect(config).toMatchObject({
    host: '127.0.0.1',
    port: 3000,
    syncHost: '127.0.0.1',
    syncPort: 8080,
    publicUrl: 'http://127.0.0.1:3000',
    publicIsLoopback: true,
    adminToken: undefined,
    encryptionKeys: undefined,
    databaseUrl: undefined,
    dataDir: './data',
    provider: 'sandbox',
    mpApiUrl: undefined,
    mpAuthUrl: undefined,
    oauthEnrolment: 'open',
    providerTimeoutMs: 10_000,
    sandboxPort: 3001,
    flowsDir: './flows',
    posCreateDelayMs: 2000,
    sweepIntervalMs: 2000,
    mpPosApi: 'v2',
    mpSendTicketNumber: true,
    adminMaskTokens: false,
    duplicateOrderGuard: true,
    rateLimitPerSecond: 200,
    authFailuresPerMinute: 60,
    flowsStartPaused: false,
    trustProxy: [],
    logLevel: 'info',
    syncAuth: 'auto',
  })
  expect(Object.isFrozen(config)).toBe(true)
})

test('a production environment is read as given', () => {
  const config = loadConfig({
    ...production,
    TRUST_PROXY: 'loopback, 10.0.0.0/8,2001:db8::1',
    OAUTH_TARGET_ORIGINS: 'https://erp.example.com, http://localhost:5173/',
    FLOWS_START_PAUSED: 'true',
  })
  expect(config).toMatchObject({
    publicUrl: 'https://pay.example.com',
    provider: 'mercadopago',
    oauthEnrolment: 'invite',
    mpApiUrl: 'https://api.mercadopago.com',
    mpAuthUrl: 'https://auth.mercadopago.com',
    mpWebhookSecrets: ['canary-hook-1', 'canary-hook-2'],
    trustProxy: ['loopback', '10.0.0.0/8', '2001:db8::1'],
    oauthTargetOrigins: ['https://erp.example.com', 'http://localhost:5173'],
    flowsStartPaused: true,
  })
  expect(config.encryptionKeys?.map(({ id }) => id)).toEqual(['k2', 'k1'])
  expect(config.encryptionKeys?.[0]?.key).toEqual(Buffer.alloc(32, 7))
})

test('an empty or blank variable counts as unset', () => {
  const blank = Object.fromEntries(settings.map(({ name }) => [name, '  ']))
  expect(loadConfig(blank)).toEqual(loadConfig({}))
})

test.each([
  ['PORT', '65536'],
  ['PORT', '-1'],
  ['PORT', '80a'],
  ['PORT', '1e3'],
  ['HOST', 'http://x'],
  ['HOST', '127.0.0.1:3000'],
  ['SYNC_PUBLIC_URL', 'ftp://x'],
  ['PUBLIC_URL', 'ftp://x'],
  ['PUBLIC_URL', 'http://user:pw@localhost'],
  ['PUBLIC_URL', 'http://localhost/?a=1'],
  ['ADMIN_TOKEN', 'a'.repeat(31)],
  ['ADMIN_TOKEN', `${'a'.repeat(32)} b`],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318'],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'authorization'],
  ['ALERT_MAIL_TO', 'nobody'],
  ['ALERT_SLACK_URL', 'hooks.slack.com/x'],
  ['ALERT_WEBHOOK_URL', 'ftp://hook.example'],
  ['ALERT_WEBHOOK_SECRET', 'short'],
  ['ALERT_WEBHOOK_SECRET', 'whsec_not base64 at all'],
  ['ALERT_LANGUAGE', 'de'],
  ['ALERT_QUIET_HOURS', '22-7'],
  ['ALERT_QUIET_HOURS', '22:00-07:00 Nowhere/City'],
  ['ALERT_PRIVATE_NETWORK', 'yes'],
  ['METRICS_TOKEN', 'a'.repeat(31)],
  ['METRICS_TOKEN', `${'a'.repeat(32)} b`],
  ['SYNC_TOKEN', 'x'],
  ['SYNC_TOKEN', 'a'.repeat(31)],
  ['SYNC_TOKEN', `${'a'.repeat(32)} b`],
  ['SYNC_AUTH', 'yes'],
  ['DATABASE_URL', 'mysql://x/y'],
  ['ENCRYPTION_KEYS', 'k1:AAAA'],
  ['ENCRYPTION_KEYS', `k1:${key},k1:${key}`],
  ['ENCRYPTION_KEYS', `k 1:${key}`],
  ['ENCRYPTION_KEYS', `${'k'.repeat(33)}:${key}`],
  ['ENCRYPTION_KEYS', ','],
  ['PROVIDER', 'stripe'],
  ['OAUTH_ENROLMENT', 'closed'],
  ['OAUTH_TARGET_ORIGINS', 'http://erp.example.com'],
  ['OAUTH_TARGET_ORIGINS', 'https://erp.example.com/path'],
  ['OAUTH_TARGET_ORIGINS', '*'],
  ['MP_API_URL', 'http://api.example.com'],
  ['PROVIDER_TIMEOUT_MS', '99'],
  ['PROVIDER_TIMEOUT_MS', '60001'],
  ['SWEEP_INTERVAL_MS', '99'],
  ['SWEEP_INTERVAL_MS', '3600001'],
  ['POS_CREATE_DELAY_MS', '60001'],
  ['SEARCH_LAG_MS', '3600001'],
  ['MP_POS_API', 'v3'],
  ['MP_SEND_TICKET_NUMBER', 'TRUE'],
  ['MP_SEND_TICKET_NUMBER', '1'],
  ['DUPLICATE_ORDER_GUARD', 'true'],
  ['RATE_LIMIT_PER_SECOND', '0'],
  ['SMTP_URL', 'mail.example.com'],
  ['MAIL_FROM', 'nobody'],
  ['TRUST_PROXY', 'true'],
  ['TRUST_PROXY', '10.0.0.0/33'],
  ['TRUST_PROXY', '0.0.0.0/0'],
  ['LOG_LEVEL', 'verbose'],
])('%s=%s stops the start and is named with what is allowed', (name, value) => {
  const found = problems({ [name]: value })
  expect(Object.keys(found)).toEqual([name])
  expect(found[name]).toMatch(/must/)
})

test.each([
  ['PROVIDER_TIMEOUT_MS', ['100', '60000']],
  ['SWEEP_INTERVAL_MS', ['100', '3600000']],
  ['POS_CREATE_DELAY_MS', ['0', '60000']],
  ['SEARCH_LAG_MS', ['0', '3600000']],
  ['PORT', ['0', '65535']],
  ['TRUST_PROXY', ['10.0.0.0/32', '2001:db8::/128']],
  ['HOST', ['::1', 'localhost']],
])('the ends of the range of %s are allowed', (name, values) => {
  for (const value of values) expect(problems({ [name]: value })).toEqual({})
})

test('T1: every bad variable is named at once, single values and rules together', () => {
  const found = problems({ PORT: 'x', LOG_LEVEL: 'y', SYNC_HOST: '0.0.0.0', MP_CLIENT_ID: '1' })
  expect(Object.keys(found).sort()).toEqual(['LOG_LEVEL', 'MP_CLIENT_SECRET', 'PORT', 'SYNC_TOKEN'])
})

test('T19: a message repeats what was wrong, but never the value of a secret', () => {
  expect(problems({ PORT: '80a' }).PORT).toContain('"80a"')
  const canary = 'canary 5ecret'
  for (const name of [
    'ADMIN_TOKEN',
    'SYNC_TOKEN',
    'METRICS_TOKEN',
    'DATABASE_URL',
    'ENCRYPTION_KEYS',
    'SMTP_URL',
  ]) {
    const found = problems({ [name]: canary })
    expect(Object.keys(found)).toEqual([name])
    expect(JSON.stringify(found)).not.toContain('5ecret')
  }
})

test('PROVIDER must be named when the service is reachable from outside', () => {
  const { PROVIDER: _named, ...unnamed } = production
  expect(Object.keys(problems(unnamed))).toEqual(['PROVIDER'])
  expect(Object.keys(problems({ PUBLIC_URL: 'http://10.0.0.5:3000' }))).toEqual(['PROVIDER'])
  expect(Object.keys(problems({ HOST: '0.0.0.0' }))).toEqual(['PROVIDER'])
  expect(problems({ PUBLIC_URL: 'http://10.0.0.5:3000', PROVIDER: 'sandbox' })).toEqual({})
})

test('T46: no variable, when it gets lost, turns a live service into the sandbox', () => {
  for (const lost of Object.keys(production)) {
    const env = { ...production, [lost]: undefined }
    const found = problems(env)
    if (Object.keys(found).length === 0) expect(loadConfig(env).provider).toBe('mercadopago')
  }
  expect(loadConfig(live).provider).toBe('mercadopago')
})

test.each(['MP_CLIENT_ID', 'MP_CLIENT_SECRET'])('mercadopago does not start without %s', (name) => {
  expect(Object.keys(problems({ ...production, [name]: '' }))).toEqual([name])
})

test('what the real provider may not show yet is never taken for read', () => {
  expect(Object.keys(problems({ ...production, SEARCH_LAG_MS: '59999' }))).toEqual([
    'SEARCH_LAG_MS',
  ])
  expect(problems({ ...production, SEARCH_LAG_MS: '60000' })).toEqual({})
})

test('without webhook secrets orders are still polled: the service starts', () => {
  expect(problems({ ...production, MP_WEBHOOK_SECRETS: '' })).toEqual({})
})

test('PostgreSQL wants its own administrator token and keys', () => {
  const found = problems({ DATABASE_URL: 'postgres://db/till' })
  expect(Object.keys(found).sort()).toEqual(['ADMIN_TOKEN', 'ENCRYPTION_KEYS'])
})

test('the sandbox is looked for on loopback only, and both of its addresses are given or none', () => {
  const local = { MP_API_URL: 'http://127.0.0.1:3001', MP_AUTH_URL: 'http://localhost:3001' }
  expect(loadConfig(local)).toMatchObject({ provider: 'sandbox', mpApiUrl: local.MP_API_URL })
  expect(Object.keys(problems({ MP_API_URL: local.MP_API_URL }))).toEqual(['MP_AUTH_URL'])
  const foreign = { ...local, MP_API_URL: 'https://api.mercadopago.com' }
  expect(Object.keys(problems(foreign))).toEqual(['MP_API_URL'])
})

test('T38: the control API opens to the network only with a token or on explicit word', () => {
  expect(Object.keys(problems({ SYNC_HOST: '0.0.0.0' }))).toEqual(['SYNC_TOKEN'])
  expect(problems({ SYNC_HOST: '0.0.0.0', SYNC_TOKEN: 'a'.repeat(32) })).toEqual({})
  expect(problems({ SYNC_HOST: '0.0.0.0', SYNC_AUTH: 'none' })).toEqual({})
  expect(Object.keys(problems({ SYNC_HOST: '0.0.0.0', ADMIN_TOKEN: 'a'.repeat(32) }))).toEqual([
    'SYNC_TOKEN',
  ])
})

test.each([
  ['nothing is said', {}, 'open'],
  ['both are loopback', { HOST: '::1', PUBLIC_URL: 'http://localhost:3000' }, 'open'],
  ['the address is public', { PUBLIC_URL: 'https://pay.example', PROVIDER: 'sandbox' }, 'invite'],
  ['the listener is open', { HOST: '0.0.0.0', PUBLIC_URL: 'http://127.0.0.1:3000' }, 'invite'],
  ['a name is listened on', { HOST: 'till.lan', PUBLIC_URL: 'http://127.0.0.1:3000' }, 'invite'],
])('where %s, enrolment is so by itself, and open only where both are loopback', (_, env, own) => {
  expect(loadConfig(env).oauthEnrolment).toBe(own)
  expect(loadConfig({ ...env, OAUTH_ENROLMENT: 'invite' }).oauthEnrolment).toBe('invite')
  const found = problems({ ...env, OAUTH_ENROLMENT: 'open' })
  expect(Object.keys(found)).toEqual(own === 'open' ? [] : ['OAUTH_ENROLMENT'])
  if (own === 'invite') expect(found.OAUTH_ENROLMENT).toContain('HOST and PUBLIC_URL are loopback')
})

test('PUBLIC_URL follows HOST and PORT', () => {
  expect(loadConfig({ HOST: '::1', PORT: '99' }).publicUrl).toBe('http://[::1]:99')
})

test.each([
  ['127.0.0.1', true],
  ['127.9.9.9', true],
  ['::1', true],
  ['[::1]', true],
  ['LOCALHOST', true],
  ['127.0.0.1.evil.example', false],
  ['localhost.evil.example', false],
  ['0.0.0.0', false],
  ['10.0.0.1', false],
  ['::', false],
])('%s is loopback: %s', (name, expected) => {
  expect(isLoopback(name)).toBe(expected)
})

test('.env.example lists every setting once with its default, explains it, and changes nothing', () => {
  const text = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8')
  const names = [...text.matchAll(/^([A-Z_]+)=/gm)].map((match) => match[1])
  expect(names).toEqual(settings.map(({ name }) => name))
  const values = parseEnv(text)
  for (const setting of settings) {
    expect([setting.name, values[setting.name]]).toEqual([setting.name, setting.default])
    expect(text).toContain(`# ${setting.meaning}\n${setting.name}=`)
  }
  expect(loadConfig(values)).toEqual(loadConfig({}))
})

test('alerts by mail need a mail server, and a secret without an address is a mistake', () => {
  const mail = { ALERT_MAIL_TO: 'caja@shop.example' }
  expect(Object.keys(problems(mail))).toEqual(['ALERT_MAIL_TO'])
  expect(problems({ ...mail, SMTP_URL: 'smtp://mail', MAIL_FROM: 'a@shop.example' })).toEqual({})
  expect(Object.keys(problems({ ALERT_WEBHOOK_SECRET: 'x'.repeat(16) }))).toEqual([
    'ALERT_WEBHOOK_SECRET',
  ])
})
