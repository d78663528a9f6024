import { flushCompileCache } from 'node:module'
import { setTimeout as wait } from 'node:timers/promises'
import { createLogger } from '../../src/http/logging.ts'
import { openBothSides } from '../support/both-sides.ts'
import { type CrashPoint, openCrashingDatabase } from './crashing-database.ts'

/** To the child: begin on this database, or die at this point. */
export type Order = { begin: { databaseUrl: string; flowsDir: string } } | { arm: CrashPoint }

/** From the child: it waits for its order, it begins, it polls and delivers, or it has said something at level error. */
export type Report = 'loaded' | 'polling' | { beginning: { processId: string } } | { error: string }

/** Sleeps are this short, so that many polls fit into a life. */
const longestSleepMs = 20
const betweenPollsMs = 60

const report = (message: Report) => void process.send?.(message)

/** The flow side of a service that may die at any moment, with every flow polled again and again. */
async function begin({ databaseUrl, flowsDir }: { databaseUrl: string; flowsDir: string }) {
  const database = openCrashingDatabase(databaseUrl)
  process.on('message', (order: Order) => {
    if ('arm' in order) database.arm(order.arm)
  })
  const logger = createLogger('error', { write: (line: string) => report({ error: line }) })
  const { service, side } = await openBothSides({
    database,
    flowsDir,
    logger,
    sleep: async (ms, signal) => {
      await wait(Math.min(ms, longestSleepMs), undefined, signal && { signal })
    },
  })
  // Before the start, so that the process may die in the middle of that too.
  report({ beginning: { processId: service.deps.processId } })
  await side.start()
  report('polling')
  const flows = [...(await side.flows.status()).keys()]
  await Promise.all(
    flows.map(async (flow) => {
      for (;;) {
        // A source that misbehaves fails its poll; the next one makes up for it.
        await side.flows.sync(flow, { force: false }).catch(() => undefined)
        await wait(betweenPollsMs)
      }
    }),
  )
}

process.on('disconnect', () => process.exit(0))
process.once('message', (order: Order) => {
  if ('begin' in order) void begin(order.begin)
})
// Who is killed writes nothing at its end.
flushCompileCache()
report('loaded')
