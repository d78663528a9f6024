import { type ChildProcess, fork } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import type { FlowSide } from '../src/app/flow-side.ts'
import { migrate } from '../src/db/migrate.ts'
import { openDatabase } from '../src/db/open-database.ts'
import { openFlow } from '../src/flows/engine/open-flow.ts'
import { loadFlows } from '../src/flows/loading/load-flow-files.ts'
import { createLogger } from '../src/http/logging.ts'
import { upsertHashes } from '../src/repositories/flows/flow-items.ts'
import { openBothSides } from '../test/support/both-sides.ts'
import { onServer, urlOf } from '../test/support/postgres-template.ts'
// As src/app/start.js runs the service.
import '../src/app/limit-heap-growth.ts'
import { readOptions, readWholeNumber } from '../src/commands/run-command.ts'
import { noFeeds } from '../test/flows/sources-support.ts'
import { helpOf } from './whole-options.ts'

// What does a poll cost in which nothing has changed? A process with both sides of the service polls a table of
// PostgreSQL; a bare loop that reads the same rows and hashes them says what the reading alone takes. Each contender is a
// process of its own, so that its peak memory is its own, and they take turns. How long the poll keeps the event loop from
// the tills is measured beside it. With --new all items are new: the poll writes the pending delivery of each, and the bare loop a hash.
// Run: npm run bench -- polls [--items 1000000] [--new]

/** Figures of one contender; memory is the peak of its process. */
type Figures = {
  rows: number
  ms: number
  peakMb: number
  delays?: { p99: number; max: number }
  stretches?: number[]
}
type Task = {
  role: 'poll' | 'bare'
  url: string
  flowsDir: string
  items: number
  isNew: boolean
}

const rounds = 3
/** As `npm start` runs the service: a smaller nursery costs no measurable time here, and 60 to 100 MB less. */
const nodeOptions = ['--max-semi-space-size=16']
const mostMb = 400
const flow = 'bench'
const query = 'select id, name, price, stock, changed_at from erp.items'
const pageSize = 1_000
const say = (line: string) => void process.stdout.write(`${line}\n`)

/** A cursor, as any reader needs who cannot hold the table, and the text of each row hashed. */
async function readBare(url: string, isNew: boolean): Promise<number> {
  const client = new Client({ connectionString: url })
  const writer = new Client({ connectionString: url })
  await Promise.all([client.connect(), writer.connect()])
  await writer.query('drop table if exists erp.hashes')
  await writer.query('create table erp.hashes (pk text primary key, hash text not null)')
  await client.query('begin read only')
  await client.query(`declare bare no scroll cursor for ${query}`)
  let rows = 0
  for (;;) {
    const page = await client.query(`fetch ${pageSize} from bare`)
    const hashes = page.rows.map((row) => ({
      pk: String(row.id),
      hash: createHash('sha256').update(JSON.stringify(row)).digest('base64url'),
    }))
    if (isNew) {
      await writer.query(
        'insert into erp.hashes select * from jsonb_to_recordset($1::jsonb) as one (pk text, hash text)',
        [JSON.stringify(hashes)],
      )
    }
    rows += page.rows.length
    if (page.rows.length < pageSize) break
  }
  await Promise.all([client.end(), writer.end()])
  return rows
}

/** Both sides of the service as main has them, with one flow. `work` gets what a poll is run with. */
async function withService<T>(
  { url, flowsDir }: Task,
  work: (side: FlowSide) => Promise<T>,
): Promise<T> {
  const database = await openDatabase({ databaseUrl: url })
  const logger = createLogger('error')
  const both = await openBothSides({ database, flowsDir, logger, env: { SOURCE: url } })
  try {
    await both.side.start()
    return await work(both.side)
  } finally {
    await both.close()
    await database.close()
  }
}

async function poll(task: Task): Promise<Figures> {
  return await withService(task, async ({ flows }) => {
    const delay = monitorEventLoopDelay({ resolution: 5 })
    const startedAt = performance.now()
    delay.enable()
    // CPU time between two ticks, which a busy machine does not lengthen as it does the delays.
    const stretches: number[] = []
    let before = process.threadCpuUsage()
    const ticking = setInterval(() => {
      const now = process.threadCpuUsage()
      stretches.push((now.user - before.user + now.system - before.system) / 1_000)
      before = now
    }, 1)
    const { changes } = await flows.sync(flow, { force: true })
    delay.disable()
    clearInterval(ticking)
    const ms = performance.now() - startedAt
    if (changes !== (task.isNew ? task.items : 0)) {
      throw new Error(`${changes} items count as changed`)
    }
    const delays = { p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 }
    return { rows: task.items, ms, peakMb: peakMb(), delays, stretches }
  })
}

async function bare({ url, isNew }: Task): Promise<Figures> {
  const startedAt = performance.now()
  const rows = await readBare(url, isNew)
  return { rows, ms: performance.now() - startedAt, peakMb: peakMb() }
}

/** The kernel's own count, in MB. */
function peakMb(): number {
  return process.resourceUsage().maxRSS / 1_024
}

function inOwnProcess(task: Task): Promise<Figures> {
  const child: ChildProcess = fork(fileURLToPath(import.meta.url), {
    stdio: 'inherit',
    execArgv: nodeOptions,
  })
  child.send(task)
  return new Promise((resolve, reject) => {
    child.once('message', (figures: Figures) => resolve(figures))
    child.once('exit', (code) => reject(new Error(`the process ended with ${code}`)))
  })
}

