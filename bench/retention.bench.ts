import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../src/db/database.ts'
import { deleteOldData, type KeptTimes } from '../src/payments/orders/delete-old-data.ts'
import { signature } from '../test/support/money.ts'
import { payByCard } from '../test/support/till.ts'
import {
  type BenchService,
  inLanes,
  isEmbedded,
  quantile,
  type Shop,
  say,
  withService,
} from './bench-service.ts'
import { wholeOptions } from './whole-options.ts'

// By how much does the database grow, and what does the removal of old rows cost the tills? Sales are made by the service, each with
// its key, its webhook and its reads; SQL then copies their rows over the days of one year. The first figures are bytes for 1,000
// charges, of each table, before and after what KEEP_TIMELINE_DAYS, KEEP_WEBHOOKS_DAYS and the 30 days of keys remove. Then tills
// charge in turns, alone and beside the removal of orders older than 200 days; the 99th percentiles are compared.
// Run: npm run bench -- retention [--orders n] [--seconds n] [--turns n]; it needs PostgreSQL, as a superuser, and 5 GB for a
// million orders.

const shopCount = 16
const inHand = 4
const goal = 1.2
const dayMs = 24 * 3_600_000
const { orders, seconds, turns } = wholeOptions({ orders: 1_000_000, seconds: 20, turns: 4 })
const copies = Math.ceil(orders / shopCount)
const defaults: KeptTimes = {
  ordersMs: 3_650 * dayMs,
  callsMs: 30 * dayMs,
  webhooksMs: 90 * dayMs,
  auditMs: 365 * dayMs,
}

/** The tables of a sale, referenced ones first, with the rows to copy. */
const ofSales: [table: string, which: RawBuilder<unknown>][] = [
  ['orders', sql`true`],
  ['order_events', sql`true`],
  ['order_calls', sql`true`],
  ['order_operations', sql`true`],
  ['provider_payments', sql`true`],
  ['idempotency_keys', sql`true`],
  ['webhook_log', sql`true`],
  ['activity_log', sql`resource_type = 'order'`],
  ['activity_seals', sql`entry_id in (select id from activity_log where resource_type = 'order')`],
]
/** Texts that are of one sale. */
const own = new Set([
  'mp_order_id',
  'external_reference',
  'mp_external_reference',
  'key',
  'payment_id',
  'resource_id',
  'request_id',
  'delivery_key',
  'hash',
])

async function sell({ service, send, at }: BenchService, shop: Shop): Promise<void> {
  const headers = { 'x-api-token': shop.key }
  const made = await send('POST', at('/orders'), {
    headers: { ...headers, 'idempotency-key': randomUUID() },
    body: { caja_id: 'CAJA-1', external_reference: randomUUID(), amount: '1234,50' },
  })
  const path = `/orders/${made.order_id}`
  const dataId = String((await send('GET', at(path), { headers })).mp_order_id)
  await send('POST', `${service.sandbox.url}/_sandbox/orders/${dataId}/act`, { body: payByCard })
  const requestId = randomUUID()
  const ts = String(Date.now())
  const [secret = ''] = service.sandbox.info.webhook_secrets
  await send('POST', at(`/webhooks?data.id=${dataId}&type=order`), {
    headers: {
      'x-request-id': requestId,
      'x-signature': signature(secret, { dataId, requestId, ts }),
    },
    body: { type: 'order', action: 'order.processed', data: { id: dataId } },
  })
  for (let tries = 0; tries < 100; tries += 1) {
    const { status } = await send('GET', at(path), { headers })
    if (status === 'processed') return
    await wait(20)
  }
  throw new Error(`order ${made.order_id} is not processed`)
}

/** Copies rows, each copy with ids and texts of its own, one after the other over a year. */
async function copyRows(db: Db, table: string, which: RawBuilder<unknown>): Promise<void> {
  const { rows } = await sql<{ name: string; type: string }>`
    select attname::text as name, format_type(atttypid, null) as type from pg_attribute
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped and attidentity = '' and attgenerated = ''
    order by attnum`.execute(db)
  const copied = rows.map(({ name, type }) => {
    const column = sql.ref(name)
    if (type === 'uuid') return sql`md5(${column}::text || n)::uuid`
    if (type === 'timestamp with time zone') return sql`${column} - n * ${year} / ${copies}::int`
    if (name === 'seq') return sql`${column} + n * 1000000::bigint`
    return own.has(name) ? sql`${column} || '-' || n` : column
  })
  await sql`insert into ${sql.table(table)} (${sql.join(rows.map(({ name }) => sql.ref(name)))})
    select ${sql.join(copied)} from ${sql.table(table)}, generate_series(1, ${copies}::int) as n
    where ${which}`.execute(db)
}

/** However long it takes. */
const tidy = ({ database }: BenchService['service'], statement: RawBuilder<unknown>) =>
  database.maintenance((db) => statement.execute(db))

const year = sql`interval '365 days'`

async function sizes(db: Db): Promise<Map<string, number>> {
  const { rows } = await sql<{ name: string; bytes: number }>`
    select relname::text as name, pg_total_relation_size(oid) as bytes from pg_class
    where relkind = 'r' and relnamespace = current_schema()::regnamespace`.execute(db)
  return new Map(rows.map(({ name, bytes }) => [name, Number(bytes)]))
}

