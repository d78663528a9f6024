import { setTimeout as wait } from 'node:timers/promises'
import { Client } from 'pg'
import { processorMs } from '../bench-service.ts'
import type { Contender, Place, Receiver, Running } from './contenders.ts'
import type { ServerCost } from './server-cost.ts'

/** One contender with its databases, and what it is measured with. */
export type Testbed = { contender: Contender; place: Place; receiver: Receiver; cost: ServerCost }

/** Milliseconds of processor time, of the program and of the database's server; and how long it took. */
export type Cost = { programMs: number; serverMs: number; tookMs: number; walBytes: number }

const lookEveryMs = 20
/** Until a process that waits for its turn is ready for it. */
const standbyMs = 5_000
/** About one a second. */
const deletedShare = 0.05
/** Until everything is written that a contender writes after the last answer. */
const restMs = 500

export async function withSource<T>({ place }: Testbed, work: (source: Client) => Promise<T>) {
  const source = new Client({ connectionString: place.sourceUrl })
  await source.connect()
  try {
    return await work(source)
  } finally {
    await source.end()
  }
}

export async function makeItems(testbed: Testbed, count: number): Promise<void> {
  await withSource(testbed, async (source) => {
    await source.query('create schema if not exists erp')
    await source.query('drop table if exists erp.items')
    await source.query(`create table erp.items as
      select n as id, 'Yerba mate con palo, paquete ' || n as name, (n % 100000) / 100.0 as price, n % 50 as stock
      from generate_series(1, ${count}) as n`)
    await source.query('alter table erp.items add primary key (id)')
    await source.query('vacuum analyze erp.items')
  })
}

/** What the source and the receiver differ in: missing, stale and undeleted items. */
export async function differences(testbed: Testbed): Promise<number> {
  const rows = await withSource(testbed, (source) => source.query('select * from erp.items'))
  const there = new Map(await testbed.receiver.items())
  let wrong = 0
  for (const row of rows.rows) {
    const body = JSON.parse(there.get(String(row.id)) ?? 'null')
    if (String(body?.price) !== String(row.price) || body?.stock !== row.stock) wrong += 1
    there.delete(String(row.id))
  }
  return wrong + there.size
}

const equalWithinMs = 120_000

/** Returns how long it took; rejects when it took too long. */
export async function untilEqual(testbed: Testbed): Promise<number> {
  const beganAt = performance.now()
  for (;;) {
    const wrong = await differences(testbed)
    const tookMs = performance.now() - beganAt
    if (wrong === 0) return tookMs
    if (tookMs > equalWithinMs) throw new Error(`${testbed.contender.name}: ${wrong} items differ`)
    await wait(100)
  }
}

/** The cost of a poll, and of `requests` that follow from it. */
export async function costOf(
  { receiver, cost }: Testbed,
  running: Running,
  requests: number,
): Promise<Cost> {
  const { accepted: before } = await receiver.ask('state')
  const [program, server, wal] = [processorMs([running.pid]), cost.cpuMs(), await cost.walBytes()]
  const beganAt = performance.now()
  await running.poll()
  while ((await receiver.ask('state')).accepted < before + requests) await wait(lookEveryMs)
  const tookMs = performance.now() - beganAt
  await wait(restMs)
  return {
    programMs: processorMs([running.pid]) - program,
    serverMs: cost.cpuMs() - server,
    tookMs,
    walBytes: (await cost.walBytes()) - wal,
  }
}

/** Changes one item in a hundred, all over the table, and deletes two in a thousand. Returns how many requests follow. */
export function changeSome(testbed: Testbed): Promise<number> {
  return withSource(testbed, async (source) => {
    const changed = await source.query(`update erp.items set price = price + 1 where id % 100 = 7`)
    const deleted = await source.query(`delete from erp.items where id % 500 = 11`)
    await source.query('checkpoint')
    return (changed.rowCount ?? 0) + (deleted.rowCount ?? 0)
  })
}

