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

test('an empty environment gives a working sandbox on loopback with the documented defaults', () => {
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
    flowsWorkbench: undefined,
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
  ['HOST', '999.1.1.1'],
  ['HOST', '10.1'],
  ['SYNC_HOST', '0x7f'],
  ['SYNC_PUBLIC_URL', 'ftp://x'],
  ['PUBLIC_URL', 'ftp://x'],
  ['PUBLIC_URL', 'http://user:pw@localhost'],
  ['PUBLIC_URL', 'http://localhost/?a=1'],
  ['PUBLIC_URL', 'http:/localhost'],
  ['PUBLIC_URL', 'http://LOCALHOST'],
  ['PUBLIC_URL', 'HTTP://localhost'],
  ['PUBLIC_URL', 'http://localhost/a//b'],
  ['PUBLIC_URL', 'http://localhost/a%20b'],
  ['SYNC_PUBLIC_URL', 'http://LOCALHOST/flujos'],
  ['MP_API_URL', 'https:/api.example.com'],
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
  ['ALERT_QUIET_HOURS', '22:00-07:00 -03:00'],
  ['ALERT_QUIET_HOURS', '22:00-22:00 America/Argentina/Buenos_Aires'],
  ['ALERT_PRIVATE_NETWORK', 'yes'],
  ['METRICS_TOKEN', 'a'.repeat(31)],
  ['METRICS_TOKEN', `${'a'.repeat(32)} b`],
  ['SYNC_TOKEN', 'x'],
  ['SYNC_TOKEN', 'a'.repeat(31)],
  ['SYNC_TOKEN', `${'a'.repeat(32)} b`],
  ['SYNC_AUTH', 'yes'],
  ['MP_WEBHOOK_SECRETS', ','],
  ['MP_WEBHOOK_SECRETS', 'one,,two'],
  ['OAUTH_TARGET_ORIGINS', 'https://erp.example,'],
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
  ['SMTP_URL', 'smtp://'],
  ['SMTP_URL', 'smtp:/mail.example.com'],
  ['SMTP_URL', 'smtp://caja:@mail.example.com'],
  ['ALERT_SLACK_URL', 'https:/hooks.slack.com/x'],
  ['MAIL_FROM', 'nobody'],
  ['MAIL_FROM', '@'],
  ['MAIL_FROM', 'Caja <@shop.example>'],
  ['MAIL_FROM', 'a@b@c'],
  ['TRUST_PROXY', 'true'],
  ['TRUST_PROXY', '10.0.0.0/33'],
  ['TRUST_PROXY', '0.0.0.0/0'],
  ['TRUST_PROXY', '10.0.0.0/1'],
  ['TRUST_PROXY', '10.0.0.0/7'],
  ['TRUST_PROXY', '2001:db8::/8'],
  ['TRUST_PROXY', '::ffff:0:0/96'],
  ['LOG_LEVEL', 'verbose'],
])(
  '%s=%s stops the start; the message names the variable and the allowed values',
  (name, value) => {
    const found = problems({ [name]: value })
    expect(Object.keys(found)).toEqual([name])
    expect(found[name]).toMatch(/must/)
  },
)

test.each([
  ['PROVIDER_TIMEOUT_MS', ['100', '60000']],
  ['SWEEP_INTERVAL_MS', ['100', '3600000']],
  ['POS_CREATE_DELAY_MS', ['0', '60000']],
  ['SEARCH_LAG_MS', ['0', '3600000']],
  ['PORT', ['0', '65535']],
  ['TRUST_PROXY', ['10.0.0.0/32', '10.0.0.0/8', '2001:db8::/128', '2001:db8::/16', 'fc00::/7']],
  ['HOST', ['::1', 'localhost']],
  ['MAIL_FROM', ['a@b', 'Caja <a@b>', '"Caja, centro" <a@b>']],
])('the ends of the range of %s are allowed', (name, values) => {
  for (const value of values) expect(problems({ [name]: value })).toEqual({})
})

test('T1: every bad variable is named at once, single values and combinations together', () => {
  const found = problems({ PORT: 'x', LOG_LEVEL: 'y', SYNC_HOST: '0.0.0.0', MP_CLIENT_ID: '1' })
  expect(Object.keys(found).sort()).toEqual([
    'DATABASE_URL',
    'LOG_LEVEL',
    'MP_CLIENT_SECRET',
    'PORT',
    'SYNC_TOKEN',
  ])
  const needed = problems({ DATABASE_URL: 'postgres://db' })
  expect(Object.keys(needed).sort()).toEqual(['ADMIN_TOKEN', 'DATABASE_URL', 'ENCRYPTION_KEYS'])
  const mail = problems({ ALERT_MAIL_TO: 'a@shop.example', SMTP_URL: 'smtp://', MAIL_FROM: '@' })
  expect(Object.keys(mail).sort()).toEqual(['MAIL_FROM', 'SMTP_URL'])
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
    const found = problems({ ...production, [name]: canary })
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
  expect(loadConfig({ ...live, ALLOW_EMBEDDED_DATABASE: 'true' }).provider).toBe('mercadopago')
})

