import { withLease } from '../../jobs/with-lease.ts'
import { newestUnappliedClass } from '../../repositories/settlements/net-queries.ts'
import { listDueFetches } from '../../repositories/settlements/settlement-fetches.ts'
import type { PaymentDeps } from '../deps.ts'
import { workFetches } from './fetch-reports.ts'
import { applyChargeClasses } from './nets.ts'

/** What nobody waits for: reports that are fetched, and nets by new rules, in one process at a time. */
export type SettlementWork = {
  start(): void
  /** Ends after what is under way; the next process goes on. */
  stop(): Promise<void>
  /** All that is due at this moment. */
  workOnce(): Promise<void>
}

const lookAgainMs = 10_000

export function createSettlementWork(deps: PaymentDeps): SettlementWork {
  const stopped = new AbortController()
  let loop: Promise<void> | undefined

  const alone = (name: string, work: (signal: AbortSignal) => Promise<unknown>) =>
    withLease(deps, name, ({ signal }) => work(AbortSignal.any([stopped.signal, signal])))

  const workOnce = async () => {
    const { db } = deps.database
    if ((await listDueFetches(db, deps.now(), 1)).length > 0) {
      await alone('settlement-fetches', (signal) => workFetches(deps, signal))
    }
    if ((await newestUnappliedClass(db)) !== null) {
      await alone('charge-classes', (signal) =>
        applyChargeClasses(deps, Number.POSITIVE_INFINITY, signal),
      )
    }
  }

  return {
    workOnce,
    start() {
      loop ??= (async () => {
        while (!stopped.signal.aborted) {
          await workOnce().catch((error) =>
            deps.log.error({ err: error }, 'a round over settlements failed; it goes on later'),
          )
          await deps.sleep(lookAgainMs, stopped.signal).catch(() => undefined)
        }
      })()
    },
    async stop() {
      stopped.abort()
      await loop
    },
  }
}
