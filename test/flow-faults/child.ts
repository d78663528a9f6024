import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { flushCompileCache } from 'node:module'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Database } from '../../src/db/database.ts'
import { createLogger } from '../../src/http/logging.ts'
import { openBothSides } from '../support/both-sides.ts'
import { type CrashPoint, openCrashingDatabase } from './crashing-database.ts'
import type { StatementStep } from './steps.ts'
import { losesFieldSuffix, mostItems, readOnceSuffix, unpolledSuffix } from './test-flow.ts'

/** What a process is started with: its database, its flow files, and the database with the tables of sources. */
export type Where = {
  database: { databaseUrl: string } | { dataDir: string }
  flowsDir: string
  tablesUrl: string
  /** Requests of this process carry this name in a header. */
  child: string
}

/** To the child: start, kill yourself at this point, set the clock ahead, list open deliveries, or stop at a request before this time. */
export type Order =
  | { begin: Where }
  | { arm: CrashPoint }
  | { aheadMs: number }
  | 'list open deliveries'
  | { stopAtRequestUntil: number }

/** From the child. */
export type Report =
  | 'loaded'
  | { beginning: { processId: string } }
  /** It polls and delivers; this is the address of its control API. */
  | { polling: string }
  /** It logged a line at level warn or above. */
  | { logged: { isError: boolean; message: string; line: string } }
  | { openDeliveries: string[] }
  /** It reaches this step for the first time. */
  | { passes: StatementStep }
  /** It stops now, with a request to a target that is permitted and not sent. */
  | 'stopping'

/** Sleeps are this short, so that a process polls many times before it is killed. */
const longestSleepMs = 20
const betweenPollsMs = 250
const betweenSyncsMs = 300
/** The number of level error in the log. */
const levelError = 50

const report = (message: Report) => void process.send?.(message)

/** The flow side of a service that may be killed at any moment, with most flows polled again and again. */
async function begin({ database: place, flowsDir, tablesUrl, child }: Where) {
  const passed = new Set<StatementStep>()
  const database = await openCrashingDatabase(place, (step) => {
    if (!passed.has(step)) report({ passes: step })
    passed.add(step)
  })
  let aheadMs = 0
  process.on('message', (order: Order) => {
    if (order === 'list open deliveries')
      void findOpenDeliveries(database).then((openDeliveries) => report({ openDeliveries }))
    else if ('stopAtRequestUntil' in order) stopAtRequest(order.stopAtRequestUntil)
    else if ('arm' in order) database.arm(order.arm)
    else if ('aheadMs' in order) aheadMs = order.aheadMs
  })
  // An embedded database has one process. All leases in it belong to processes that ended.
  if (database.engine === 'pglite') {
    await sql`update leases set deadline = now() - interval '1 second' where deadline > 'epoch'`
      .execute(database.db)
      .catch(() => undefined)
  }
  const logger = createLogger('warn', { write: reportLine })
  const { service, side } = await openBothSides({
    database,
    flowsDir,
    logger,
    env: { ERP_URL: tablesUrl, CHILD: child },
    aheadMs: () => aheadMs,
    sleep: async (ms, signal) => {
      await wait(Math.min(ms, longestSleepMs), undefined, signal && { signal })
    },
  })
  // Before the start, so that the process may be killed during the start too.
  report({ beginning: { processId: service.deps.processId } })
  await side.start()
  const address = await side.app.listen({ host: '127.0.0.1', port: 0 })
  report({ polling: address })
  const again = async (pauseMs: number, work: () => Promise<unknown>) => {
    for (;;) {
      // A source with a fault fails its poll; the next poll reads it again.
      await work().catch(() => undefined)
      await wait(pauseMs)
    }
  }
  const flows = [...(await side.flows.status()).keys()].filter(
    (flow) => !flow.endsWith(unpolledSuffix),
  )
  await Promise.all(
    flows.flatMap((flow) => [
      again(betweenPollsMs, () => side.flows.sync(flow, { force: false })),
      // One item by itself, during polls. A single record does not show that a field is missing.
      ...(flow.endsWith(losesFieldSuffix)
        ? []
        : [
            again(betweenSyncsMs, () =>
              side.flows.syncItem(flow, `i${Math.floor(Math.random() * mostItems)}`),
            ),
          ]),
    ]),
  )
}

/** undici publishes this when it takes a request: the service permitted it, and no byte is written. */
const requestTaken = 'undici:request:create'

/**
 * Stops this process (SIGSTOP) within its next write to a target, if one begins until then. The time is of the machine's own
 * clock: a process that reads the order late must not stop after the run resumed it.
 */
function stopAtRequest(until: number): void {
  const onRequest = (message: unknown) => {
    const { method } = (message as { request: { method: string } }).request
    const isLate = Date.now() > until
    if (method === 'GET' && !isLate) return
    unsubscribe(requestTaken, onRequest)
    if (isLate) return
    report('stopping')
    process.kill(process.pid, 'SIGSTOP')
  }
  subscribe(requestTaken, onRequest)
}

function reportLine(line: string): void {
  const { level, msg } = JSON.parse(line) as { level: number | string; msg: string }
  const isError = typeof level === 'number' ? level >= levelError : level === 'error'
  report({ logged: { isError, message: msg, line } })
}

/**
 * Deliveries that are open, whose delivered hash is not the current one, or that keep content that the source can give again.
 * The delete of an item that was never sent is done without a request.
 */
async function findOpenDeliveries({ db }: Database): Promise<string[]> {
  type OpenDelivery = Record<
    'flow' | 'pk' | 'destination' | 'state' | 'last_error' | 'skipped',
    string
  >
  const { rows } = await sql<OpenDelivery>`
    select flow, pk, destination, state, last_error, skipped from deliveries
    where (state <> 'done' or delivered_hash is distinct from hash
        or (payload is not null and flow not like ${`%${readOnceSuffix}`}))
      and not (state = 'done' and kind = 'delete' and delivered_hash is null and skipped is not null)`.execute(
    db,
  )
  return rows.map(
    ({ flow, pk, destination, state, last_error: error, skipped }) =>
      `${flow}: ${pk} is ${state} at ${destination}: ${error ?? skipped}`,
  )
}

process.on('disconnect', () => process.exit(0))
process.once('message', (order: Order) => {
  if (typeof order !== 'object' || !('begin' in order)) return
  // A start may fail while a suspended process has locked the rows that it needs. Then the process ends, as a service does.
  begin(order.begin).catch(() => process.exit(1))
})
// Now, since a killed process cannot do it at its end.
flushCompileCache()
report('loaded')
