import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { prepareData } from '../test/support/pglite-template.ts'
import { processorMs, quantile, say } from './bench-service.ts'
import { wholeOptions } from './whole-options.ts'

// How long does a start take on an embedded database that exists? From the beginning of the process to the line of the log
// that says that it is ready, with the processor time, beside a process that only opens the database; in turns.
// Run: npm run bench -- start [--rounds n]

const { rounds } = wholeOptions({ rounds: 7 })
const root = fileURLToPath(new URL('..', import.meta.url))

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
} finally {
  await rm(dataDir, { recursive: true })
}
