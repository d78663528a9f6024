import { flushCompileCache } from 'node:module'
import { setTimeout as wait } from 'node:timers/promises'
import { createLogger } from '../../src/http/logging.ts'
import { openBothSides } from '../support/both-sides.ts'
import { type CrashPoint, openCrashingDatabase } from './crashing-database.ts'
import { mostItems } from './flow-world.ts'

/** To the child: begin on this database, die at this point, or go by a clock that is so much ahead. */
export type Order =
  | { begin: { databaseUrl: string; flowsDir: string } }
  | { arm: CrashPoint }
  | { aheadMs: number }

/** From the child: it waits for its order, it begins, it polls and delivers, or it has said something at level error. */
export type Report = 'loaded' | 'polling' | { beginning: { processId: string } } | { error: string }

/** Sleeps are this short, so that many polls fit into a life. */
const longestSleepMs = 20
const betweenPollsMs = 60
const betweenSyncsMs = 40

const report = (message: Report) => void process.send?.(message)

/** The flow side of a service that may die at any moment, with every flow polled again and again. */
async function begin({ databaseUrl, flowsDir }: { databaseUrl: string; flowsDir: string }) {
  const database = await openCrashingDatabase(databaseUrl)
  let aheadMs = 0
  process.on('message', (order: Order) => {
    if ('arm' in order) database.arm(order.arm)
    if ('aheadMs' in order) aheadMs = order.aheadMs
  })
  const logger = createLogger('error', { write: (line: string) => report({ error: line }) })
  const { service, side } = await openBothSides({
    database,
    flowsDir,
    logger,
    aheadMs: () => aheadMs,
    sleep: async (ms, signal) => {
      await wait(Math.min(ms, longestSleepMs), undefined, signal && { signal })
    },
  })
  // Before the start, so that the process may die in the middle of that too.
  report({ beginning: { processId: service.deps.processId } })
  await side.start()
  const flows = [...(await side.flows.status()).keys()]
  report('polling')
  const again = async (pauseMs: number, work: () => Promise<unknown>) => {
    for (;;) {
      // A source that misbehaves fails its poll; the next one makes up for it.
      await work().catch(() => undefined)
      await wait(pauseMs)
    }
  }
  await Promise.all(
    flows.flatMap((flow) => [
      again(betweenPollsMs, () => side.flows.sync(flow, { force: false })),
      // One item by itself, in the middle of polls.
      again(betweenSyncsMs, () =>
        side.flows.syncItem(flow, `i${Math.floor(Math.random() * mostItems)}`),
      ),
    ]),
  )
}

process.on('disconnect', () => process.exit(0))
process.once('message', (order: Order) => {
  if (!('begin' in order)) return
  // A start may fail while somebody who stands still has the rows that it needs: then it is over, as a service's would be.
  begin(order.begin).catch(() => process.exit(1))
})
// Who is killed writes nothing at its end.
flushCompileCache()
report('loaded')
