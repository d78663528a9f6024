import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { folderProblems } from '../../src/app/check-folders.ts'
import { ConfigError, loadConfig, misspeltSettings } from '../../src/app/config.ts'
import { settings, settingsSchema } from '../../src/app/config-schema.ts'

/** Each setting can be set by `.env`, compose and systemd. A bad value and a similar name lead to a message with its name. */

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
const folder = mkdtempSync(join(tmpdir(), 'tillbridge-settings-'))
afterAll(() => rmSync(folder, { recursive: true }))

const token = 'a'.repeat(32)
const key = Buffer.alloc(32, 7).toString('base64')
type Name = keyof typeof settingsSchema.shape

/** By setting: a value other than the default, and a bad one that stops the start beside the others. */
const samples: Record<Name, readonly [good: string, bad: string]> = {
  HOST: ['::1', '999.1.1.1'],
  PORT: ['3100', '70000'],
  SYNC_HOST: ['::1', '10.1'],
  SYNC_PORT: ['8180', 'x'],
  SYNC_PUBLIC_URL: ['https://pay.example/flujos', 'https:/pay.example'],
  PUBLIC_URL: ['https://pay.example/caja', 'http://pay.example'],
  ADMIN_TOKEN: [token, 'short'],
  SYNC_TOKEN: [token, 'short'],
  SYNC_AUTH: ['none', 'yes'],
  METRICS_TOKEN: [token, 'short'],
  DATABASE_URL: ['postgres://till:a/b#c@db/till', 'postgres://db'],
  DATA_DIR: [folder, '/proc/nowhere'],
  ALLOW_EMBEDDED_DATABASE: ['true', '1'],
  ENCRYPTION_KEYS: [`k1:${key}`, 'k1:short'],
  PROVIDER: ['mercadopago', 'stripe'],
  OAUTH_ENROLMENT: ['invite', 'open'],
  OAUTH_TARGET_ORIGINS: ['https://erp.example', '*'],
  MP_CLIENT_ID: ['1', ''],
  MP_CLIENT_SECRET: ['secret', ''],
  MP_WEBHOOK_SECRETS: ['one,two', ','],
  MP_API_URL: ['https://api.example', 'http://api.example'],
  MP_AUTH_URL: ['https://auth.example', 'http://auth.example'],
  MP_POS_API: ['v1', 'v3'],
  MP_SEND_TICKET_NUMBER: ['false', 'no'],
  PROVIDER_TIMEOUT_MS: ['9000', '5'],
  SEARCH_LAG_MS: ['70000', '0'],
  SANDBOX_PORT: ['3101', '-1'],
  POS_CREATE_DELAY_MS: ['1', '60001'],
  SWEEP_INTERVAL_MS: ['3000', '1'],
  DUPLICATE_ORDER_GUARD: ['off', 'true'],
  KEEP_ORDERS_DAYS: ['400', '30'],
  KEEP_TIMELINE_DAYS: ['31', '0'],
  KEEP_WEBHOOKS_DAYS: ['91', '1'],
  KEEP_AUDIT_DAYS: ['400', '29'],
  ADMIN_MASK_TOKENS: ['true', '1'],
  RATE_LIMIT_PER_SECOND: ['100', '0'],
  AUTH_FAILURES_PER_MINUTE: ['50', '0'],
  FLOWS_DIR: [join(folder, 'flows'), '/etc/passwd'],
  CONNECTIONS_FILE: [join(folder, 'connections.yaml'), join(folder, 'flows/connections.yaml')],
  FLOWS_START_PAUSED: ['true', '1'],
  FLOW_ITEMS_IN_MEMORY: ['0', '-1'],
  FLOWS_WORKBENCH: ['false', '1'],
  SMTP_URL: ['smtp://u:a/b#c@mail.example', 'smtp://'],
  MAIL_FROM: ['Caja <caja@shop.example>', '@'],
  ALERT_MAIL_TO: ['caja@shop.example', 'nobody'],
  ALERT_SLACK_URL: ['https://hooks.example/x', 'hooks.example'],
  ALERT_WEBHOOK_URL: ['https://alerts.example', 'ftp://alerts.example'],
  ALERT_WEBHOOK_SECRET: ['s'.repeat(16), 'short'],
  ALERT_LANGUAGE: ['en', 'de'],
  ALERT_QUIET_HOURS: ['22:00-07:00 UTC', '22:00-22:00 UTC'],
  ALERT_PRIVATE_NETWORK: ['true', '1'],
  EVENTS_PRIVATE_NETWORK: ['true', '1'],
  SIGN_IN_HOSTS: ['tills.vpn.example', 'https://tills.vpn.example'],
  TRUST_PROXY: ['10.0.0.0/8', '10.0.0.0/1'],
  OTEL_EXPORTER_OTLP_ENDPOINT: ['http://collector:4318', 'collector:4318'],
  OTEL_EXPORTER_OTLP_HEADERS: ['a=b', 'a'],
  LOG_LEVEL: ['debug', 'loud'],
}
const good = Object.fromEntries(Object.entries(samples).map(([name, [value]]) => [name, value]))
const names = Object.keys(settingsSchema.shape) as Name[]

