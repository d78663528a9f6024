/** @module-tag long */

import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { compiled } from './real-process.ts'

/** Each command explains itself, and refuses options that it does not have, before it does anything. */

const commands: Record<string, string> = {
  backup: 'src/commands/back-up.ts',
  restore: 'src/commands/restore.ts',
  'db:move': 'src/commands/move-database.ts',
  'audit:verify': 'src/commands/verify-audit-log.ts',
  'secrets:rotate': 'src/commands/rotate-secrets.ts',
  'flows:check': 'src/commands/check-flows.ts',
  'flows:new': 'src/commands/new-flow.ts',
  'flows:schema': 'checks/write-flow-schema.ts',
  sandbox: 'src/commands/run-sandbox.ts',
  demo: 'demo/main.ts',
  'till:check': 'demo/till-check/main.ts',
  start: 'src/app/start.js',
}

async function run(file: string, args: string[], settings: Record<string, string> = {}) {
  const base = { PATH: process.env.PATH, NODE_COMPILE_CACHE: compiled }
  const env = { ...base, DATA_DIR: '/nowhere', SANDBOX_PORT: '0', ...settings }
  const options = { env, timeout: 60_000 }
  return promisify(execFile)(process.execPath, [file, ...args], options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  )
}

// A process each, so they are among the long ones.
/** What a developer runs. */
const tools: Record<string, string> = {
  faults: 'test/faults/main.ts',
  'flows:faults': 'test/flow-faults/main.ts',
  mutations: 'test/mutations/main.ts',
  fuzz: 'test/fuzz/main.ts',
  soak: 'test/soak/main.ts',
  bench: 'bench/main.ts',
  'bench -- polls': 'bench/polls.bench.ts',
  'check:paths': 'checks/main.ts',
  'check:image': 'ops/image/check.ts',
}

test('every script of package.json that runs a program of ours is here', () => {
  const { scripts } = packageJson
  // What follows `npm test` is for vitest, and has its help.
  const ours = Object.entries(scripts).filter(
    ([name, line]) => line.startsWith('node ') && name !== 'test',
  )
  const files = new Set(Object.values({ ...commands, ...tools }))
  for (const [, line] of ours) expect(files).toContain(/(\S+\.[tj]s)/.exec(line)?.[1])
})

test.each(Object.entries(tools))(
  'npm run %s has a help, and refuses other options',
  { timeout: 120_000 },
  async (name, file) => {
    const help = await run(file, ['--help'])
    expect([help.code, help.stderr]).toEqual([0, ''])
    for (const part of ['usage: ', name, 'exit codes:', 'example:'])
      expect(help.stdout).toContain(part)
    const refused = await run(file, ['--bogus'])
    expect([refused.code, refused.stdout]).toEqual([2, ''])
    expect(refused.stderr).toContain('usage: ')
    expect(refused.stderr).not.toMatch(/^ {4}at /m)
  },
)

describe.each(Object.entries(commands))('%s', (name, file) => {
  test('--help prints the usage and exits with 0', async () => {
    const { code, stdout, stderr } = await run(file, ['--help'])
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(new RegExp(`^usage: .*npm run ${name}`))
    for (const part of ['exit codes:', 'example:', '  0  ', '  2  ']) expect(stdout).toContain(part)
  })

  test('an option that it does not have is refused with the usage', async () => {
    const { code, stdout, stderr } = await run(file, ['--bogus'])
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(new RegExp(`usage: .*npm run ${name}`))
    expect(stderr).not.toMatch(/^ {4}at /m)
  })
})

test.each([
  ['faults', '--kills', 'ten'],
  ['faults', '--seed', 'j001', '--kills', '1'],
  ['flow-faults', '--runs', '1.5'],
  ['fuzz', '--requests', '0'],
  ['soak', '--flows', ''],
])('%s %s refuses a wrong number', async (name, ...args) => {
  const { code, stdout, stderr } = await run(`test/${name}/main.ts`, args)
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain(`${args[0]} is a whole number`)
})

