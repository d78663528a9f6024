import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { flushCompileCache } from 'node:module'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Database } from '../../src/db/database.ts'
import { createLogger } from '../../src/http/logging.ts'
import { openBothSides } from '../support/both-sides.ts'
import { type CrashPoint, openCrashingDatabase } from './crashing-database.ts'
import { losing, mostItems, quiet } from './lane.ts'
import type { StatementStep } from './steps.ts'

/** Where a process begins: its database, its flow files, and where sources have tables. */
export type Where = {
  database: { databaseUrl: string } | { dataDir: string }
  flowsDir: string
  tablesUrl: string
  /** The name under which requests tell that they are of this process. */
  child: string
}

/** To the child: begin, die at this point, set the clock so far ahead, list open deliveries, or stop at a request before this time. */
export type Order =
  | { begin: Where }
  | { arm: CrashPoint }
  | { aheadMs: number }
  | 'what is owed'
  | { stopAtRequestUntil: number }

/** From the child. */
export type Report =
  | 'loaded'
  | { beginning: { processId: string } }
  /** It polls and delivers, and is asked under this address. */
  | { polling: string }
  /** It has said something at level warn or above. */
  | { said: { isError: boolean; message: string; line: string } }
  | { owed: string[] }
  /** It comes to this step for the first time. */
  | { passes: StatementStep }
  /** It stops now, with a request to a target that has its permit and is not sent. */
  | 'stopping'

/** Sleeps are this short, so that many polls fit into a life. */
const longestSleepMs = 20
const betweenPollsMs = 250
const betweenSyncsMs = 300
/** That of a warning, as the logger writes it. */
const levelError = 50

const report = (message: Report) => void process.send?.(message)

/** The flow side of a service that may die at any moment, with most flows polled again and again. */
async function begin({ database: place, flowsDir, tablesUrl, child }: Where) {
  const passed = new Set<StatementStep>()
  const database = await openCrashingDatabase(place, (step) => {
    if (!passed.has(step)) report({ passes: step })
    passed.add(step)
  })
  let aheadMs = 0
  process.on('message', (order: Order) => {
    if (order === 'what is owed') void findOwed(database).then((owed) => report({ owed }))
    else if ('stopAtRequestUntil' in order) stopAtRequest(order.stopAtRequestUntil)
    else if ('arm' in order) database.arm(order.arm)
    else if ('aheadMs' in order) aheadMs = order.aheadMs
  })
  // Nobody else can have an embedded database: whoever had something in hand there is dead.
  if (database.engine === 'pglite') {
    await sql`update leases set deadline = now() - interval '1 second' where deadline > 'epoch'`
      .execute(database.db)
      .catch(() => undefined)
  }
  const logger = createLogger('warn', { write: say })
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
  // Before the start, so that the process may die in the middle of that too.
  report({ beginning: { processId: service.deps.processId } })
  await side.start()
  const address = await side.app.listen({ host: '127.0.0.1', port: 0 })
  report({ polling: address })
  const again = async (pauseMs: number, work: () => Promise<unknown>) => {
    for (;;) {
      // A source that misbehaves fails its poll; the next one makes up for it.
      await work().catch(() => undefined)
      await wait(pauseMs)
    }
  }
  const flows = [...(await side.flows.status()).keys()].filter((flow) => !flow.endsWith(quiet))
  await Promise.all(
    flows.flatMap((flow) => [
      again(betweenPollsMs, () => side.flows.sync(flow, { force: false })),
      // One item by itself, in the middle of polls. Of a single record nobody can tell that a field is missing.
      ...(flow.endsWith(losing)
        ? []
        : [
            again(betweenSyncsMs, () =>
              side.flows.syncItem(flow, `i${Math.floor(Math.random() * mostItems)}`),
            ),
          ]),
    ]),
  )
}

/** What undici publishes when it takes a request: the permit was given, and no byte is written. */
const requestTaken = 'undici:request:create'

/**
 * Stops this process (SIGSTOP) within its next write to a target, if one begins until then: a time of the machine's own clock,
 * since a process that reads the order late would stop after the run has woken it.
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

function say(line: string): void {
  const { level, msg } = JSON.parse(line) as { level: number | string; msg: string }
  const isError = typeof level === 'number' ? level >= levelError : level === 'error'
  report({ said: { isError, message: msg, line } })
}

/**
 * What is written down as owed, or as delivered otherwise than it was seen. The delete of an item of which nothing was ever sent is
 * done without a request.
 */
async function findOwed({ db }: Database): Promise<string[]> {
  type Owed = Record<'flow' | 'pk' | 'destination' | 'state' | 'last_error' | 'skipped', string>
  const { rows } = await sql<Owed>`
    select flow, pk, destination, state, last_error, skipped from deliveries
    where (state <> 'done' or delivered_hash is distinct from hash or payload is not null)
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
  // A start may fail while somebody who stands still has the rows that it needs: then it is over, as a service's would be.
  begin(order.begin).catch(() => process.exit(1))
})
// Who is killed writes nothing at its end.
flushCompileCache()
report('loaded')
