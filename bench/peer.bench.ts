import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { Pool } from 'pg'
import { Agent } from 'undici'
import { readOptions, readWholeNumber } from '../src/commands/run-command.ts'
import { signature } from '../test/support/money.ts'
import { payByCard } from '../test/support/till.ts'
import { inLanes, processorMs, quantile, say, sendJson } from './bench-service.ts'
import {
  type Contender,
  createDatabase,
  fill,
  type Provider,
  type Shop,
  startPeer,
  startProduct,
  startProvider,
} from './peer/contenders.ts'
import { helpOf } from './whole-options.ts'

// Is the service as fast as a program that a programmer would write by hand for the same, and as one on a library for durable
// workflows (DBOS)? Each, and the provider, in processes of their own; they take turns. A round charges on every terminal, reads each open order three times, lets the buyers pay, and
// delivers a webhook for each order, until all are worked. Then the same with two and four of our processes on one database
// beside one, and with --filled on a database with a million old orders, five million events and three million audit entries
// beside an empty one. `answered` is the part of `webhook` until each is answered: with --shops 256 a burst waits. Beside each rate stands the processor time of its processes for one, which a busy machine stretches
// less, and that of the database's server where it is on this machine. Run: npm run bench -- peer [--rounds n] [--filled [--orders n]] [--only peer|several|filled] [--shops n] [--levels 1,8,32] [--warm-up n]

const help = helpOf({
  rounds: 5,
  filled: false,
  orders: 1_000_000,
  'only peer|several|filled': 'all of them',
  shops: 32,
  levels: '1,8,32',
  'warm-up': 10,
})
const values = readOptions(help, {
  rounds: { type: 'string', default: '5' },
  filled: { type: 'boolean', default: false },
  orders: { type: 'string', default: '1000000' },
  only: { type: 'string' },
  shops: { type: 'string', default: '32' },
  levels: { type: 'string', default: '1,8,32' },
  'warm-up': { type: 'string', default: '10' },
})
const wholeNumber = (name: 'rounds' | 'orders' | 'warm-up' | 'shops') =>
  readWholeNumber(name, values[name], 1)
const rounds = wholeNumber('rounds')
/** Rounds before the first that counts: what a process compiles after so many requests it does only once in its life. */
const warmUp = wholeNumber('warm-up')

const shopCount = wholeNumber('shops')
/** How many requests are in progress. */
const levels = values.levels.split(',').map(Number)
const lookEveryMs = 2
const kinds = ['charge', 'read', 'answered', 'webhook'] as const
type Kind = (typeof kinds)[number]
/** Per second, and milliseconds of processor time for each: of its processes, and of the server's for its connections. */
type Rates = Record<Kind, { rate: number; cpuMs: number; serverMs: number }>
type Made = { shop: Shop; orderId: string; mpOrderId: string }

const agent = new Agent({ connections: 256 })

/** One round with so many requests in progress. */
async function round(contender: Contender, provider: Provider, inHand: number): Promise<Rates> {
  let turn = 0
  const at = (path: string) => {
    turn += 1
    return `${contender.urls[turn % contender.urls.length]}${path}`
  }
  const server = await serverPids(contender)
  const rateOf = async (count: number, work: () => Promise<void>) => {
    const cpuBefore = processorMs(contender.pids)
    const serverBefore = serverCpuMs(server)
    const startedAt = performance.now()
    await work()
    const ms = performance.now() - startedAt
    return {
      rate: (count / ms) * 1_000,
      cpuMs: (processorMs(contender.pids) - cpuBefore) / count,
      serverMs: (serverCpuMs(server) - serverBefore) / count,
    }
  }
  const made: Made[] = []
  const charge = await rateOf(shopCount, () =>
    inLanes(contender.shops, inHand, async (shop) => {
      const { order_id } = await sendJson(agent, 'POST', at('/orders'), {
        headers: { 'x-api-token': shop.key },
        body: { caja_id: 'CAJA-1', external_reference: randomUUID(), amount: '1234,50' },
      })
      made.push({ shop, orderId: String(order_id), mpOrderId: '' })
    }),
  )
  const reads = [...made, ...made, ...made]
  const read = await rateOf(reads.length, () =>
    inLanes(reads, inHand, async (order) => {
      const { mp_order_id } = await sendJson(agent, 'GET', at(`/orders/${order.orderId}`), {
        headers: { 'x-api-token': order.shop.key },
      })
      order.mpOrderId = String(mp_order_id)
    }),
  )
  await inLanes(made, 8, async ({ mpOrderId }) => {
    const path = `${provider.url}/_sandbox/orders/${mpOrderId}/act`
    await sendJson(agent, 'POST', path, { body: payByCard })
  })
  const delivered = made.length
  const deliverAll = () =>
    inLanes(made, inHand, ({ mpOrderId }) => deliver(at, provider, mpOrderId))
  let answered: Rates['answered'] | undefined
  const webhook = await rateOf(delivered, async () => {
    answered = await rateOf(delivered, deliverAll)
    await webhooksWorked(contender, made)
  })
  return { charge, read, answered: answered ?? webhook, webhook }
}