test('mercadopago needs PostgreSQL, unless a setting names the embedded database', () => {
  const embedded = { ...production, DATABASE_URL: undefined }
  expect(Object.keys(problems(embedded))).toEqual(['DATABASE_URL'])
  expect(problems(embedded).DATABASE_URL).toContain('ALLOW_EMBEDDED_DATABASE=true')
  expect(problems({ ...embedded, ALLOW_EMBEDDED_DATABASE: 'true' })).toEqual({})
  expect(problems({ PROVIDER: 'sandbox' })).toEqual({})
})

test('mercadopago redirects browsers only to https or to this machine', () => {
  const found = problems({ ...production, PUBLIC_URL: 'http://pay.example.com' })
  expect(Object.keys(found)).toEqual(['PUBLIC_URL'])
  expect(Object.keys(problems({ ...production, HOST: '0.0.0.0', PUBLIC_URL: '' }))).toEqual([
    'PUBLIC_URL',
  ])
  expect(problems({ ...production, PUBLIC_URL: 'http://127.0.0.1:3000' })).toEqual({})
})

test('a database address may be written as programs write it, and the message shows the form', () => {
  const written = (value: string) => problems({ PUBLIC_URL: value, PROVIDER: 'sandbox' }).PUBLIC_URL
  expect(written('https:/pay.example.com')).toMatch(
    /^must be written as https:\/\/pay.example.com,/,
  )
  expect(written('https://Pay.Example.com/Caja/')).toMatch(/as https:\/\/pay.example.com\/Caja,/)
  expect(written('https://pay.example.com:443')).toMatch(/as https:\/\/pay.example.com,/)
  expect(written('https://pay.example.com/a/../b')).toMatch(/as https:\/\/pay.example.com\/b,/)
  expect(written('https://pay.example.com/caja-1/v2')).toBe(undefined)
})

test.each([
  ['/', 'pa/ss'],
  ['#', 'pa#ss'],
  ['?', 'p?ss'],
  ['a number and a slash', '12/34'],
  ['each that ends a host, an at sign and a per cent sign', 'a/b#c?d@e%f'],
])('a password with %s works as written', (_, password) => {
  const host = 'db.example:6543'
  const config = loadConfig({
    ...production,
    DATABASE_URL: `postgres://till:${password}@${host}/till?application_name=x`,
    SMTP_URL: `smtps://till:${password}@mail.example`,
  })
  const database = new URL(config.databaseUrl ?? '')
  expect([decodeURIComponent(database.password), database.host]).toEqual([password, host])
  expect([database.pathname, database.search]).toEqual(['/till', '?application_name=x'])
  const mail = new URL(config.smtpUrl ?? '')
  expect([decodeURIComponent(mail.password), mail.host]).toEqual([password, 'mail.example'])
})

test.each([
  'postgres://till:Secr3t%21@db/till',
  'postgres://db:5432/till?user=me@server',
  'postgres://till@db/till?options=a@b',
  'postgres:///till?host=/run/postgresql',
  'postgresql://till:a@b@db/till',
])('a valid address stays unchanged: %s', (DATABASE_URL) => {
  expect(loadConfig({ ...production, DATABASE_URL }).databaseUrl).toBe(DATABASE_URL)
})

test.each(['MP_CLIENT_ID', 'MP_CLIENT_SECRET', 'MP_WEBHOOK_SECRETS'])(
  'mercadopago does not start with the placeholder of the page in %s',
  (name) => {
    expect(Object.keys(problems({ ...production, [name]: '…' }))).toEqual([name])
  },
)

test.each(['MP_CLIENT_ID', 'MP_CLIENT_SECRET'])('mercadopago does not start without %s', (name) => {
  expect(Object.keys(problems({ ...production, [name]: '' }))).toEqual([name])
})

test('mercadopago needs a SEARCH_LAG_MS of at least a minute, since its search returns orders late', () => {
  expect(Object.keys(problems({ ...production, SEARCH_LAG_MS: '59999' }))).toEqual([
    'SEARCH_LAG_MS',
  ])
  expect(problems({ ...production, SEARCH_LAG_MS: '60000' })).toEqual({})
})

