import type { Database } from '../../db/database.ts'
import type { Step } from '../../db/steps.ts'
import { createBackgroundJob } from '../../jobs/background-job.ts'
import { createThrottledSteps } from '../../jobs/throttled-steps.ts'
import { deleteFinished } from '../../repositories/flows/finished-deliveries.ts'
import { deleteFlowErrorsBefore } from '../../repositories/flows/flow-errors.ts'
import { trimFlowActivity } from '../../repositories/flows/flow-pauses-and-limits.ts'
import { trimItemHistory } from '../../repositories/flows/item-versions.ts'
import { deleteUnusedGrants } from '../../repositories/flows/oauth-grants.ts'
import type { Flow } from '../definition/schema.ts'
import { accessesOf, grantIdOf } from '../oauth/lost-access.ts'
import type { FlowEngine } from './flow-engine.ts'

type HousekeepingDeps = {
  database: Database
  now: () => Date
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  stopwatch: () => number
  processId: string
  log: {
    warn(fields: object, message: string): void
    error(fields: object, message: string): void
  }
  engine: FlowEngine
}

const everyMs = 3_600_000
const firstAfterMs = 60_000
const activityKept = 10_000
/** Longer than any known issuer keeps an unused refresh token. */
const unusedGrantsMs = 400 * 24 * 3_600_000

/** Deletes old data by the `queue` settings of each flow, once an hour and in one process at a time. */
export function createHousekeeping(deps: HousekeepingDeps) {
  let pauseMs = firstAfterMs
  return createBackgroundJob(deps, {
    name: 'flows:housekeeping',
    intervalMs: everyMs,
    waitsFirst: true,
    async untilNextMs() {
      const ms = pauseMs
      pauseMs = everyMs
      return ms
    },
    lease: { deps },
    async run(signal) {
      const step = createThrottledSteps(deps, signal)
      const flows = [...deps.engine.flows().values()].map(({ loaded }) => loaded.flow)
      try {
        for (const flow of flows) await cleanDeliveries(deps, flow, step)
      } catch (error) {
        // The next run goes on.
        if (!signal.aborted) throw error
        return
      }
      await trimFlowActivity(deps.database.db, activityKept)
      const unusedSince = new Date(deps.now().getTime() - unusedGrantsMs)
      await deleteUnusedGrants(deps.database.db, flows.flatMap(grantIdsOf), unusedSince)
    },
  })
}

/** The numbers of deleted rows. */
type Cleaned = { deliveries: number; errors: number; history: number }

/**
 * Deletes what a flow no longer keeps by its definition. `keepFailed` applies to failed deliveries and /errors,
 * `keepHistory` to versions and attempts, `keepCompleted` to deliveries of items that the flow no longer has. For
 * other items the row stays without content, as proof that the destination has it: one row per item and destination.
 * The next change of a deleted row's item makes a new row.
 */
export async function cleanDeliveries(
  deps: { database: Database; now: () => Date },
  { name, queue }: Pick<Flow, 'name' | 'queue'>,
  step?: Step,
): Promise<Cleaned> {
  const { db } = deps.database
  const now = deps.now().getTime()
  const steps = step ? { step } : {}
  const doneBefore = new Date(now - queue.keepCompletedMs)
  const failedBefore = new Date(now - queue.keepFailedMs)
  const deliveries = await deleteFinished(deps.database, name, { doneBefore, failedBefore }, steps)
  const errors = await deleteFlowErrorsBefore(db, name, failedBefore, steps)
  const historyBefore = new Date(now - queue.keepHistoryMs)
  const history = await trimItemHistory(deps.database, name, historyBefore, steps)
  return { deliveries, errors, history }
}

function grantIdsOf(flow: Pick<Flow, 'source' | 'destinations'>): string[] {
  return accessesOf(flow).flatMap(({ auth }) => grantIdOf(auth) ?? [])
}
