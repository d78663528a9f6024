import { createBackgroundJob } from '../../jobs/background-job.ts'
import { newestUnappliedClass } from '../../repositories/settlements/net-amount-queries.ts'
import { listDueFetches } from '../../repositories/settlements/settlement-fetches.ts'
import type { PaymentDeps } from '../deps.ts'
import { workFetches } from './fetch-reports.ts'
import { applyChargeClasses } from './update-net-amounts.ts'

/** Fetches reports, and computes nets with new rules: each in one process at a time. */
export type SettlementJobs = {
  start(): void
  /** Resolves after the current work is done; the next process continues. */
  stop(): Promise<void>
  /** Does all that is due now. */
  workOnce(): Promise<void>
}

const intervalMs = 10_000

export function createSettlementJobs(deps: PaymentDeps): SettlementJobs {
  const { db } = deps.database
  const fetches = createBackgroundJob(deps, {
    name: 'settlement-fetches',
    intervalMs,
    lease: { deps, isDue: async () => (await listDueFetches(db, deps.now(), 1)).length > 0 },
    run: (signal) => workFetches(deps, signal),
  })
  const chargeClasses = createBackgroundJob(deps, {
    name: 'charge-classes',
    intervalMs,
    lease: { deps, isDue: async () => (await newestUnappliedClass(db)) !== null },
    run: (signal) => applyChargeClasses(deps, Number.POSITIVE_INFINITY, signal),
  })

  return {
    async workOnce() {
      await fetches.once()
      await chargeClasses.once()
    },
    start() {
      fetches.start()
      chargeClasses.start()
    },
    async stop() {
      await Promise.all([fetches.stop(), chargeClasses.stop()])
    },
  }
}