test('the service starts without webhook secrets, since it also polls orders', () => {
  expect(problems({ ...production, MP_WEBHOOK_SECRETS: '' })).toEqual({})
})

test.each(['mysql://x/y', 'postgres://', 'postgres://db', 'postgres://db/', 'postgres://db/?x=y'])(
  'DATABASE_URL=%s stops the start: PostgreSQL, host and database must be named',
  (DATABASE_URL) => {
    const found = problems({ ...production, DATABASE_URL })
    expect(Object.keys(found)).toEqual(['DATABASE_URL'])
    expect(found.DATABASE_URL).toMatch(/must/)
  },
)

test('PostgreSQL needs an administrator token and keys of its own', () => {
  const found = problems({ DATABASE_URL: 'postgres://db/till' })
  expect(Object.keys(found).sort()).toEqual(['ADMIN_TOKEN', 'ENCRYPTION_KEYS'])
})

test('the sandbox addresses are on loopback only, and both are set or none', () => {
  const local = { MP_API_URL: 'http://127.0.0.1:3001', MP_AUTH_URL: 'http://localhost:3001' }
  expect(loadConfig(local)).toMatchObject({ provider: 'sandbox', mpApiUrl: local.MP_API_URL })
  expect(Object.keys(problems({ MP_API_URL: local.MP_API_URL }))).toEqual(['MP_AUTH_URL'])
  const foreign = { ...local, MP_API_URL: 'https://api.mercadopago.com' }
  expect(Object.keys(problems(foreign))).toEqual(['MP_API_URL'])
})

test('T38: the control API opens to the network only with a token or with SYNC_AUTH=none', () => {
  expect(Object.keys(problems({ SYNC_HOST: '0.0.0.0' }))).toEqual(['SYNC_TOKEN'])
  expect(problems({ SYNC_HOST: '0.0.0.0', SYNC_TOKEN: 'a'.repeat(32) })).toEqual({})
  expect(problems({ SYNC_HOST: '0.0.0.0', SYNC_AUTH: 'none' })).toEqual({})
  expect(Object.keys(problems({ SYNC_HOST: '0.0.0.0', ADMIN_TOKEN: 'a'.repeat(32) }))).toEqual([
    'SYNC_TOKEN',
  ])
})

test.each([
  ['no host is set', {}, 'open'],
  ['both are loopback', { HOST: '::1', PUBLIC_URL: 'http://localhost:3000' }, 'open'],
  ['the address is public', { PUBLIC_URL: 'https://pay.example', PROVIDER: 'sandbox' }, 'invite'],
  ['the listener is open', { HOST: '0.0.0.0', PUBLIC_URL: 'http://127.0.0.1:3000' }, 'invite'],
  ['a name is listened on', { HOST: 'till.lan', PUBLIC_URL: 'http://127.0.0.1:3000' }, 'invite'],
])(
  'where %s, enrolment has its default, and is open only when both listeners are on loopback',
  (_, env, own) => {
    expect(loadConfig(env).oauthEnrolment).toBe(own)
    expect(loadConfig({ ...env, OAUTH_ENROLMENT: 'invite' }).oauthEnrolment).toBe('invite')
    const found = problems({ ...env, OAUTH_ENROLMENT: 'open' })
    expect(Object.keys(found)).toEqual(own === 'open' ? [] : ['OAUTH_ENROLMENT'])
    if (own === 'invite')
      expect(found.OAUTH_ENROLMENT).toContain('HOST and PUBLIC_URL are loopback')
  },
)

test('PUBLIC_URL follows HOST and PORT', () => {
  expect(loadConfig({ HOST: '::1', PORT: '99' }).publicUrl).toBe('http://[::1]:99')
})

test('a host name may begin with digits or look like a hexadecimal number', () => {
  for (const HOST of ['caja-1.lan', '0xcaja', '3com.example', '10.lan']) {
    expect(problems({ HOST, PROVIDER: 'sandbox' })).toEqual({})
  }
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

test('.env.example lists and explains every setting once with its default, and changes nothing', () => {
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

test('mail alerts need a mail server, and a webhook secret needs an address', () => {
  const mail = { ALERT_MAIL_TO: 'caja@shop.example' }
  expect(Object.keys(problems(mail))).toEqual(['ALERT_MAIL_TO'])
  expect(problems({ ...mail, SMTP_URL: 'smtp://mail', MAIL_FROM: 'a@shop.example' })).toEqual({})
  expect(Object.keys(problems({ ALERT_WEBHOOK_SECRET: 'x'.repeat(16) }))).toEqual([
    'ALERT_WEBHOOK_SECRET',
  ])
})