async function deliver(
  at: (path: string) => string,
  { info }: Provider,
  mpOrderId: string,
): Promise<void> {
  const requestId = randomUUID()
  const ts = String(Date.now())
  const [secret = ''] = info.webhook_secrets
  await sendJson(agent, 'POST', at(`/webhooks?data.id=${mpOrderId}&type=order`), {
    headers: {
      'x-request-id': requestId,
      'x-signature': signature(secret, { dataId: mpOrderId, requestId, ts }),
    },
    body: { type: 'order', action: 'order.processed', data: { id: mpOrderId } },
  })
}

const pools = new Map<string, Pool>()

function poolOf({ databaseUrl }: Contender): Pool {
  const pool = pools.get(databaseUrl) ?? new Pool({ connectionString: databaseUrl, max: 1 })
  pools.set(databaseUrl, pool)
  return pool
}

/** The server's processes for a contender's connections, which it keeps. */
async function serverPids(contender: Contender): Promise<number[]> {
  const { rows } = await poolOf(contender).query<{ pid: number }>({
    name: 'pids',
    text: 'select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  })
  return rows.map(({ pid }) => pid)
}

/** NaN when the server, or one of its processes, is not on this machine (any more). */
function serverCpuMs(pids: readonly number[]): number {
  try {
    return processorMs(pids)
  } catch {
    return Number.NaN
  }
}

/** Resolves when a webhook of each of these orders has been worked. */
async function webhooksWorked(contender: Contender, made: readonly Made[]): Promise<void> {
  const pool = poolOf(contender)
  const ids = made.map(({ mpOrderId }) => mpOrderId)
  for (;;) {
    // The processes' clocks may be behind the database's by a little: a minute does for both.
    const { rows } = await pool.query({
      name: 'worked',
      text: `select count(*)::int as count from webhook_log where received_at >= now() - interval '1 minute'
        and resource_id = any($1) and status in ('processed', 'duplicate')`,
      values: [ids],
    })
    if (rows[0].count >= ids.length) return
    await wait(lookEveryMs)
  }
}

type Figures = {
  inHand: number
  kind: Kind
  rates: number[]
  ratios: number[]
  cpuMs: number[]
  serverMs: number[]
}

/** Medians over the rounds: of each contender's rates, and of their ratios to the first in the same round. */
async function compare(
  contenders: readonly Contender[],
  provider: Provider,
  levels: readonly number[],
): Promise<Figures[]> {
  const figures: Figures[] = []
  for (let turn = 0; turn < warmUp; turn += 1) {
    for (const contender of contenders) await round(contender, provider, 8)
  }
  for (const inHand of levels) {
    const taken: Rates[][] = []
    for (let turn = 0; turn < rounds; turn += 1) {
      const ofTurn: Rates[] = []
      for (const contender of contenders) ofTurn.push(await round(contender, provider, inHand))
      taken.push(ofTurn)
    }
    for (const kind of kinds) {
      const median = (of: (ofTurn: Rates[], place: number) => number) =>
        contenders.map((_, place) =>
          quantile(
            taken.map((ofTurn) => of(ofTurn, place)),
            0.5,
          ),
        )
      const rate = (ofTurn: Rates[], place: number) => ofTurn[place]?.[kind].rate ?? 0
      // The kernel counts in hundredths of a second, so all rounds together.
      const mean = (of: (figures: Rates[Kind]) => number) =>
        contenders.map((_, place) => {
          const known = taken.flatMap((ofTurn) => (ofTurn[place] ? [of(ofTurn[place][kind])] : []))
          const finite = known.filter(Number.isFinite)
          return finite.reduce((sum, one) => sum + one, 0) / finite.length
        })
      figures.push({
        inHand,
        kind,
        rates: median(rate),
        ratios: median((ofTurn, place) => rate(ofTurn, place) / rate(ofTurn, 0)),
        cpuMs: mean(({ cpuMs }) => cpuMs),
        serverMs: mean(({ serverMs }) => serverMs),
      })
    }
  }
  return figures
}

function report(title: string, names: readonly string[], figures: readonly Figures[]): void {
  say(title)
  for (const { inHand, kind, rates, ratios, cpuMs, serverMs } of figures) {
    const columns = names.map((name, place) => {
      const ratio = place === 0 ? '' : ` (${(ratios[place] ?? 0).toFixed(2)})`
      const ofServer = serverMs[place] ?? Number.NaN
      const atServer = Number.isFinite(ofServer) ? ` + server ${ofServer.toFixed(2)} ms` : ''
      const cost = `${(cpuMs[place] ?? 0).toFixed(2)} ms${atServer}`
      return `${name} ${(rates[place] ?? 0).toFixed(0)}/s${ratio} ${cost}`
    })
    say(`  ${kind.padEnd(8)} ${String(inHand).padStart(2)} in hand: ${columns.join(', ')}`)
  }
}

async function besideThePeer(server: string, provider: Provider): Promise<void> {
  const [own, byHand, onDbos] = [
    await createDatabase(server),
    await createDatabase(server),
    await createDatabase(server),
  ]
  const product = await startProduct(own.url, provider, {
    processes: 1,
    shops: shopCount,
    firstAccount: 7_500_000,
  })
  const peer = await startPeer('hand-written.ts', byHand.url, provider, product)
  const dbos = await startPeer('dbos-till.ts', onDbos.url, provider, product)
  const figures = await compare([peer, dbos, product], provider, levels)
  const title = 'beside a hand-written program, and one on DBOS (ratio to the first)'
  report(title, ['hand-written', 'DBOS', 'ours'], figures)
  peer.stop()
  dbos.stop()
  await product.stop()
  await dropAll([own, byHand, onDbos])
}

async function severalProcesses(server: string, provider: Provider): Promise<void> {
  const own = await createDatabase(server)
  const product = await startProduct(own.url, provider, {
    processes: 4,
    shops: shopCount,
    firstAccount: 7_600_000,
  })
  const some = (count: number) => ({ ...product, urls: product.urls.slice(0, count) })
  const figures = await compare([some(1), some(2), some(4)], provider, [32])
  report('several processes on one database (ratio to one)', ['one', 'two', 'four'], figures)
  await product.stop()
  await dropAll([own])
}

async function onFilledTables(server: string, provider: Provider): Promise<void> {
  const [empty, full] = [await createDatabase(server), await createDatabase(server)]
  const options = { processes: 1, shops: shopCount }
  const one = await startProduct(empty.url, provider, { ...options, firstAccount: 7_700_000 })
  const other = await startProduct(full.url, provider, { ...options, firstAccount: 7_800_000 })
  const pool = new Pool({ connectionString: full.url, max: 1 })
  await fill(pool, other.shops, wholeNumber('orders'))
  await pool.end()
  const figures = await compare([one, other], provider, levels)
  report('on filled tables (ratio to empty ones)', ['empty', 'filled'], figures)
  await one.stop()
  await other.stop()
  await dropAll([empty, full])
}

async function dropAll(
  databases: readonly { url: string; drop(): Promise<void> }[],
): Promise<void> {
  for (const { url, drop } of databases) {
    await pools.get(url)?.end()
    pools.delete(url)
    await drop()
  }
}

const server = process.env.TEST_DATABASE_URL || process.env.DATABASE_URL
if (server) {
  const provider = await startProvider()
  say(`charges, reads and webhooks on PostgreSQL, ${shopCount} shops, median of ${rounds} rounds`)
  try {
    const plays = (part: string) => values.only === undefined || values.only === part
    if (plays('peer')) await besideThePeer(server, provider)
    if (plays('several')) await severalProcesses(server, provider)
    if (values.only === 'filled' || (values.filled && plays('filled'))) {
      await onFilledTables(server, provider)
    }
  } finally {
    provider.stop()
    await agent.destroy()
  }
} else {
  say('beside a hand-written program: SKIPPED, it needs TEST_DATABASE_URL')
}