/** Every row of the sales is of a day of the year now; nothing is due. */
async function fill(bench: BenchService): Promise<void> {
  const { service, shops } = bench
  await inLanes(shops, inHand, (shop) => sell(bench, shop))
  await service.chain.sealAll()
  for (const [table, which] of ofSales) {
    const beganAt = performance.now()
    await service.database.maintenance((db) =>
      db.transaction().execute(async (trx) => {
        await sql`set local session_replication_role = replica`.execute(trx)
        await copyRows(trx, table, which)
      }),
    )
    await tidy(service, sql`vacuum analyze ${sql.table(table)}`)
    say(`  ${table}: filled in ${((performance.now() - beganAt) / 1000).toFixed(0)} s`)
  }
}

/** Milliseconds of each charge within a time; the buyers pay in between, which is not timed. */
async function charge(
  { service, shops, send, at }: BenchService,
  forMs: number,
): Promise<number[]> {
  const times: number[] = []
  const until = performance.now() + forMs
  while (performance.now() < until) {
    const made: { shop: Shop; orderId: unknown }[] = []
    await inLanes(shops, inHand, async (shop) => {
      const beganAt = performance.now()
      const { order_id: orderId } = await send('POST', at('/orders'), {
        headers: { 'x-api-token': shop.key },
        body: { caja_id: 'CAJA-1', external_reference: randomUUID(), amount: '1234,50' },
      })
      times.push(performance.now() - beganAt)
      made.push({ shop, orderId })
    })
    const open = service.sandbox.ledger().orders.filter(({ status }) => status === 'created')
    await inLanes(open, inHand, async ({ id }) => {
      await send('POST', `${service.sandbox.url}/_sandbox/orders/${id}/act`, { body: payByCard })
    })
    await inLanes(made, inHand, async ({ shop, orderId }) => {
      await send('GET', at(`/orders/${orderId}`), { headers: { 'x-api-token': shop.key } })
    })
  }
  return times
}

type Sleep = (ms: number, signal?: AbortSignal) => Promise<unknown>

/** As the service pauses between two steps. */
const pause: Sleep = (ms, signal) => wait(ms, undefined, signal === undefined ? {} : { signal })
const noPause: Sleep = async () => {}

/** The removal of the service; answers how many rows there were. */
async function remove(
  { service }: BenchService,
  keep: KeptTimes,
  signal: AbortSignal,
  pauseFor: Sleep,
): Promise<Record<string, number>> {
  const removed = {}
  const log = {
    ...service.deps.log,
    info(fields: object) {
      Object.assign(removed, fields)
    },
  }
  const sleep = async (ms: number, ended?: AbortSignal) => {
    await pauseFor(ms, ended)
  }
  await deleteOldData({ ...service.deps, log, sleep }, keep, signal)
  return removed
}

async function reportGrowth(bench: BenchService): Promise<void> {
  const { db } = bench.service.database
  const empty = await sizes(db)
  say(`${orders} charges, copied over one year:`)
  await fill(bench)
  const full = await sizes(db)
  const beganAt = performance.now()
  const removed = await remove(bench, defaults, new AbortController().signal, noPause)
  say(
    `  removed in ${((performance.now() - beganAt) / 1000).toFixed(0)} s: ${JSON.stringify(removed)}`,
  )
  for (const table of ['idempotency_keys', 'order_calls', 'webhook_log']) {
    await tidy(bench.service, sql`vacuum full analyze ${sql.table(table)}`)
  }
  const after = await sizes(db)
  const growth = (now: Map<string, number>, name: string) =>
    Math.max(0, ((now.get(name) ?? 0) - (empty.get(name) ?? 0)) / (orders / 1_000))
  const sum = { full: 0, after: 0 }
  say('bytes for 1,000 charges, with indexes: before and after the removal')
  for (const [table] of ofSales) {
    const [most, least] = [growth(full, table), growth(after, table)]
    sum.full += most
    sum.after += least
    say(`  ${table.padEnd(18)} ${most.toFixed(0).padStart(9)} ${least.toFixed(0).padStart(9)}`)
  }
  say(
    `  ${'all'.padEnd(18)} ${sum.full.toFixed(0).padStart(9)} ${sum.after.toFixed(0).padStart(9)}`,
  )
}

async function compare(bench: BenchService): Promise<boolean> {
  const keep = { ...defaults, ordersMs: 200 * dayMs }
  const times = { alone: [] as number[], beside: [] as number[] }
  let removedOrders = 0
  await charge(bench, 5_000)
  for (let turn = 0; turn < turns; turn += 1) {
    times.alone.push(...(await charge(bench, seconds * 1_000)))
    const enough = new AbortController()
    const removing = remove(bench, keep, enough.signal, pause)
    times.beside.push(...(await charge(bench, seconds * 1_000)))
    enough.abort()
    removedOrders += (await removing).orders ?? 0
  }
  const p99 = { alone: quantile(times.alone, 0.99), beside: quantile(times.beside, 0.99) }
  const ratio = p99.beside / p99.alone
  for (const name of ['alone', 'beside'] as const) {
    say(
      `  ${name}: ${times[name].length} charges, median ${quantile(times[name], 0.5).toFixed(1)} ms, p99 ${p99[name].toFixed(1)} ms`,
    )
  }
  const rate = removedOrders / (turns * seconds)
  say(
    `  ${rate.toFixed(0)} orders a second were removed; p99 beside that is ${ratio.toFixed(2)} times the one alone (at most ${goal})`,
  )
  return ratio <= goal && removedOrders > 0
}

if (isEmbedded) say('retention.bench.ts is skipped: it needs PostgreSQL in TEST_DATABASE_URL')
else {
  await withService(shopCount, async (bench) => {
    await reportGrowth(bench)
    say(`tills charge, ${inHand} at a time, in ${turns} turns of ${seconds} s each:`)
    if (!(await compare(bench))) process.exitCode = 1
  })
}
