import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { type CommandHelp, readOptions, readWholeNumber } from '../../src/commands/run-command.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { settingsFor } from '../flows/process-support.ts'
import { type RealProcess, startService } from '../process/real-process.ts'
import { onServer, urlOf } from '../support/postgres-template.ts'
import { type Shop, startShop } from './shop.ts'

const help: CommandHelp = {
  usage: 'npm run soak [-- options]',
  about:
    'Runs the service for a long time with flows whose items keep changing, kills it twice near the start, and measures memory, rows and late polls.',
  options: [
    ['--minutes N', '60 without it'],
    ['--flows N', '200 without it'],
    ['--items N', 'of each flow; 100 without it'],
    ['--changes N', 'of items in a second; 20 without it'],
    ['--interval S', 'seconds between polls of a flow; 30 without it'],
    ['--latency MS', 'of each answer of the source; 300 without it'],
    ['--embedded', 'on the embedded database instead of the PostgreSQL of TEST_DATABASE_URL'],
  ],
  exitCodes: [
    [0, 'every change arrived, no poll was late, memory was flat'],
    [1, 'a line names each problem'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run soak -- --minutes 60 --embedded',
}

const values = readOptions(help, {
  minutes: { type: 'string', default: '60' },
  flows: { type: 'string', default: '200' },
  items: { type: 'string', default: '100' },
  changes: { type: 'string', default: '20' },
  interval: { type: 'string', default: '30' },
  latency: { type: 'string', default: '300' },
  embedded: { type: 'boolean', default: false },
})
const flows = readWholeNumber('flows', values.flows, 1)
const intervalMs = Number(values.interval) * 1_000
const lengthMs = Number(values.minutes) * 60_000
const changesPerSecond = Number(values.changes)
const server = values.embedded ? undefined : process.env.TEST_DATABASE_URL

/** Shares of the run: both kills come early, so that memory is measured over one long life of the process. */
const kills = [0.05, 0.1]
const settledAt = 0.25
const sampleMs = 10_000
const longestFirstLoadMs = 20 * 60_000
/** Growth of the median memory between the first and the last quarter of what is measured. */
const mostGrowth = 0.1

const say = (line: string) => void process.stdout.write(`${line}\n`)

type Sample = { atMs: number; memoryMb: number; latestPollS: number; delivered: number }

/** Resident memory of a process, in MB (Linux). */
async function memoryOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1_024
}

async function writeFlows(folder: string, shop: Shop): Promise<void> {
  await mkdir(folder)
  for (let flow = 0; flow < flows; flow += 1) {
    const definition = {
      version: 1,
      name: `flow-${flow}`,
      pollInterval: `${intervalMs / 1_000}s`,
      allowPrivateNetwork: true,
      source: { type: 'http', url: `${shop.url}/items/${flow}` },
      item: { key: 'id' },
      destinations: [
        {
          name: 'shop',
          type: 'http',
          request: { method: 'PUT', url: `${shop.url}/shop/${flow}/{pk}` },
        },
      ],
    }
    await writeFile(join(folder, `flow-${flow}.flow.yaml`), JSON.stringify(definition))
  }
}

/** Rows of each table. The embedded database is opened for it, so no service may run on it. */
async function countRows(at: { databaseUrl: string } | { dataDir: string }) {
  const database = await openDatabase(at)
  try {
    const { rows: tables } = await sql<{ name: string }>`
      select tablename as name from pg_tables where schemaname = 'public'`.execute(database.db)
    const counted = new Map<string, number>()
    for (const { name } of tables) {
      const { rows } = await sql<{ count: number }>`
        select count(*) as count from ${sql.table(name)}`.execute(database.db)
      counted.set(name, Number(rows[0]?.count))
    }
    return counted
  } finally {
    await database.close()
  }
}

function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0
}

