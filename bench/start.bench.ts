import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '../test/process/real-process.ts'
import { prepareData } from '../test/support/pglite-template.ts'
import { adminToken } from '../test/support/service.ts'
import { processorMs, quantile, say } from './bench-service.ts'
import { createDatabase } from './peer/contenders.ts'
import { wholeOptions } from './whole-options.ts'

// How long does a start take on an embedded database that exists? From the beginning of the process to the line of the log
// that says that it is ready, with the processor time, beside a process that only opens the database; in turns. On
// PostgreSQL: from the start that follows `kill -9` to the first good answer of GET /health.
// Run: npm run bench -- start [--rounds n]

const { rounds } = wholeOptions({ rounds: 7 })
const root = fileURLToPath(new URL('..', import.meta.url))

/** A process that is killed later has taken the lead of the flows, with a lease that its follower finds. */
const leadsAfterMs = 2_000

type Start = { ms: number; cpuMs: number }

/** Runs Node until it writes `ready`, then ends it. */
async function start(ready: string, args: string[], env: Record<string, string>): Promise<Start> {
  const startedAt = performance.now()
  const child = spawn(process.execPath, args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH, ...env },
  })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const isReady = Promise.withResolvers<void>()
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString()
    if (text.includes(ready)) isReady.resolve()
  })
  void ended.then(() => isReady.reject(new Error(`it ended before it was ready: ${text}`)))
  await isReady.promise
  const ms = performance.now() - startedAt
  const cpuMs = processorMs([child.pid as number])
  child.kill('SIGTERM')
  await ended
  return { ms, cpuMs }
}

const openOnly = (dataDir: string) => `
  import { PGlite } from '@electric-sql/pglite'
  const database = await PGlite.create(${JSON.stringify(join(dataDir, 'pglite'))})
  await database.query('select 1')
  process.stdout.write('opened')
  setInterval(() => {}, 1000)
  process.on('SIGTERM', () => database.close().then(() => process.exit()))`

/** A start on PostgreSQL until `GET /health` is good; then the process is killed, when it leads the flows. */
async function startAndKill(databaseUrl: string, dataDir: string): Promise<Start> {
  const port = await freePort()
  const startedAt = performance.now()
  const child = spawn(process.execPath, ['src/app/start.js'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env.PATH,
      ...{ DATABASE_URL: databaseUrl, DATA_DIR: dataDir, PROVIDER: 'sandbox', LOG_LEVEL: 'fatal' },
      ...{ ADMIN_TOKEN: adminToken, ENCRYPTION_KEYS: `k1:${Buffer.alloc(32).toString('base64')}` },
      ...{ PORT: String(port), SYNC_PORT: '0', SANDBOX_PORT: '0' },
    },
  })
  const ended = once(child, 'exit').then(([code]) => code)
  const isGood = () =>
    fetch(`http://127.0.0.1:${port}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
  while (!(await isGood())) {
    if (child.exitCode !== null) throw new Error(`it ended before it was ready: ${await ended}`)
    await wait(5)
  }
  const ms = performance.now() - startedAt
  const cpuMs = processorMs([child.pid as number])
  await wait(leadsAfterMs)
  child.kill('SIGKILL')
  await ended
  return { ms, cpuMs }
}

async function measureKills(server: string): Promise<void> {
  const database = await createDatabase(server)
  try {
    // The first makes the tables.
    await startAndKill(database.url, dataDir)
    const kills: Start[] = []
    for (let turn = 0; turn < rounds; turn += 1) {
      kills.push(await startAndKill(database.url, dataDir))
    }
    const middle = (of: (start: Start) => number) => quantile(kills.map(of), 0.5).toFixed(0)
    say(`a start after kill -9 on PostgreSQL, median of ${rounds}`)
    say(`  ready after ${middle(({ ms }) => ms)} ms, processor ${middle(({ cpuMs }) => cpuMs)} ms`)
  } finally {
    await database.drop()
  }
}

const dataDir = await mkdtemp(join(tmpdir(), 'tillbridge-start-'))
try {
  await prepareData(dataDir)
  const env = { DATA_DIR: dataDir, PORT: '0', SYNC_PORT: '0', SANDBOX_PORT: '0' }
  const ours = () => start('tillbridge is ready', ['src/app/start.js'], env)
  const bare = () => start('opened', ['--input-type=module', '--eval', openOnly(dataDir)], {})
  await ours()
  await bare()
  const turns: { ours: Start; bare: Start }[] = []
  for (let turn = 0; turn < rounds; turn += 1) {
    turns.push({ ours: await ours(), bare: await bare() })
  }
  const middle = (of: (turn: (typeof turns)[number]) => number) =>
    quantile(turns.map(of), 0.5).toFixed(0)
  say(`a start on an embedded database, median of ${rounds}`)
  say(
    `  ready after ${middle((turn) => turn.ours.ms)} ms, processor ${middle((turn) => turn.ours.cpuMs)} ms`,
  )
  say(
    `  opening alone ${middle((turn) => turn.bare.ms)} ms, processor ${middle((turn) => turn.bare.cpuMs)} ms`,
  )
  const server = process.env.TEST_DATABASE_URL
  if (server) await measureKills(server)
  else say('a start after kill -9 on PostgreSQL: SKIPPED, it needs TEST_DATABASE_URL')
} finally {
  await rm(dataDir, { recursive: true })
}
