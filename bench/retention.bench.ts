import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../src/db/database.ts'
import { cleanDeliveries } from '../src/flows/engine/flow-housekeeping.ts'
import { createThrottledSteps } from '../src/jobs/throttled-steps.ts'
import { type KeptTimes, runHousekeeping } from '../src/payments/background/payment-housekeeping.ts'
import { writeEntry } from '../test/support/audit.ts'
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
// its key, its webhook and its reads; SQL then copies their rows over the days of one year. A flow has a year of changes. The first
// figures are bytes for 1,000 charges, of each table, before and after what KEEP_TIMELINE_DAYS, KEEP_WEBHOOKS_DAYS and the 30 days
// of keys remove. Then tills charge in turns, alone and beside each work of the housekeeping: it removes orders of more than 200
// days, webhooks of more than 30 and what the flow keeps no longer, and old audit entries. The 99th percentiles are compared.
// The last figures are those of the flow's tables, for 1,000 changes of items.
// Run: npm run bench -- retention [--orders n] [--changes n] [--seconds n] [--turns n]; it needs PostgreSQL, as a superuser, and
// 6 GB for a million orders.

const shopCount = 16
const inHand = 4
const goal = 1.2
const dayMs = 24 * 3_600_000
const { orders, changes, seconds, turns } = wholeOptions({
  orders: 1_000_000,
  changes: 700_000,
  seconds: 20,
  turns: 4,
})
const oldEntries = 20_000
const copies = Math.ceil(orders / shopCount)
const defaults: KeptTimes = {
  ordersMs: 3_650 * dayMs,
  callsMs: 30 * dayMs,
  webhooksMs: 90 * dayMs,
  auditMs: undefined,
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

async function sizes(db: Db): Promise<Sizes> {
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

/** Audit entries of more than a year ago, as the service seals them: copies of others would not verify. */
async function writeOldEntries({ service }: BenchService): Promise<void> {
  const at = new Date(Date.now() - 400 * dayMs)
  for (let count = 0; count < oldEntries; count += 1_000) {
    await service.database.transaction(async (trx) => {
      for (let index = 0; index < 1_000; index += 1) {
        await writeEntry(service.deps.auditKey, trx, `${count + index}`, at)
      }
    })
  }
  await service.chain.sealAll()
}

const flow = {
  name: 'articulos',
  queue: {
    keepCompletedMs: 7 * dayMs,
    keepFailedMs: 90 * dayMs,
    keepHistoryMs: 30 * dayMs,
  },
}
const ofFlows = ['flow_items', 'deliveries', 'item_versions', 'item_attempts', 'flow_errors']
const itemsOfFlow = Math.ceil(changes / 20)

/** A year of one flow: each item changes 20 times, every tenth was removed since, and one delivery in 100 failed at first. */
async function fillFlow({ service }: BenchService): Promise<void> {
  const pk = sql`'P-' || (n % ${itemsOfFlow}::int)`
  const at = sql`now() - (${changes}::int - n) * ${year} / ${changes}::int`
  const all = sql`from generate_series(1, ${changes}::int) as n`
  const payload = sql`jsonb_build_object('codigo', 'P-' || n, 'nombre', repeat(md5(n::text), 4), 'precio', n, 'stock', n % 100)`
  const isKnown = sql`n % 10 <> 0`
  const items = sql`from generate_series(1, ${itemsOfFlow}::int) as n`
  const changedAt = sql`now() - n * ${year} / ${itemsOfFlow}::int`
  await service.database.maintenance(async (db) => {
    for (const statement of [
      sql`insert into flow_items (flow, pk, hash, changed_at)
        select ${flow.name}, 'P-' || n, md5(n::text), ${changedAt} ${items} where ${isKnown}`,
      sql`insert into deliveries (flow, destination, pk, version, kind, hash, state, attempts, queued_at, finished_at, delivered_hash)
        select ${flow.name}, 'web', 'P-' || n, 1, case when ${isKnown} then 'upsert' else 'delete' end, md5(n::text), 'done', 1,
          ${changedAt}, ${changedAt}, case when ${isKnown} then md5(n::text) else 'deleted' end ${items}`,
      sql`insert into item_versions (flow, pk, seen_at, kind, hash, payload)
        select ${flow.name}, ${pk}, ${at}, 'upsert', md5(n::text), ${payload} ${all}`,
      sql`insert into item_attempts (flow, pk, at, destination, kind, hash, attempt, outcome, status)
        select ${flow.name}, ${pk}, ${at}, 'web', 'upsert', md5(n::text), 1, 'delivered', 200 ${all}`,
      sql`insert into flow_errors (id, flow, adapter, pk, error, status, attempts, at)
        select gen_random_uuid(), ${flow.name}, 'web', ${pk}, 'the destination answered 500', 500, 1, ${at} ${all} where n % 100 = 0`,
    ]) {
      await statement.execute(db)
    }
  })
  for (const table of ofFlows) await tidy(service, sql`vacuum analyze ${sql.table(table)}`)
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
  await runHousekeeping({ ...service.deps, log, sleep }, keep, signal)
  return removed
}

/** `beforeRemoval`: called when the year is full. */
async function reportGrowth(
  bench: BenchService,
  beforeRemoval: () => Promise<unknown>,
): Promise<void> {
  const { db } = bench.service.database
  say(`${orders} charges, copied over one year:`)
  await writeOldEntries(bench)
  const empty = await sizes(db)
  await fill(bench)
  const full = await sizes(db)
  await beforeRemoval()
  const beganAt = performance.now()
  const removed = await remove(bench, defaults, new AbortController().signal, noPause)
  say(
    `  removed in ${((performance.now() - beganAt) / 1000).toFixed(0)} s: ${JSON.stringify(removed)}`,
  )
  for (const table of ['idempotency_keys', 'order_calls', 'webhook_log']) {
    await tidy(bench.service, sql`vacuum full analyze ${sql.table(table)}`)
  }
  const after = await sizes(db)
  say('bytes for 1,000 charges, with indexes: before and after the removal')
  sayGrowth(
    ofSales.map(([table]) => table),
    { empty, full, after, units: orders },
  )
}

type Sizes = Map<string, number>

/** Bytes for 1,000 units of each table, and of all. */
function sayGrowth(
  tables: readonly string[],
  { empty, full, after, units }: { empty: Sizes; full: Sizes; after: Sizes; units: number },
): void {
  const growth = (now: Sizes, name: string) =>
    Math.max(0, ((now.get(name) ?? 0) - (empty.get(name) ?? 0)) / (units / 1_000))
  const sum = { full: 0, after: 0 }
  const line = (name: string, most: number, least: number) =>
    say(`  ${name.padEnd(18)} ${most.toFixed(0).padStart(9)} ${least.toFixed(0).padStart(9)}`)
  for (const table of tables) {
    const [most, least] = [growth(full, table), growth(after, table)]
    sum.full += most
    sum.after += least
    line(table, most, least)
  }
  line('all', sum.full, sum.after)
}

/** Each work of the housekeeping, until the signal; answers how many rows it removed. */
const works: Record<string, (bench: BenchService, signal: AbortSignal) => Promise<number>> = {
  async keys(bench, signal) {
    return (await remove(bench, defaults, signal, pause)).keys ?? 0
  },
  async orders(bench, signal) {
    const keep = { ...defaults, ordersMs: 200 * dayMs }
    return (await remove(bench, keep, signal, pause)).orders ?? 0
  },
  async webhooks(bench, signal) {
    const keep = { ...defaults, webhooksMs: 30 * dayMs }
    return (await remove(bench, keep, signal, pause)).webhooks ?? 0
  },
  async 'a flow'(bench, signal) {
    const { db } = bench.service.database
    const before = await rowsOfFlow(db)
    await cleanFlow(bench, signal, pause)
    return before - (await rowsOfFlow(db))
  },
  async 'audit entries'(bench, signal) {
    // Entries of shops that were set up just now are at the start of the log.
    const keep = { ...defaults, auditMs: 0 }
    return (await remove(bench, keep, signal, pause)).entries ?? 0
  },
}

async function cleanFlow(
  { service }: BenchService,
  signal: AbortSignal,
  sleep: Sleep,
): Promise<void> {
  const steps = {
    stopwatch: () => performance.now(),
    sleep: async (ms: number) => void (await sleep(ms, signal)),
  }
  await cleanDeliveries(service.deps, flow, createThrottledSteps(steps, signal)).catch(
    (error: unknown) => {
      if (!signal.aborted) throw error
    },
  )
}

async function rowsOfFlow(db: Db): Promise<number> {
  const { rows } = await sql<{ rows: number }>`
    select (select count(*) from item_versions) + (select count(*) from item_attempts)
      + (select count(*) from deliveries) + (select count(*) from flow_errors) as rows`.execute(db)
  return Number(rows[0]?.rows)
}

type Times = { alone: number[]; beside: number[] }

/** Tills charge in turns, alone and beside a work. Adds their times to `all`; answers whether the work removed anything. */
async function compare(bench: BenchService, name: string, all: Times): Promise<boolean> {
  const work = works[name]
  if (!work) throw new Error(`there is no work ${name}`)
  const times: Times = { alone: [], beside: [] }
  let removed = 0
  let workMs = 0
  await charge(bench, 5_000)
  for (let turn = 0; turn < turns; turn += 1) {
    times.alone.push(...(await charge(bench, seconds * 1_000)))
    const enough = new AbortController()
    const beganAt = performance.now()
    const working = work(bench, enough.signal).then((rows) => {
      removed += rows
      workMs += performance.now() - beganAt
    })
    times.beside.push(...(await charge(bench, seconds * 1_000)))
    enough.abort()
    await working
  }
  all.alone.push(...times.alone)
  all.beside.push(...times.beside)
  sayTimes(`${name} (${((removed / workMs) * 1_000).toFixed(0)} rows a second removed)`, times)
  return removed > 0
}

/** Answers how many times the 99th percentile alone is the one beside the work. */
function sayTimes(name: string, { alone, beside }: { alone: number[]; beside: number[] }): number {
  const of = (times: number[]) =>
    `${times.length} charges, median ${quantile(times, 0.5).toFixed(0)} ms, p99 ${quantile(times, 0.99).toFixed(0)} ms`
  const ratio = quantile(beside, 0.99) / quantile(alone, 0.99)
  say(`  ${name}: ${ratio.toFixed(2)} times (alone ${of(alone)}; beside ${of(beside)})`)
  return ratio
}

async function reportFlow(bench: BenchService, empty: Sizes, full: Sizes): Promise<void> {
  await cleanFlow(bench, new AbortController().signal, noPause)
  for (const table of ofFlows)
    await tidy(bench.service, sql`vacuum full analyze ${sql.table(table)}`)
  say('bytes for 1,000 changes of items, with indexes: before and after the removal')
  const after = await sizes(bench.service.database.db)
  sayGrowth(ofFlows, { empty, full, after, units: changes })
}

if (isEmbedded) say('retention.bench.ts is skipped: it needs PostgreSQL in TEST_DATABASE_URL')
else {
  await withService(shopCount, async (bench) => {
    const { db } = bench.service.database
    const all: Times = { alone: [], beside: [] }
    const areAtWork: boolean[] = []
    const compareOne = async (name: string) => {
      areAtWork.push(await compare(bench, name, all))
    }
    const intro = `tills charge, ${inHand} at a time, in turns of ${seconds} s, alone and beside the removal of`
    await reportGrowth(bench, async () => {
      say(`${intro} keys:`)
      await compareOne('keys')
    })
    const empty = await sizes(db)
    await fillFlow(bench)
    const full = await sizes(db)
    say(`${intro} other rows:`)
    for (const name of Object.keys(works)) if (name !== 'keys') await compareOne(name)
    const ratio = sayTimes(`all of it (the goal: at most ${goal})`, all)
    if (ratio > goal || areAtWork.includes(false)) process.exitCode = 1
    await reportFlow(bench, empty, full)
  })
}
