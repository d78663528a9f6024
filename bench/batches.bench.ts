import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { Agent } from 'undici'
import { type Database, openDatabase } from '../src/db/database.ts'
import { migrate } from '../src/db/migrate.ts'
import { flowSchema } from '../src/flows/definition/schema.ts'
import { createDeliveries } from '../src/flows/deliver/deliver.ts'
import { createEnqueue } from '../src/flows/poll/poll-writer.ts'
import { createLeader } from '../src/jobs/leader.ts'
import { onServer, urlOf } from '../test/support/postgres-template.ts'
import { say } from './bench-service.ts'
import { wholeOptions } from './whole-options.ts'

// How long do many items take into a shop that takes few requests, in batches? The shop holds 40 requests and leaks 2 a second,
// says so in its answers, and refuses what is too much. It allows (batches - 40) / 2 seconds; a tenth more is too long, and so is a
// single 429. Run: npm run bench -- batches [--items n] [--size n]

const { items, size } = wholeOptions({ items: 50_000, size: 100 })
const bucket = 40
const perSecond = 2
const latencyMs = 40

const counts = { arrived: new Set<string>(), requests: 0, refused: 0 }
let level = 0
let leakedAt = performance.now()
const server = createServer((incoming, response) => {
  let text = ''
  incoming.on('data', (chunk) => {
    text += chunk
  })
  incoming.on('end', () => {
    const at = performance.now()
    level = Math.max(0, level - ((at - leakedAt) * perSecond) / 1_000)
    leakedAt = at
    counts.requests += 1
    const isTaken = level + 1 <= bucket
    if (isTaken) {
      level += 1
      for (const { id } of JSON.parse(text) as { id: string }[]) counts.arrived.add(id)
    } else counts.refused += 1
    const headers = {
      'content-type': 'application/json',
      'x-rate-limit-limit': String(bucket),
      'x-rate-limit-remaining': String(Math.floor(bucket - level)),
      'x-rate-limit-reset': String(Math.ceil((level / perSecond) * 1_000)),
    }
    setTimeout(() => response.writeHead(isTaken ? 200 : 429, headers).end('[]'), latencyMs)
  })
})

async function feed(database: Database): Promise<number> {
  const quiet = { info: () => {}, warn: () => {}, error: () => {} }
  const leader = createLeader({ database, now: () => new Date(), processId: 'bench', log: quiet })
  const enqueue = createEnqueue({ database, now: () => new Date() })
  const deliveries = createDeliveries({
    database,
    now: () => new Date(),
    random: Math.random,
    leader,
    log: quiet,
  })
  const flow = flowSchema({
    env: {},
    readFile: () => '',
    mail: { smtpUrl: undefined, mailFrom: undefined },
  }).parse({
    version: 1,
    name: 'bench',
    pollInterval: '1h',
    source: { type: 'file', path: 'in.ndjson', format: 'ndjson' },
    item: { key: 'id' },
    destinations: [
      {
        name: 'shop',
        type: 'http',
        request: {
          method: 'POST',
          url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/products`,
        },
        batch: { size },
        rateLimit: { max: perSecond, per: '1s' },
      },
    ],
  })
  const unused = () => Promise.reject(new Error('not part of this benchmark'))
  const payments = { upsertStore: unused, addPos: unused, deletePos: unused, deleteStore: unused }
  const context = { agent: new Agent(), payments, now: () => new Date() }
  await deliveries.start()
  await leader.start()
  await deliveries.open(flow, context)
  await deliveries.close(flow.name)
  for (let from = 0; from < items; from += 1_000) {
    const changes = Array.from({ length: Math.min(1_000, items - from) }, (_, index) => {
      const pk = `item-${from + index}`
      const value = { id: pk, price: '1234.50' }
      return { pk, kind: 'upsert' as const, hash: 'h1:bench', value, change: 1 }
    })
    await database.transaction((trx) => enqueue(trx, { flow }, changes))
  }
  const startedAt = performance.now()
  await deliveries.open(flow, context)
  while (counts.arrived.size < items) await wait(50)
  const seconds = (performance.now() - startedAt) / 1_000
  await deliveries.stop()
  await leader.stop()
  await context.agent.destroy()
  return seconds
}

await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const base = process.env.DATABASE_URL || process.env.TEST_DATABASE_URL
const name = `tillbridge_bench_${randomBytes(4).toString('hex')}`
if (base) await onServer(base, (client) => client.query(`create database ${name}`))
const database = await openDatabase(base ? { databaseUrl: urlOf(base, name) } : { inMemory: true })
try {
  await migrate(database)
  const seconds = await feed(database)
  const allowed = Math.max(1, (Math.ceil(items / size) - bucket) / perSecond)
  say(
    `${items} items in batches of ${size} into a shop of ${perSecond} requests a second, on ${database.engine}`,
  )
  say(`  ${counts.requests} requests, ${counts.refused} of them refused as too many`)
  say(`  ${seconds.toFixed(1)} s, ${(seconds / allowed).toFixed(2)} times what its budget allows`)
  if (counts.refused > 0 || seconds > allowed * 1.1) process.exitCode = 1
} finally {
  await database.close()
  if (base) await onServer(base, (client) => client.query(`drop database ${name} with (force)`))
  server.close().closeAllConnections()
}