async function run(folder: string, databaseUrl: string | undefined): Promise<string[]> {
  const failures: string[] = []
  const shop = await startShop(
    flows,
    readWholeNumber('items', values.items, 1),
    readWholeNumber('latency', values.latency),
  )
  const flowsDir = join(folder, 'flows')
  await writeFlows(flowsDir, shop)
  const settings = await settingsFor(join(folder, 'data'), {
    FLOWS_DIR: flowsDir,
    LOG_LEVEL: 'warn',
    ...(databaseUrl && {
      DATABASE_URL: databaseUrl,
      ADMIN_TOKEN: randomBytes(24).toString('hex'),
      ENCRYPTION_KEYS: `k1:${randomBytes(32).toString('base64')}`,
    }),
  })
  let service: RealProcess = await startService(settings)
  // The first load fills the shop as fast as it can, so that its polls wait.
  const startedAt = Date.now()
  while (shop.different() > 0) {
    if (Date.now() - startedAt > longestFirstLoadMs) throw new Error('the first load did not end')
    await wait(100)
  }
  say(`first load of ${shop.delivered} items: ${Math.round((Date.now() - startedAt) / 1_000)} s`)
  const beganAt = Date.now()
  const passedMs = () => Date.now() - beganAt
  const samples: Sample[] = []
  let rowsSettled: Map<string, number> | undefined
  let killed = 0
  /** The longest time between polls of a flow, until memory is measured (kills included), and from then on. */
  const longest = { early: { gapMs: 0, atMs: 0 }, settled: { gapMs: 0, atMs: 0 } }
  const lastSeen = shop.polledAt.map(() => beganAt)
  let changed = 0
  for (let sampleAt = 0; passedMs() < lengthMs; ) {
    await wait(100)
    // The clock decides how many, since a busy machine wakes this loop late.
    while (changed < (passedMs() / 1_000) * changesPerSecond) {
      shop.change()
      changed += 1
    }
    shop.polledAt.forEach((at, flow) => {
      const seen = lastSeen[flow] ?? 0
      const gapMs = (at > seen ? at : Date.now()) - seen
      const part = passedMs() > settledAt * lengthMs ? longest.settled : longest.early
      if (gapMs > part.gapMs) Object.assign(part, { gapMs, atMs: passedMs() })
      if (at > seen) lastSeen[flow] = at
    })
    const killAt = kills[killed]
    if (killAt !== undefined && passedMs() > killAt * lengthMs) {
      killed += 1
      service.child.kill('SIGKILL')
      await service.ended
      service = await startService(settings)
    }
    if (databaseUrl && !rowsSettled && passedMs() > settledAt * lengthMs) {
      rowsSettled = await countRows({ databaseUrl })
    }
    if (passedMs() < sampleAt) continue
    sampleAt += sampleMs
    const latest = Math.max(...lastSeen.map((at) => Date.now() - at))
    const memoryMb = await memoryOf(service.child.pid as number)
    const sample = {
      atMs: passedMs(),
      memoryMb,
      latestPollS: latest / 1_000,
      delivered: shop.delivered,
    }
    samples.push(sample)
    if (samples.length % 30 === 1) {
      say(
        `minute ${Math.round(sample.atMs / 60_000)}: ${Math.round(memoryMb)} MB, ${sample.delivered} delivered, ${shop.different()} on their way, longest time between polls ${(Math.max(longest.early.gapMs, longest.settled.gapMs) / 1_000).toFixed(1)} s`,
      )
    }
  }
  const restUntil = Date.now() + 4 * intervalMs
  while (shop.different() > 0 && Date.now() < restUntil) await wait(100)
  const lost = shop.different()
  service.child.kill('SIGTERM')
  await service.ended
  const rows = await countRows(databaseUrl ? { databaseUrl } : { dataDir: join(folder, 'data') })
  await shop.close()

  say(`${changed} changes, ${shop.delivered} delivered, ${lost} missing`)
  if (lost > 0) failures.push(`${lost} items did not arrive`)
  for (const [part, { gapMs, atMs }] of Object.entries(longest)) {
    say(
      `longest time between polls of a flow, ${part}: ${(gapMs / 1_000).toFixed(1)} s, at minute ${(atMs / 60_000).toFixed(1)}; interval ${intervalMs / 1_000} s`,
    )
    if (gapMs > 2 * intervalMs) failures.push('a poll was later than twice its interval')
  }
  const settled = samples.filter(({ atMs }) => atMs > settledAt * lengthMs)
  const quarter = Math.ceil(settled.length / 4)
  const first = median(settled.slice(0, quarter).map(({ memoryMb }) => memoryMb))
  const last = median(settled.slice(-quarter).map(({ memoryMb }) => memoryMb))
  say(`memory: ${Math.round(first)} MB in the first quarter, ${Math.round(last)} MB in the last`)
  if (last > first * (1 + mostGrowth)) failures.push('memory grew')
  for (const [table, count] of rows) {
    const before = rowsSettled?.get(table)
    if (before !== undefined && before !== count) say(`${table}: ${before} rows, then ${count}`)
    else if (before === undefined && count > 0) say(`${table}: ${count} rows`)
  }
  const complaints = service.stdout().split('\n').filter(Boolean)
  say(`${complaints.length} lines of level warn or above since the last kill`)
  for (const line of complaints.slice(0, 5)) say(line.slice(0, 300))
  return failures
}

const folder = await mkdtemp(join(tmpdir(), 'tillbridge-soak-'))
const name = `soak_${process.pid}`
try {
  if (server) await onServer(server, (client) => client.query(`create database ${name}`))
  say(server ? 'on PostgreSQL' : 'on the embedded database')
  const failures = await run(folder, server && urlOf(server, name))
  for (const failure of failures) say(`FAILED: ${failure}`)
  say(failures.length === 0 ? 'the soak passed' : 'the soak failed')
  process.exitCode = failures.length === 0 ? 0 : 1
} finally {
  if (server) {
    await onServer(server, (client) => client.query(`drop database if exists ${name} with (force)`))
  }
  await rm(folder, { recursive: true, force: true })
}