/** Changes random items, so many a second, and deletes one in a while, until it is stopped. */
export async function keepChanging(testbed: Testbed, count: number, perSecond: number) {
  const source = new Client({ connectionString: testbed.place.sourceUrl })
  await source.connect()
  let goesOn = true
  const everyMs = 50
  const changing = (async () => {
    while (goesOn) {
      const ids = Array.from({ length: (perSecond * everyMs) / 1_000 }, () =>
        Math.ceil(Math.random() * count),
      )
      await source.query('update erp.items set price = price + 0.01 where id = any($1)', [ids])
      if (Math.random() < deletedShare) {
        await source.query('delete from erp.items where id = $1', [ids[0]])
      }
      await wait(everyMs)
    }
  })()
  return async () => {
    goesOn = false
    await changing
    await source.end()
  }
}

/** `firstMs`: from each kill to the first request after it. `again`: the share of what was accepted. */
export type Kills = { firstMs: number[]; again: number; older: number }

/**
 * Kills the working process again and again, while items change. Another one is started then; with `standby` one waits already.
 * With `refuses` the receiver answers every tenth request with 503. Rejects when it does not have everything at the end.
 */
export async function firstAfterKills(
  testbed: Testbed,
  options: { kills: number; count: number; pollMs: number; standby?: boolean; refuses?: boolean },
): Promise<Kills> {
  const { contender, place, receiver } = testbed
  const { kills, count, pollMs } = options
  const begin = () => contender.start(place, pollMs)
  await receiver.ask(options.refuses ? 'refuse' : 'accept')
  const before = await receiver.ask('state')
  let working = await begin()
  const stopChanging = await keepChanging(testbed, count, 120)
  await firstAt(receiver)
  let next = options.standby ? await begin() : undefined
  if (next) await wait(standbyMs)
  const firstMs: number[] = []
  for (let kill = 0; kill < kills; kill += 1) {
    await wait(3_000 + Math.random() * 1_000)
    const killedAt = Date.now()
    await working.kill('SIGKILL')
    working = next ?? (await begin())
    firstMs.push((await firstAt(receiver)) - killedAt)
    next = options.standby ? await begin() : undefined
    if (next) await wait(standbyMs)
  }
  await stopChanging()
  await untilEqual(testbed)
  for (const running of [next, working]) await running?.kill('SIGTERM')
  await receiver.ask('accept')
  const { accepted, again, older } = await receiver.ask('state')
  return {
    firstMs,
    again: (again - before.again) / (accepted - before.accepted),
    older: older - before.older,
  }
}

async function firstAt(receiver: Receiver): Promise<number> {
  await receiver.ask('mark')
  for (;;) {
    const { firstAt: at } = await receiver.ask('state')
    if (at !== undefined) return at
    await wait(lookEveryMs)
  }
}

/** Milliseconds from the end of each outage of the receiver until it has everything; infinite where that took too long. */
export async function rightAfterOutages(
  testbed: Testbed,
  { outagesMs, count, pollMs }: { outagesMs: readonly number[]; count: number; pollMs: number },
): Promise<number[]> {
  const { contender, place, receiver } = testbed
  const running = await contender.start(place, pollMs)
  const found: number[] = []
  for (const outageMs of outagesMs) {
    const stopChanging = await keepChanging(testbed, count, 120)
    await firstAt(receiver)
    await receiver.ask('close')
    await wait(outageMs)
    await stopChanging()
    await receiver.ask('open')
    found.push(await untilEqual(testbed).catch(() => Number.POSITIVE_INFINITY))
  }
  await running.kill('SIGTERM')
  return found
}

/** Milliseconds of processor time a second, of a program with nothing to do until tomorrow. */
export async function idleCost(
  { cost }: Testbed,
  running: Running,
  seconds: number,
): Promise<Cost> {
  const [program, server, wal] = [processorMs([running.pid]), cost.cpuMs(), await cost.walBytes()]
  await wait(seconds * 1_000)
  return {
    programMs: (processorMs([running.pid]) - program) / seconds,
    serverMs: (cost.cpuMs() - server) / seconds,
    tookMs: seconds * 1_000,
    walBytes: ((await cost.walBytes()) - wal) / seconds,
  }
}