test('the test values are valid together, and each differs from its default', () => {
  expect(() => loadConfig(good, folderProblems)).not.toThrow()
  for (const one of settings)
    expect([one.name, good[one.name]]).not.toEqual([one.name, one.default])
})

/** The environment of a process that `npm start` starts with this `.env`. */
function byEnvFile(): Record<string, string> {
  const file = join(folder, '.env')
  writeFileSync(file, names.map((name) => `${name}="${good[name]}"\n`).join(''))
  const output = execFileSync(
    process.execPath,
    [`--env-file-if-exists=${file}`, '-p', 'JSON.stringify(process.env)'],
    { env: { PATH: process.env.PATH } },
  )
  return JSON.parse(output.toString())
}

/** The environment that compose makes: the files first, then `environment`, with the variables of `.env`. */
function byCompose(): Record<string, string> {
  const { services } = parse(read('docker-compose.yml'))
  const { env_file: files, environment } = services.tillbridge
  const fromFile = files.includes('.env') ? good : {}
  const put = (text: string) =>
    text.replace(/\$\{(\w+)(?::[?-]([^}]*))?\}/g, (_, name, other) => good[name] ?? other)
  const own = Object.entries(environment).map(([name, text]) => [name, put(String(text))])
  return { ...fromFile, ...Object.fromEntries(own) }
}

/** The environment that systemd makes: `Environment=` first, then the file. */
function bySystemd(): Record<string, string> {
  const unit = read('ops/systemd/tillbridge@.service')
  const own = [...unit.matchAll(/^Environment=(.*)$/gm)].flatMap(([, line = '']) => line.split(' '))
  const hasFile = /^EnvironmentFile=\/etc\/tillbridge\/tillbridge.env$/m.test(unit)
  return { ...Object.fromEntries(own.map((pair) => pair.split('='))), ...(hasFile ? good : {}) }
}

/** Values that docker-compose.yml fixes, whatever `.env` has. */
const ofContainer = [
  ...['HOST', 'PORT', 'SYNC_PORT', 'DATA_DIR', 'FLOWS_DIR', 'CONNECTIONS_FILE', 'DATABASE_URL'],
]
const ways = { env: byEnvFile(), compose: byCompose(), systemd: bySystemd() }

describe.each(names)('%s', (name) => {
  test('is set by .env, by compose and by systemd', () => {
    expect([name, ways.env[name]]).toEqual([name, good[name]])
    expect([name, ways.systemd[name]]).toEqual([name, good[name]])
    if (!ofContainer.includes(name)) expect([name, ways.compose[name]]).toEqual([name, good[name]])
    else expect(ways.compose[name]).toBeDefined()
  })

  test('stops the start when its value is bad, and the message names it', () => {
    // With PostgreSQL the service writes nothing there.
    const beside = name === 'DATA_DIR' ? { ...good, DATABASE_URL: '' } : good
    let named: string[] = []
    try {
      loadConfig({ ...beside, [name]: samples[name][1] }, folderProblems)
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      named = error.problems.map(({ variable }) => variable)
    }
    expect(named).toEqual([name])
  })

  test('is suggested for a similar name', () => {
    expect(misspeltSettings({ [`${name}S`]: 'x' })).toEqual([{ name: `${name}S`, meant: name }])
  })
})
