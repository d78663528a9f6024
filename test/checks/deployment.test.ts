import { spawnSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { settings } from '../../src/app/config-schema.ts'

const path = (file: string) => new URL(`../../${file}`, import.meta.url)
const read = (file: string) => readFileSync(path(file), 'utf8')

const known = new Set(settings.map(({ name }) => name))
/** run-service.ts: the time within which a stop ends by itself. */
const stopWithinSeconds = Number(
  /stopWithinMs = (\d+)_000/.exec(read('src/app/run-service.ts'))?.[1],
)

type Compose = {
  services: Record<
    string,
    {
      image?: string
      environment: Record<string, string>
      env_file?: string[]
      logging?: object
      stop_grace_period?: string
      read_only?: boolean
      cap_drop?: string[]
      security_opt?: string[]
      ports?: string[]
    }
  >
}

test('images are named by their digest, and the image has the Node that the checks ran on', () => {
  const { devDependencies } = JSON.parse(read('package.json'))
  const pinned = /^[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}$/
  const base = /^ARG NODE_IMAGE=(.*)$/m.exec(read('Dockerfile'))?.[1] ?? ''
  expect(base).toMatch(pinned)
  expect(base).toMatch(new RegExp(`^node:${devDependencies.node}-slim@`))
  expect(read('Dockerfile').match(/^FROM .*$/gm)).toEqual([`FROM \${NODE_IMAGE}`])
  const { services } = parse(read('docker-compose.yml')) as Compose
  expect(services.database?.image).toMatch(pinned)
})

test('the container has a user of its own, a read-only root, no capabilities, and the time that a stop takes', () => {
  const dockerfile = read('Dockerfile')
  expect(dockerfile).toMatch(/^USER node$/m)
  expect(dockerfile).toMatch(/^HEALTHCHECK /m)
  // What the build may see: neither settings nor data nor the history.
  expect(read('.dockerignore').split('\n')[0]).toBe('*')
  const { services } = parse(read('docker-compose.yml')) as Compose
  const service = services.tillbridge
  expect(service).toMatchObject({
    read_only: true,
    cap_drop: ['ALL'],
    security_opt: ['no-new-privileges:true'],
  })
  expect(Number.parseInt(service?.stop_grace_period ?? '', 10)).toBeGreaterThan(stopWithinSeconds)
  for (const port of service?.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/)
})

test('the image holds what its commands need', () => {
  const copied = [...read('Dockerfile').matchAll(/^COPY (\w+) \.\/\1$/gm)].map(([, name]) => name)
  const allowed = read('.dockerignore').split('\n')
  // What the service and its commands read beside their own source.
  const needed = globSync('src/**/*.ts', { cwd: path('') }).flatMap((file) =>
    [...read(file).matchAll(/new URL\('(?:\.\.\/)+(\w+)\//g)].map(([, name]) => name),
  )
  expect(needed).toEqual(expect.arrayContaining(['migrations', 'public', 'templates']))
  for (const name of new Set(needed)) if (name !== 'node_modules') expect(copied).toContain(name)
  for (const name of copied) expect(allowed).toContain(`!${name}`)
})

test('compose keeps 500 MB of the log of each service', () => {
  const { services } = parse(read('docker-compose.yml')) as Compose
  for (const { logging } of Object.values(services)) {
    expect(logging).toEqual({
      driver: 'json-file',
      options: { 'max-size': '50m', 'max-file': '10' },
    })
  }
})

test('the journal keeps 500 MB of the log of the systemd unit', () => {
  const [, namespace] = /^LogNamespace=(.*)$/m.exec(read('ops/systemd/tillbridge@.service')) ?? []
  expect(read(`ops/systemd/journald@${namespace}.conf`)).toMatch(/^SystemMaxUse=500M$/m)
  expect(read('docs/how-to/install.md')).toContain(`journalctl --namespace=${namespace}`)
})

test('compose hands on every setting of .env, but for those that the container itself fixes', () => {
  const { services } = parse(read('docker-compose.yml')) as Compose
  const { env_file: files, environment = {} } = services.tillbridge ?? {}
  expect(files).toEqual(['.env'])
  const fixed = Object.entries(environment).filter(([, value]) => !/^\$\{\w+:[?-]/.test(value))
  expect(Object.fromEntries(fixed)).toEqual({
    HOST: '0.0.0.0',
    PORT: '3000',
    SYNC_PORT: '8080',
    DATA_DIR: '/data',
    FLOWS_DIR: '/app/flows',
    CONNECTIONS_FILE: '/config/connections.yaml',
    DATABASE_URL: 'postgres://tillbridge@database:5432/tillbridge',
  })
  // The other ones are those of .env by the same name, and the password.
  for (const [name, value] of Object.entries(environment)) {
    if (name === 'PGPASSWORD') expect(value).toMatch(/^\$\{POSTGRES_PASSWORD:\?/)
    else expect(known).toContain(name)
  }
  for (const name of ['ADMIN_TOKEN', 'ENCRYPTION_KEYS', 'PROVIDER']) {
    expect(environment[name]).toMatch(new RegExp(`^\\$\\{${name}:\\?`))
  }
})

test('the systemd unit has no privileges, writes to its own folder only, and outlasts a stop', () => {
  const lines = read('ops/systemd/tillbridge@.service').split('\n')
  const value = (name: string) =>
    lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1)
  expect({
    user: value('User'),
    privileges: value('NoNewPrivileges'),
    capabilities: value('CapabilityBoundingSet'),
    system: value('ProtectSystem'),
    home: value('ProtectHome'),
    restart: value('Restart'),
    secrets: value('EnvironmentFile'),
  }).toEqual({
    user: 'tillbridge',
    privileges: 'yes',
    capabilities: '',
    system: 'strict',
    home: 'yes',
    restart: 'on-failure',
    secrets: '/etc/tillbridge/tillbridge.env',
  })
  expect(Number.parseInt(value('TimeoutStopSec') ?? '', 10)).toBeGreaterThan(stopWithinSeconds)
  for (const [, name] of (value('Environment') ?? '').matchAll(/(?:^| )([A-Z_]+)=/g)) {
    if (name !== 'NODE_ENV') expect(known).toContain(name)
  }
  expect(value('ExecStart')).toContain(
    JSON.parse(read('package.json'))
      .scripts.start.replace('--env-file-if-exists=.env ', '')
      .slice(4),
  )
})

const analyze = spawnSync('systemd-analyze', ['--version'], { encoding: 'utf8' })
const major = Number(/^systemd (\d+)/.exec(analyze.stdout ?? '')?.[1] ?? 0)
if (major < 252) process.stderr.write('skipped: systemd-analyze 252 is not installed\n')

test.skipIf(major < 252)('systemd calls the unit sound and its exposure low', () => {
  const unit = fileURLToPath(path('ops/systemd/tillbridge@.service'))
  // Ten times the figure of exposure, which is 1.4 of 10: what is left is the network that it is there for.
  const run = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', unit], {
    encoding: 'utf8',
  })
  expect(run.status, run.stdout + run.stderr).toBe(0)
  const folder = mkdtempSync(join(tmpdir(), 'tillbridge-unit-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const copy = join(folder, 'tillbridge@a.service')
  // Its Node need not be on this machine, and the folder of ours may have a blank in its name.
  const node = join(folder, 'node')
  symlinkSync(process.execPath, node)
  writeFileSync(copy, readFileSync(unit, 'utf8').replace('/opt/node/bin/node', node))
  const verified = spawnSync('systemd-analyze', ['verify', copy], { encoding: 'utf8' })
  expect([verified.status, verified.stdout + verified.stderr]).toEqual([0, ''])
})
