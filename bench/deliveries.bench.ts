import { randomBytes } from 'node:crypto'
import { type JobInsert, PgBoss } from 'pg-boss'
import { Agent } from 'undici'
import type { Database } from '../src/db/database.ts'
import { migrate } from '../src/db/migrate.ts'
import { openDatabase } from '../src/db/open-database.ts'
import { Deliveries } from '../src/flows/deliver/deliver.ts'
import { createEnqueue } from '../src/flows/poll/poll-writer.ts'
import type { Destination } from '../src/flows/types.ts'
import { createLeader } from '../src/jobs/leader.ts'
import { flowOf } from '../test/flows/deliver-support.ts'
import { onServer, urlOf } from '../test/support/postgres-template.ts'
import { bossDatabase } from './boss-database.ts'

// How much do order, coalescing, retries and the record of each delivery cost? Jobs per second through our deliveries to
// a destination that answers at once, against pg-boss alone, which keeps no row and no order. Both take turns on one
// database with the same number of connections and of jobs in progress. Run: npm run bench -- deliveries

const rounds = 3
const jobs = 2_500
const longestMs = 1_500
const concurrencies = [8, 64]

type Rates = { enqueued: number; delivered: number }
type Contender = (concurrency: number) => Promise<Rates>

const say = (line: string) => process.stdout.write(`${line}\n`)
const perSecond = (count: number, ms: number) => Math.round((count / ms) * 1_000)
const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
const pks = Array.from({ length: jobs }, (_, index) => `item-${index}`)
const item = (id: string) => ({ id, name: 'Yerba mate 1 kg', price: '1234.50', stock: 17 })

/** Waits until `count` says that all jobs arrived, or the round is over; answers jobs per second. */
async function arrivals(begin: () => Promise<unknown>, count: () => number): Promise<number> {
  const startedAt = performance.now()
  await begin()
  while (count() < jobs && performance.now() - startedAt < longestMs) {
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  return perSecond(count(), performance.now() - startedAt)
}

/** Ours: the rows and their wake-ups in a transaction per thousand, as a poll writes them. */
async function ours(database: Database): Promise<{ run: Contender; end(): Promise<void> }> {
  let arrived = 0
  const destination: Destination = {
    deliver: async () => {
      arrived += 1
      return { ok: true }
    },
    refusalOf: () => undefined,
    close: async () => {},
  }
  const quiet = { info: () => {}, warn: () => {}, error: () => {} }
  const leader = createLeader({ database, now: () => new Date(), processId: 'bench', log: quiet })
  const enqueue = createEnqueue({ database, now: () => new Date() })
  const deliveries = new Deliveries({
    database,
    now: () => new Date(),
    random: Math.random,
    leader,
    log: quiet,
    openDestination: () => destination,
  })
  const unused = () => Promise.reject(new Error('not part of this benchmark'))
  const payments = { upsertStore: unused, addPos: unused, deletePos: unused, deleteStore: unused }
  const context = { agent: new Agent(), payments, now: () => new Date() }
  await deliveries.start()
  await leader.start()
  let round = 0
  const run: Contender = async (concurrency) => {
    round += 1
    const flow = flowOf(`bench-${round}`, [{ concurrency, breaker: false }])
    await deliveries.open(flow, context)
    await deliveries.close(flow.name)
    arrived = 0
    const startedAt = performance.now()
    for (let from = 0; from < jobs; from += 1_000) {
      const changes = pks.slice(from, from + 1_000).map((pk) => ({
        pk,
        kind: 'upsert' as const,
        hash: 'h1:bench',
        value: item(pk),
        change: round,
      }))
      await database.transaction((trx) => enqueue(trx, { flow }, changes))
    }
    const enqueued = perSecond(jobs, performance.now() - startedAt)
    const delivered = await arrivals(
      () => deliveries.open(flow, context),
      () => arrived,
    )
    await deliveries.close(flow.name)
    return { enqueued, delivered }
  }
  return { run, end: () => deliveries.stop().then(() => leader.stop()) }
}

/** pg-boss as its manual has it for many small jobs: full batches, each settled at once. */
async function bossAlone(
  database: Database,
  url: string | undefined,
): Promise<{ run: Contender; end(): Promise<void> }> {
  const common = { schema: 'bench_boss', supervise: false, schedule: false } as const
  const boss =
    url === undefined
      ? new PgBoss({ ...common, db: bossDatabase(database), backend: 'pglite' })
      : new PgBoss({ ...common, connectionString: url, max: 10 })
  boss.on('error', (error) => say(`pg-boss: ${error.message}`))
  await boss.start()
  let round = 0
  const run: Contender = async (concurrency) => {
    round += 1
    const queue = `bench-${round}`
    await boss.createQueue(queue)
    let arrived = 0
    const startedAt = performance.now()
    for (let from = 0; from < jobs; from += 1_000) {
      const batch = pks.slice(from, from + 1_000).map<JobInsert>((pk) => ({ data: item(pk) }))
      await boss.insert(queue, batch)
    }
    const enqueued = perSecond(jobs, performance.now() - startedAt)
    const options = {
      batchSize: concurrency,
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5,
    }
    const delivered = await arrivals(
      () =>
        boss.work(queue, options, async (batch) => {
          arrived += batch.length
        }),
      () => arrived,
    )
    await boss.offWork(queue)
    return { enqueued, delivered }
  }
  return { run, end: () => boss.stop({ graceful: false }) }
}

async function compare(database: Database, url: string | undefined): Promise<void> {
  say(`deliveries on ${database.engine}, ${jobs} jobs per round, median of ${rounds} rounds`)
  const us = await ours(database)
  const them = await bossAlone(database, url)
  for (const concurrency of concurrencies) {
    const results: { us: Rates; them: Rates }[] = []
    for (let round = 0; round < rounds; round++) {
      results.push({ them: await them.run(concurrency), us: await us.run(concurrency) })
    }
    for (const what of ['enqueued', 'delivered'] as const) {
      const [mine, theirs] = [
        median(results.map((one) => one.us[what])),
        median(results.map((one) => one.them[what])),
      ]
      const ratio = median(results.map((one) => one.us[what] / one.them[what])).toFixed(2)
      say(
        `  ${what}, ${concurrency} in hand: ours ${mine}/s, pg-boss alone ${theirs}/s, ratio ${ratio}`,
      )
    }
  }
  await us.end()
  await them.end()
}

const server = process.env.DATABASE_URL || process.env.TEST_DATABASE_URL
const name = `tillbridge_bench_${randomBytes(4).toString('hex')}`
const url = server && urlOf(server, name)
if (server) await onServer(server, (client) => client.query(`create database ${name}`))
const database = await openDatabase(url ? { databaseUrl: url } : { inMemory: true })
try {
  await migrate(database)
  await compare(database, url)
} finally {
  await database.close()
  if (server) await onServer(server, (client) => client.query(`drop database ${name} with (force)`))
}
