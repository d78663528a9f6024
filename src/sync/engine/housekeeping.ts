import type { Database } from '../../db/database.ts'
import { withLease } from '../../jobs/with-lease.ts'
import { trimFlowActivity } from '../../repositories/flows/flow-switches.ts'
import { deleteUnusedGrants } from '../../repositories/flows/oauth-grants.ts'
import type { Flow } from '../definition/schema.ts'
import type { Deliveries } from '../deliver/deliver.ts'
import { accessesOf, grantIdOf } from '../oauth/lost-grant.ts'
import type { FlowEngine } from './flow-engine.ts'

export type HousekeepingDeps = {
  database: Database
  now: () => Date
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  processId: string
  log: {
    warn(fields: object, message: string): void
    info(fields: object, message: string): void
  }
  engine: FlowEngine
  deliveries: Deliveries
}

const everyMs = 3_600_000
const firstAfterMs = 60_000
const activityKept = 10_000
/** Longer than any issuer is known to keep a refresh token that nobody uses. */
const unusedGrantsMs = 400 * 24 * 3_600_000

/** Forgets, once an hour and in one process at a time, what the flows' own `queue` settings say is old. */
export function createHousekeeping(deps: HousekeepingDeps) {
  const stopped = new AbortController()
  let loop: Promise<void> | undefined

  const clean = async () => {
    await withLease(deps, 'flows:housekeeping', async ({ signal }) => {
      for (const { loaded } of deps.engine.flows().values()) {
        if (signal.aborted || stopped.signal.aborted) return
        await deps.deliveries.clean(loaded.flow)
      }
      await trimFlowActivity(deps.database.db, activityKept)
      const flows = [...deps.engine.flows().values()].map(({ loaded }) => loaded.flow)
      const unusedSince = new Date(deps.now().getTime() - unusedGrantsMs)
      await deleteUnusedGrants(deps.database.db, flows.flatMap(grantIdsOf), unusedSince)
    })
  }

  const run = async () => {
    for (let pauseMs = firstAfterMs; !stopped.signal.aborted; pauseMs = everyMs) {
      await deps.sleep(pauseMs, stopped.signal).catch(() => undefined)
      if (stopped.signal.aborted) return
      await clean().catch((error: unknown) =>
        deps.log.warn({ err: error }, 'the housekeeping of the flows failed'),
      )
    }
  }

  return {
    clean,
    start() {
      loop ??= run()
    },
    async stop() {
      stopped.abort()
      await loop
    },
  }
}

function grantIdsOf(flow: Pick<Flow, 'source' | 'destinations'>): string[] {
  return accessesOf(flow).flatMap(({ auth }) => grantIdOf(auth) ?? [])
}
