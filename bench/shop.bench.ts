import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { type Database, openDatabase } from '../src/db/database.ts'
import { migrate } from '../src/db/migrate.ts'
import { flowSchema } from '../src/flows/definition/schema.ts'
import { createDeliveries } from '../src/flows/deliver/deliver.ts'
import { createEnqueue } from '../src/flows/poll/poll-writer.ts'
import { createLeader } from '../src/jobs/leader.ts'
import { onServer, urlOf } from '../test/support/postgres-template.ts'
import { inLanes, say } from './bench-service.ts'
import { wholeOptions } from './whole-options.ts'

// How fast is an ordinary shop fed, one that answers 3 % of 429 (Retry-After: 1) and 2 % of 500? Items a second that arrived,
// through a flow with the defaults of its file, against a bare loop with as many requests in progress, which sends what was
// refused once more at the end, and through the same flow to a shop that takes everything. Run: npm run bench -- shop [--items n]

const { items } = wholeOptions({ items: 1_500 })
const inHand = 4
const latencyMs = 30
const rounds = 3

type Shop = {
  url: string
  /** Forgets what it counted; takes so many requests a second from now on. */
  begin(perSecond: number, isFaulty: boolean): void
  counts: { arrived: Set<string>; refused: number; failed: number; sent: number }
  close(): void
}

/** Answers after a while, as shops do; the 5 % depend on how often it was asked, not on the item. */
async function openShop(): Promise<Shop> {
  const counts = { arrived: new Set<string>(), refused: 0, failed: 0, sent: 0 }
  let perSecond = Number.POSITIVE_INFINITY
  let faulty = true
  let tokens = 0
  let filledAt = 0
  const isWithinBudget = () => {
    if (perSecond === Number.POSITIVE_INFINITY) return true
    const at = performance.now()
    tokens = Math.min(perSecond, tokens + ((at - filledAt) * perSecond) / 1_000)
    filledAt = at
    if (tokens < 1) return false
    tokens -= 1
    return true
  }
  const judge = (path: string): number => {
    counts.sent += 1
    const [byte = 0] = createHash('md5').update(`shop ${counts.sent}`).digest()
    const fault = byte < 8 ? 429 : byte < 13 ? 500 : 200
    const status = isWithinBudget() ? (faulty ? fault : 200) : 429
    if (status === 200) counts.arrived.add(path)
    else counts[status === 429 ? 'refused' : 'failed'] += 1
    return status
  }
  const server = createServer((incoming, response) => {
    incoming.resume().on('end', () => {
      const status = judge(incoming.url ?? '')
      setTimeout(() => {
        response.writeHead(status, status === 429 ? { 'retry-after': '1' } : {}).end()
      }, latencyMs)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts,
    begin: (next, isFaulty) => {
      faulty = isFaulty
      counts.arrived.clear()
      Object.assign(counts, { refused: 0, failed: 0, sent: 0 })
      perSecond = next
      tokens = next
      filledAt = performance.now()
    },
    close: () => server.close().closeAllConnections(),
  }
}

const keys = Array.from({ length: items }, (_, index) => `item-${index}`)
const agent = new Agent({ connections: inHand })

/** Items a second until nine of ten have arrived: the last ones wait for their next attempt in either. */
async function untilMost(shop: Shop, begin: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  const done = begin()
  while (shop.counts.arrived.size < items * 0.9) await wait(5)
  const rate = shop.counts.arrived.size / ((performance.now() - startedAt) / 1_000)
  await done
  return rate
}

async function bareLoop(shop: Shop): Promise<void> {
  const again: string[] = []
  const send = async (key: string) => {
    const { statusCode, body } = await request(`${shop.url}/${key}`, {
      method: 'PUT',
      dispatcher: agent,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id: key, price: '1234.50' }),
    })
    await body.dump()
    if (statusCode !== 200) again.push(key)
  }
  await inLanes(keys, inHand, send)
  while (again.length > 0) await inLanes(again.splice(0), inHand, send)
}

async function ours(database: Database, shop: Shop) {
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
  const unused = () => Promise.reject(new Error('not part of this benchmark'))
  const payments = { upsertStore: unused, addPos: unused, deletePos: unused, deleteStore: unused }
  const context = { agent, payments, now: () => new Date() }
  await deliveries.start()
  await leader.start()
  let round = 0
  return {
    /** Writes what is to be sent; answers the function that begins to send it. */
    async owe() {
      round += 1
      const name = `bench-${round}`
      const files = {
        env: {},
        readFile: () => '',
        mail: { smtpUrl: undefined, mailFrom: undefined },
      }
      const flow = flowSchema(files).parse({
        version: 1,
        name,
        pollInterval: '1h',
        allowPrivateNetwork: true,
        source: { type: 'file', path: 'in.ndjson', format: 'ndjson' },
        item: { key: 'id' },
        destinations: [
          {
            name: 'shop',
            type: 'http',
            concurrency: inHand,
            request: { method: 'PUT', url: `${shop.url}/{pk}` },
          },
        ],
      })
      await deliveries.open(flow, context)
      await deliveries.close(name)
      for (let from = 0; from < items; from += 1_000) {
        const changes = keys.slice(from, from + 1_000).map((pk) => ({
          pk,
          kind: 'upsert' as const,
          hash: 'h1:bench',
          value: { id: pk, price: '1234.50' },
          change: round,
        }))
        await database.transaction((trx) => enqueue(trx, { flow }, changes))
      }
      return { begin: () => deliveries.open(flow, context), end: () => deliveries.close(name) }
    },
    end: () => deliveries.stop().then(() => leader.stop()),
  }
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

async function compare(database: Database): Promise<void> {
  const shop = await openShop()
  const flows = await ours(database, shop)
  say(
    `a shop with 3 % of 429 and 2 % of 500, on ${database.engine}: ${items} items, ${inHand} in hand`,
  )
  const results: { bare: number; us: number; sound: number }[] = []
  const flowTo = async (isFaulty: boolean) => {
    const owed = await flows.owe()
    shop.begin(Number.POSITIVE_INFINITY, isFaulty)
    const rate = await untilMost(shop, owed.begin)
    await owed.end()
    return rate
  }
  for (let round = 0; round < rounds; round += 1) {
    shop.begin(Number.POSITIVE_INFINITY, true)
    const bare = await untilMost(shop, () => bareLoop(shop))
    results.push({ bare, us: await flowTo(true), sound: await flowTo(false) })
  }
  const rate = (of: 'bare' | 'us' | 'sound') => Math.round(median(results.map((one) => one[of])))
  const ratio = (of: 'bare' | 'sound') => median(results.map((one) => one.us / one[of])).toFixed(2)
  say(`  bare loop ${rate('bare')}/s, ours ${rate('us')}/s, ratio ${ratio('bare')}`)
  say(`  ours to a shop that takes everything ${rate('sound')}/s, ratio ${ratio('sound')}`)

  await flows.end()
  shop.close()
}

const server = process.env.DATABASE_URL || process.env.TEST_DATABASE_URL
const name = `tillbridge_bench_${randomBytes(4).toString('hex')}`
const url = server && urlOf(server, name)
if (server) await onServer(server, (client) => client.query(`create database ${name}`))
const database = await openDatabase(url ? { databaseUrl: url } : { inMemory: true })
try {
  await migrate(database)
  await compare(database)
} finally {
  await agent.destroy()
  await database.close()
  if (server) await onServer(server, (client) => client.query(`drop database ${name} with (force)`))
}
