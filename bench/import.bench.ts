import { fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { parse } from 'csv-parse'
import { sql } from 'kysely'
import { openDatabase } from '../src/db/database.ts'
import { migrate } from '../src/db/migrate.ts'
import { createLogger } from '../src/http/logging.ts'
import { openBothSides } from '../test/support/both-sides.ts'
// As src/app/start.ts runs the service.
import '../src/app/limit-heap-growth.ts'
import { wholeOptions } from './whole-options.ts'

// What does the first import of many items do to the tills on the embedded database? A process with both sides of the
// service reads a CSV file and delivers what it finds into another file, and every 200 ms somebody asks the payment side
// something that it needs the database for. A bare loop that reads and hashes the same file and stores each hash says what
// the importing itself takes. Run: npm run bench -- import [--items 300000]

type Task = { role: 'make' | 'import' | 'bare'; dir: string; items: number }
type Figures = {
  rows: number
  ms: number
  peakMb: number
  /** Longest CPU time without a break for others, and the answers to who asked, in milliseconds. */
  stretchMs?: number
  answers?: number[]
}

/** As `npm start` runs the service. */
const nodeOptions = ['--max-semi-space-size=16']
const flow = 'bench'
const askEveryMs = 200
const longestStretchMs = 250
const longestAnswerMs = 1_000
const rowsAtOnce = 1_000
const say = (line: string) => void process.stdout.write(`${line}\n`)
const csvOf = (dir: string) => join(dir, 'items.csv')

function* lines(items: number): Generator<string> {
  yield 'id,name,price,stock\n'
  for (let n = 0; n < items; n += 1) {
    yield `SKU-${String(n).padStart(7, '0')},"Yerba mate con palo, paquete ${n}",${n / 100},${n % 50}\n`
  }
}

/** Asks again and again until it is stopped; returns how long each answer took. */
function askAll(ask: () => Promise<void>): () => Promise<number[]> {
  const answers: number[] = []
  let isOver = false
  const asking = (async () => {
    while (!isOver) {
      const askedAt = performance.now()
      await ask()
      answers.push(performance.now() - askedAt)
      await new Promise((resolve) => setTimeout(resolve, askEveryMs))
    }
  })()
  return async () => {
    isOver = true
    await asking
    return answers
  }
}

/** CPU time between two turns of the event loop, which a busy machine does not lengthen as it does the delays. */
function watchStretches(): () => number {
  let longest = 0
  let before = process.threadCpuUsage()
  const ticking = setInterval(() => {
    const now = process.threadCpuUsage()
    longest = Math.max(longest, (now.user - before.user + now.system - before.system) / 1_000)
    before = now
  }, 1)
  return () => {
    clearInterval(ticking)
    return longest
  }
}

/** The first start of a service makes its database, which takes twice the memory of all that follows. */
async function makeDatabases({ dir }: Task): Promise<Figures> {
  const startedAt = performance.now()
  for (const name of ['import', 'bare']) {
    const database = await openDatabase({ dataDir: join(dir, name) })
    if (name === 'import') await migrate(database)
    await database.close()
  }
  return { rows: 0, ms: performance.now() - startedAt, peakMb: peakMb() }
}

async function importItems({ dir, items }: Task): Promise<Figures> {
  const database = await openDatabase({ dataDir: join(dir, 'import') })
  const flowsDir = join(dir, 'flows')
  const both = await openBothSides({ database, flowsDir, logger: createLogger('error') })
  try {
    await both.side.start()
    const answered = askAll(async () => {
      const { statusCode } = await both.service.app.inject({ url: '/health' })
      if (statusCode !== 200) throw new Error(`/health answered ${statusCode}`)
    })
    const watched = watchStretches()
    const startedAt = performance.now()
    const { changes } = await both.side.flows.sync(flow, { force: true })
    const ms = performance.now() - startedAt
    if (changes !== items) throw new Error(`${changes} items came`)
    return { rows: items, ms, stretchMs: watched(), answers: await answered(), peakMb: peakMb() }
  } finally {
    await both.close()
    await database.close()
  }
}

async function importBare({ dir, items }: Task): Promise<Figures> {
  const database = await openDatabase({ dataDir: join(dir, 'bare') })
  const { db } = database
  await sql`create table hashes (pk text primary key, hash text not null)`.execute(db)
  const startedAt = performance.now()
  let batch: { pk: string; hash: string }[] = []
  const store = async () => {
    await sql`insert into hashes
      select * from jsonb_to_recordset(${JSON.stringify(batch)}::jsonb) as item (pk text, hash text)`.execute(
      db,
    )
    batch = []
  }
  for await (const row of createReadStream(csvOf(dir)).pipe(parse({ columns: true }))) {
    const hash = createHash('sha256').update(JSON.stringify(row)).digest('base64url')
    batch.push({ pk: row.id, hash })
    if (batch.length === rowsAtOnce) await store()
  }
  await store()
  const ms = performance.now() - startedAt
  await database.close()
  return { rows: items, ms, peakMb: peakMb() }
}

/** The kernel's own count, in MB. */
function peakMb(): number {
  return process.resourceUsage().maxRSS / 1_024
}

function inOwnProcess(task: Task): Promise<Figures> {
  const child = fork(fileURLToPath(import.meta.url), { stdio: 'inherit', execArgv: nodeOptions })
  child.send(task)
  return new Promise((resolve, reject) => {
    child.once('message', (figures: Figures) => resolve(figures))
    child.once('exit', (code) => reject(new Error(`the process ended with ${code}`)))
  })
}

async function prepare(dir: string, items: number): Promise<void> {
  await pipeline(lines(items), createWriteStream(csvOf(dir)))
  const definition = {
    version: 1,
    name: flow,
    pollInterval: '24h',
    startPaused: true,
    source: { type: 'file', path: csvOf(dir), format: 'csv', settle: '0s' },
    item: { key: 'id' },
    destinations: [{ name: 'out', type: 'file', path: join(dir, 'out.ndjson') }],
  }
  const flowsDir = join(dir, 'flows')
  await mkdir(flowsDir)
  await writeFile(join(flowsDir, 'bench.flow.yaml'), JSON.stringify(definition))
}

function printFigures(made: Figures, us: Figures, them: Figures): boolean {
  const perSecond = ({ rows, ms }: Figures) => Math.round((rows / ms) * 1_000)
  const answers = (us.answers ?? []).toSorted((a, b) => a - b)
  const [worst, stretch] = [answers.at(-1) ?? Number.NaN, us.stretchMs ?? Number.NaN]
  say(`  import: ${perSecond(us)} items/s, peak memory ${us.peakMb.toFixed(0)} MB`)
  say(`  bare loop: ${perSecond(them)} items/s, peak memory ${them.peakMb.toFixed(0)} MB`)
  say(`  making two databases before: peak memory ${made.peakMb.toFixed(0)} MB`)
  say(`  the import takes ${(us.ms / them.ms).toFixed(2)} times as long as the bare loop`)
  say(`  CPU without a break for others: longest ${stretch.toFixed(0)} ms`)
  say(
    `  ${answers.length} answers of the payment side: ` +
      `p50 ${(answers[answers.length >> 1] ?? 0).toFixed(0)} ms, worst ${worst.toFixed(0)} ms`,
  )
  const isFair = worst <= longestAnswerMs && stretch <= longestStretchMs
  if (!isFair) say(`  TOO LONG: more than ${longestAnswerMs} or ${longestStretchMs} ms`)
  return isFair
}

async function compare(items: number): Promise<boolean> {
  const dir = await mkdtemp(join(tmpdir(), 'tillbridge-bench-'))
  try {
    await prepare(dir, items)
    say(`first import of ${items} items of a CSV file on the embedded database`)
    const made = await inOwnProcess({ role: 'make', dir, items })
    const them = await inOwnProcess({ role: 'bare', dir, items })
    return printFigures(made, await inOwnProcess({ role: 'import', dir, items }), them)
  } finally {
    await rm(dir, { recursive: true })
  }
}

async function begin(): Promise<void> {
  const { items } = wholeOptions({ items: 30_000 })
  if (!(await compare(items))) process.exitCode = 1
}

if (process.send) {
  process.once('message', (task: Task) => {
    const roles = { make: makeDatabases, import: importItems, bare: importBare }
    const figures = roles[task.role](task)
    void figures.then((found) => process.send?.(found, () => process.disconnect()))
  })
} else {
  await begin()
}