/** The hashes that a first poll leaves behind, without a million deliveries. */
async function learnHashes({ url, flowsDir }: Task): Promise<void> {
  const { flows } = await loadFlows(flowsDir, {
    env: { SOURCE: url },
    readFile: () => '',
    mail: { smtpUrl: undefined, mailFrom: undefined },
  })
  const [loaded] = flows
  if (!loaded) throw new Error('the flow file is wrong')
  const { source, read } = openFlow(loaded, {
    ...{ payments: noFeeds, now: () => new Date(), log: { warn: () => {} } },
  })
  const database = await openDatabase({ databaseUrl: url })
  const { signal } = new AbortController()
  for await (const rows of source.scan({ since: null, signal })) {
    const found = await Promise.all(rows.map((row) => read(row)))
    const items = found.flatMap((one) => ('item' in one ? [one.item] : []))
    if (items.length !== rows.length) throw new Error('a row is no item')
    await database.transaction((trx) => upsertHashes(trx, flow, items, { read: 1, at: new Date() }))
  }
  await source.close()
  await database.close()
}

async function prepare({ url, flowsDir, items, isNew }: Task): Promise<void> {
  await writeFile(
    join(flowsDir, 'bench.flow.yaml'),
    JSON.stringify({
      version: 1,
      name: flow,
      pollInterval: '24h',
      startPaused: true,
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the flow file
      source: { type: 'sql', driver: 'postgres', url: '${env:SOURCE}', query },
      item: { key: 'id' },
      destinations: [
        {
          name: 'out',
          type: 'file',
          path: `${flowsDir}.ndjson`,
          // Only the poll is measured.
          ...(isNew && { rateLimit: { max: 1, per: '1h' } }),
        },
      ],
    }),
  )
  const database = await openDatabase({ databaseUrl: url })
  await migrate(database)
  await database.close()
  await onServer(url, async (client) => {
    await client.query('create schema erp')
    await client.query(`create table erp.items as
      select n as id, 'Yerba mate con palo, paquete ' || n as name, (n % 100000) / 100.0 as price,
        n % 50 as stock, timestamptz '2026-01-01' + n * interval '1 second' as changed_at
      from generate_series(1, ${items}) as n`)
  })
  if (!isNew) await learnHashes({ role: 'poll', url, flowsDir, items, isNew })
  await onServer(url, (client) => client.query('vacuum analyze'))
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
const perSecond = ({ rows, ms }: Figures) => Math.round((rows / ms) * 1_000)

function printFigures(us: Figures[], them: Figures[]): boolean {
  const ratio = median(us.map((one, round) => one.ms / (them[round]?.ms ?? Number.NaN)))
  const peak = Math.max(...us.map(({ peakMb }) => peakMb))
  const delays = us.flatMap((one) => (one.delays ? [one.delays] : []))
  say(`  poll: ${median(us.map(perSecond))} rows/s, peak memory ${peak.toFixed(0)} MB`)
  say(`  bare loop: ${median(them.map(perSecond))} rows/s`)
  say(`  the poll takes ${ratio.toFixed(2)} times as long as the bare loop`)
  say(
    `  event loop during the poll: p99 ${median(delays.map(({ p99 }) => p99)).toFixed(0)} ms, ` +
      `longest delay ${Math.max(...delays.map(({ max }) => max)).toFixed(0)} ms`,
  )
  const stretches = us.flatMap((one) => one.stretches ?? []).sort((a, b) => a - b)
  say(
    `  CPU without a break for others: p99 ${(stretches[Math.floor(stretches.length * 0.99)] ?? 0).toFixed(0)} ms, ` +
      `longest ${(stretches.at(-1) ?? 0).toFixed(0)} ms`,
  )
  if (peak > mostMb) say(`  TOO MUCH: more than ${mostMb} MB`)
  return peak <= mostMb
}

async function compare(server: string, items: number, isNew: boolean): Promise<boolean> {
  const name = `tillbridge_bench_${randomBytes(4).toString('hex')}`
  const url = urlOf(server, name)
  const flowsDir = await mkdtemp(join(tmpdir(), 'tillbridge-bench-'))
  await onServer(server, (client) => client.query(`create database ${name}`))
  try {
    await prepare({ role: 'poll', url, flowsDir, items, isNew })
    // New items are new once.
    const turns = items > 250_000 || isNew ? 1 : rounds
    say(
      `poll of ${items} ${isNew ? 'new' : 'unchanged'} items of PostgreSQL, median of ${turns} rounds`,
    )
    const us: Figures[] = []
    const them: Figures[] = []
    for (let round = 0; round < turns; round += 1) {
      them.push(await inOwnProcess({ role: 'bare', url, flowsDir, items, isNew }))
      us.push(await inOwnProcess({ role: 'poll', url, flowsDir, items, isNew }))
    }
    return printFigures(us, them)
  } finally {
    await onServer(server, (client) => client.query(`drop database ${name} with (force)`))
    await rm(flowsDir, { recursive: true })
    await rm(`${flowsDir}.ndjson`, { force: true })
  }
}

async function begin(): Promise<void> {
  const values = readOptions(helpOf({ items: 100_000, new: false }), {
    items: { type: 'string', default: '100000' },
    new: { type: 'boolean' },
  })
  const items = readWholeNumber('items', values.items, 1)
  const server = process.env.DATABASE_URL || process.env.TEST_DATABASE_URL
  if (!server) say('polls.bench.ts is skipped: it needs PostgreSQL in TEST_DATABASE_URL')
  else if (!(await compare(server, items, values.new === true))) process.exitCode = 1
}

if (process.send) {
  process.once('message', (task: Task) => {
    const figures = task.role === 'poll' ? poll(task) : bare(task)
    void figures.then((found) => process.send?.(found, () => process.disconnect()))
  })
} else {
  await begin()
}
