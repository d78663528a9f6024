import { setTimeout as wait } from 'node:timers/promises'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import type { RealProcess } from '../process/real-process.ts'
import { compareWithProvider } from './compare-with-provider.ts'
import { sell } from './persistent-sale.ts'
import type { Cluster } from './postgres-cluster.ts'
import { openProcessTestbed, untilQuiet } from './process-testbed.ts'
import type { SimulatedTill } from './simulated-till.ts'

export type RestartResult = {
  sales: number
  orders: number
  charged: number
  refunds: number
  problems: string[]
  /** Of each restart: how, how long the server was away, and from then until the provider had the next new order. */
  restarts: { mode: 'fast' | 'immediate'; awayMs: number; backMs: number }[]
}

const tillCount = 16
const salesInAll = 200
/** Longest wait for the first order after a restart. */
const progressMs = 30_000

/**
 * Restarts the database again and again during 200 sales, each second time as a crash. The service process is
 * the same from the first to the last. Afterwards all is compared with the provider.
 */
export async function runRestarts(
  cluster: Cluster,
  restarts: number,
  seed: number,
): Promise<RestartResult> {
  const migrated = await openDatabase({ databaseUrl: cluster.url })
  await migrate(migrated)
  await migrated.close()
  const processes = await openProcessTestbed({ databaseUrl: cluster.url })
  const done = new AbortController()
  const tills: SimulatedTill[] = []
  const made: RestartResult['restarts'] = []
  const sold = () => tills.reduce((sum, till) => sum + till.sales.length, 0)
  const problems: string[] = []
  let running: RealProcess | undefined
  try {
    running = await processes.start()
    for (let at = 0; at < tillCount; at += 1) tills.push(await processes.openTill(seed, at))
    const selling = tills.map((till) => sell(till, done.signal))
    for (let at = 1; at <= restarts; at += 1) {
      while (sold() < (salesInAll * at) / (restarts + 1)) await wait(5)
      const mode = at % 2 === 1 ? 'fast' : 'immediate'
      const startedAt = performance.now()
      await cluster.restart(mode)
      const isBackAt = performance.now()
      await nextOrder(processes.sandbox, isBackAt + progressMs)
      made.push({
        mode,
        awayMs: isBackAt - startedAt,
        backMs: performance.now() - isBackAt,
      })
    }
    while (sold() < salesInAll) await wait(5)
    done.abort()
    await Promise.all(selling)
    await untilQuiet(processes.database)
    await compareWithProvider(processes.testbed, tills)
    const { exitCode, signalCode } = running.child
    if (exitCode !== null || signalCode !== null) problems.push('the service process has ended')
  } finally {
    done.abort()
    running?.child.kill('SIGKILL')
    await running?.ended
    await processes.close()
  }
  const providerOrders = processes.sandbox.ledger().orders
  return {
    sales: sold(),
    orders: providerOrders.length,
    charged: providerOrders.filter((providerOrder) => providerOrder.paid_amount !== null).length,
    refunds: providerOrders.reduce((sum, providerOrder) => sum + providerOrder.refunds.length, 0),
    problems: [
      ...problems,
      ...tills.flatMap((till) => till.problems.map((text) => `${till.shop.client}: ${text}`)),
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
