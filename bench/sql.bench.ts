import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import mysql from 'mysql2/promise'
import { Client } from 'pg'
import { Agent } from 'undici'
import { openDatabase } from '../src/db/database.ts'
import { migrate } from '../src/db/migrate.ts'
import { flowSchema } from '../src/flows/definition/schema.ts'
import { createDeliveries } from '../src/flows/deliver/deliver.ts'
import type { SavedDeliveries } from '../src/flows/deliver/destination-worker.ts'
import { createEnqueue } from '../src/flows/poll/poll-writer.ts'
import { createLeader } from '../src/jobs/leader.ts'
import { createTableMaintenance } from '../src/jobs/table-maintenance-job.ts'
import { onServer, urlOf } from '../test/support/postgres-template.ts'
import { say } from './bench-service.ts'
import { wholeOptions } from './whole-options.ts'

// What does it cost to deliver many items into a table of PostgreSQL, or, with TEST_MYSQL_URL, of MySQL or MariaDB? A flow with the defaults of its file, from the first
// claim until every row is there and every delivery is written down as done, against a bare loop that upserts 500 rows a
// statement and keeps no record. Both in one database, whose tables are counted before as the service has them counted every
// few seconds; beside the time it says how much processor time of this process each took. Run: npm run bench -- sql [--items n] [--rounds n]

const { items, rounds } = wholeOptions({ items: 50_000, rounds: 3 })
const rowsAtOnce = 500
const row = (index: number) => ({
  id: `item-${index}`,
  name: `Yerba mate con palo, paquete ${index}`,
  price: '1234.50',
  stock: index % 50,
})

type Cost = { ms: number; processorMs: number }

/** What it takes, and how much of that this process computes: the rest is the server and its disk. */
async function costOf(work: () => Promise<void>): Promise<Cost> {
  const before = process.cpuUsage()
  const startedAt = performance.now()
  await work()
  const ms = performance.now() - startedAt
  const { user, system } = process.cpuUsage(before)
  return { ms, processorMs: (user + system) / 1_000 }
}

type Rows = (string | number)[][]

/** A database that items go to, with the tables `items` and `bare`. */
type Shop = {
  driver: 'postgres' | 'mysql'
  url: string
  table: string
  /** Makes both tables again, empty. */
  clear(): Promise<void>
  /** What a loop of one's own does with each of its batches. */
  upsert(rows: Rows): Promise<unknown>
  close(): Promise<void>
}

const columns = 'id varchar(40) primary key, name varchar(100), price numeric(12, 2), stock integer'

async function postgresShop(url: string): Promise<Shop> {
  const client = new Client({ connectionString: url })
  await client.connect()
  return {
    driver: 'postgres',
    url,
    table: 'shop.items',
    clear: async () => {
      await client.query('drop schema if exists shop cascade')
      await client.query('create schema shop')
      for (const name of ['items', 'bare']) {
        await client.query(`create table shop.${name} (${columns})`)
      }
    },
    upsert: (rows) => {
      const places = rows.map((_, index) => {
        const first = index * 4
        return `($${first + 1}, $${first + 2}, $${first + 3}, $${first + 4})`
      })
      return client.query(
        `insert into shop.bare (id, name, price, stock) values ${places.join(', ')}
         on conflict (id) do update set name = excluded.name, price = excluded.price, stock = excluded.stock`,
        rows.flat(),
      )
    },
    close: () => client.end(),
  }
}

async function mysqlShop(url: string): Promise<Shop> {
  const client = await mysql.createConnection({ uri: url })
  const clear = async (isNeeded: boolean) => {
    for (const name of ['items', 'bare']) {
      await client.query(`drop table if exists tillbridge_bench_${name}`)
      if (isNeeded) await client.query(`create table tillbridge_bench_${name} (${columns})`)
    }
  }
  return {
    driver: 'mysql',
    url,
    table: 'tillbridge_bench_items',
    clear: () => clear(true),
    upsert: (rows) =>
      client.query(
        `insert into tillbridge_bench_bare (id, name, price, stock) values ?
         on duplicate key update name = values(name), price = values(price), stock = values(stock)`,
        [rows],
      ),
    close: async () => {
      await clear(false)
      await client.end()
    },
  }
}

function bareLoop(shop: Shop): Promise<Cost> {
  return costOf(async () => {
    for (let from = 0; from < items; from += rowsAtOnce) {
      const length = Math.min(rowsAtOnce, items - from)
      await shop.upsert(Array.from({ length }, (_, index) => Object.values(row(from + index))))
    }
  })
}

