import { setTimeout as wait } from 'node:timers/promises'
import { openDatabase } from '../../src/db/database.ts'
import { migrate } from '../../src/db/migrate.ts'
import type { RealProcess } from '../process/real-process.ts'
import type { Lane } from './lane.ts'
import { sell } from './persistent-sale.ts'
import type { Cluster } from './postgres-cluster.ts'
import { openProcessWorld, untilQuiet } from './process-world.ts'
import { judge } from './verdict.ts'

export type RestartResult = {
  sales: number
  orders: number
  charged: number
  refunds: number
  problems: string[]
  /** Of each restart: how, how long the server was away, and from then until the provider had the next new order. */
  restarts: { mode: 'fast' | 'immediate'; awayMs: number; backMs: number }[]
}

const tills = 16
const salesInAll = 200
/** Longest wait for the first order after a restart. */
const progressMs = 30_000

/**
 * Restarts the database again and again in the midst of 200 sales, each second time as a crash. The service process is
 * the same from the first to the last. In the end the books decide.
 */
export async function runRestarts(
  cluster: Cluster,
  restarts: number,
  seed: number,
): Promise<RestartResult> {
  const migrated = await openDatabase({ databaseUrl: cluster.url })
  await migrate(migrated)
  await migrated.close()
  const shopping = await openProcessWorld({ databaseUrl: cluster.url })
  const done = new AbortController()
  const lanes: Lane[] = []
  const made: RestartResult['restarts'] = []
  const sold = () => lanes.reduce((sum, lane) => sum + lane.sales.length, 0)
  const problems: string[] = []
  let running: RealProcess | undefined
  try {
    running = await shopping.start()
    for (let at = 0; at < tills; at += 1) lanes.push(await shopping.openLane(seed, at))
    const selling = lanes.map((lane) => sell(lane, done.signal))
    for (let at = 1; at <= restarts; at += 1) {
      while (sold() < (salesInAll * at) / (restarts + 1)) await wait(5)
      const mode = at % 2 === 1 ? 'fast' : 'immediate'
      const startedAt = performance.now()
      await cluster.restart(mode)
      const isBackAt = performance.now()
      await nextOrder(shopping.sandbox, isBackAt + progressMs)
      made.push({
        mode,
        awayMs: isBackAt - startedAt,
        backMs: performance.now() - isBackAt,
      })
    }
    while (sold() < salesInAll) await wait(5)
    done.abort()
    await Promise.all(selling)
    await untilQuiet(shopping.database)
    await judge(shopping.world, lanes)
    const { exitCode, signalCode } = running.child
    if (exitCode !== null || signalCode !== null) problems.push('the service process has ended')
  } finally {
    done.abort()
    running?.child.kill('SIGKILL')
    await running?.ended
    await shopping.close()
  }
  const books = shopping.sandbox.ledger().orders
  return {
    sales: sold(),
    orders: books.length,
    charged: books.filter((book) => book.paid_amount !== null).length,
    refunds: books.reduce((sum, book) => sum + book.refunds.length, 0),
    problems: [
      ...problems,
      ...lanes.flatMap((lane) => lane.problems.map((text) => `${lane.shop.client}: ${text}`)),
    ],
    restarts: made,
  }
}

async function nextOrder(
  sandbox: { ledger(): { orders: unknown[] } },
  until: number,
): Promise<void> {
  const before = sandbox.ledger().orders.length
  while (sandbox.ledger().orders.length === before && performance.now() < until) await wait(10)
}