test.each([
  ['faults', ['--kind', 'bogus'], ['random', 'backup']],
  ['faults', ['--scenarios', '1', '--only', 'bogus'], ['keyed refunds of one amount']],
  ['mutations', ['--by', 'bogus'], ['tests', 'faults', 'flow-faults']],
  ['mutations', ['--by', 'faults', '--only', 'bogus'], ['a new key for every call of a charge']],
  ['fuzz', ['--listener', 'bogus'], ['payment', 'control']],
])('%s %s refuses an unknown name, with the list of names', async (name, args, names) => {
  const { code, stdout, stderr } = await run(`test/${name}/main.ts`, args)
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain(`has no "bogus"`)
  const list = stderr.split('\n').filter((line) => line.startsWith('  '))
  expect(list.length).toBeGreaterThan(1)
  for (const known of names) expect(list).toContain(`  ${known}`)
})

test('mutations by flow fault runs are refused without a PostgreSQL server', async () => {
  const args = ['--by', 'flow-faults']
  const { code, stdout, stderr } = await run('test/mutations/main.ts', args)
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain('TEST_DATABASE_URL')
})

test.each([
  ['restore', ['/tmp'], {}, '/tmp is a folder'],
  ['restore', ['/nowhere', '--into', '/proc/nowhere'], {}, '/proc/nowhere'],
  ['backup', ['/nowhere/file'], {}, 'DATA_DIR'],
  ['flows:new', ['tiendanube', '/proc/nowhere'], {}, '/proc/nowhere'],
  ['flows:check', ['/nowhere'], {}, '/nowhere'],
  ['secrets:rotate', [], {}, 'ENCRYPTION_KEYS'],
  ['audit:verify', [], {}, 'DATA_DIR'],
  ['db:move', [], { DATABASE_URL: 'postgres://db' }, 'DATABASE_URL: must'],
  ['sandbox', [], { DATA_DIR: '/proc/nowhere' }, 'DATA_DIR: must'],
  ['sandbox', [], { SANDBOX_PORT: '80a' }, 'SANDBOX_PORT: must'],
  ['demo', ['--once'], { DATA_DIR: '/proc/nowhere' }, 'DATA_DIR: must'],
  ['demo', ['--once'], { PORT: '80a' }, 'PORT: must'],
  ['start', [], { DATA_DIR: '/proc/nowhere' }, 'DATA_DIR: must'],
])(
  'a mistake of the user ends %s with a message that names it, without a stack: %s %s',
  async (name, args, settings, named) => {
    const { code, stdout, stderr } = await run(commands[name] ?? '', args, settings)
    expect(code).toBe(1)
    expect(stdout + stderr).toContain(named)
    expect(stderr).not.toMatch(/^ {4}at /m)
  },
)

test('a mistake of the user is one line, without a stack', async () => {
  const missing = await run(commands.restore ?? '', ['/nowhere'], { DATA_DIR: '/tmp' })
  expect([missing.code, missing.stderr.trim().split('\n')]).toEqual([
    1,
    [expect.stringContaining("'/nowhere'")],
  ])
})

test('an older Node is named in one line, with the page that brings a newer one, and is not started again', async () => {
  const older =
    'data:text/javascript,Object.defineProperty(process, "versions", { value: { node: "20.20.2" } })'
  const args = ['--import', older, commands.start as string]
  const { code, stdout, stderr } = await promisify(execFile)(process.execPath, args).then(
    () => ({ code: 0, stdout: '', stderr: '' }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  )
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toBe(
    `tillbridge needs Node 24 or newer. ${process.execPath} is Node 20.20.2: \`npm ci\` in the project's folder brings one that \`npm start\` uses; without npm, see docs/how-to/install.md.\n`,
  )
  const unit = await readFile('ops/systemd/tillbridge@.service', 'utf8')
  expect(unit).toContain('\nRestartPreventExitStatus=2\n')
})