async function compare(url: string, shop: Shop): Promise<void> {
  const database = await openDatabase({ databaseUrl: url })
  await migrate(database)
  const quiet = { info: () => {}, warn: () => {}, error: () => {} }
  const leader = createLeader({ database, now: () => new Date(), processId: 'bench', log: quiet })
  const enqueue = createEnqueue({ database, now: () => new Date() })
  let noteSaved = (_saved: SavedDeliveries) => {}
  const deliveries = createDeliveries({
    onSaved: (saved) => noteSaved(saved),
    database,
    now: () => new Date(),
    random: Math.random,
    leader,
    log: quiet,
  })
  const unused = () => Promise.reject(new Error('not part of this benchmark'))
  const payments = { upsertStore: unused, addPos: unused, deletePos: unused, deleteStore: unused }
  const context = { agent: new Agent(), payments, now: () => new Date() }
  await deliveries.start()
  await leader.start()
  const care = createTableMaintenance({
    database,
    now: () => new Date(),
    sleep: (ms) => wait(ms),
    processId: 'bench',
    log: quiet,
  })
  const ours = async (round: number) => {
    const name = `bench-${shop.driver}-${round}`
    const flow = flowSchema({
      env: { SHOP: shop.url },
      readFile: () => '',
      mail: { smtpUrl: undefined, mailFrom: undefined },
    }).parse({
      version: 1,
      name,
      pollInterval: '1h',
      source: { type: 'file', path: 'in.ndjson', format: 'ndjson' },
      item: { key: 'id' },
      destinations: [
        {
          name: 'table',
          type: 'sql',
          driver: shop.driver,
          // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the flow file
          url: '${env:SHOP}',
          table: shop.table,
          upsertKey: 'id',
        },
      ],
    })
    await deliveries.open(flow, context)
    await deliveries.close(name)
    for (let from = 0; from < items; from += 1_000) {
      const changes = Array.from({ length: Math.min(1_000, items - from) }, (_, index) => {
        const value = row(from + index)
        return { pk: value.id, kind: 'upsert' as const, hash: 'h1:bench', value, change: round }
      })
      await database.transaction((trx) => enqueue(trx, { flow }, changes))
    }
    await care.maintain()
    // The service's own word for what is written down as done: a question to the database would take part in what is measured.
    let left = items
    const all = Promise.withResolvers<void>()
    noteSaved = (saved) => {
      if (saved.flow === name) left -= saved.delivered
      if (left === 0) all.resolve()
    }
    const cost = await costOf(async () => {
      await deliveries.open(flow, context)
      await all.promise
    })
    noteSaved = () => {}
    const open = await database.db
      .selectFrom('deliveries')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('flow', '=', name)
      .where('state', '<>', 'done')
      .executeTakeFirstOrThrow()
    if (Number(open.count) > 0) throw new Error(`${open.count} deliveries are still open`)
    await deliveries.close(name)
    return cost
  }
  const results: { us: Cost; them: Cost }[] = []
  for (let round = 1; round <= rounds; round += 1) {
    await shop.clear()
    results.push({ them: await bareLoop(shop), us: await ours(round) })
  }
  const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
  const rate = (of: 'us' | 'them') =>
    Math.round((items / median(results.map((one) => one[of].ms))) * 1_000)
  const computed = (of: 'us' | 'them') =>
    Math.round(median(results.map((one) => one[of].processorMs)))
  const ratio = median(results.map(({ us, them }) => us.ms / them.ms)).toFixed(2)
  say(`${items} items into a table of ${shop.driver}, median of ${rounds} rounds`)
  say(`  delivered ${rate('us')}/s, bare loop of ${rowsAtOnce} rows a statement ${rate('them')}/s`)
  say(`  the flow takes ${ratio} times as long`)
  say(`  processor time of this process: ${computed('us')} ms, bare loop ${computed('them')} ms`)
  await deliveries.stop()
  await leader.stop()
  await database.close()
}

const server = process.env.DATABASE_URL || process.env.TEST_DATABASE_URL
if (!server) say('sql.bench.ts is skipped: it needs PostgreSQL in TEST_DATABASE_URL')
else {
  const name = `tillbridge_bench_${randomBytes(4).toString('hex')}`
  await onServer(server, (client) => client.query(`create database ${name}`))
  try {
    const url = urlOf(server, name)
    const mysqlUrl = process.env.TEST_MYSQL_URL
    for (const open of [
      () => postgresShop(url),
      ...(mysqlUrl ? [() => mysqlShop(mysqlUrl)] : []),
    ]) {
      const shop = await open()
      try {
        await compare(url, shop)
      } finally {
        await shop.close()
      }
    }
  } finally {
    await onServer(server, (client) => client.query(`drop database ${name} with (force)`))
  }
}
