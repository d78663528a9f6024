import type { Database, Trx } from '../db/database.ts'
import {
  keepLease,
  type LeaseToken,
  leaseMs,
  releaseLease,
  renewLease,
  takeLease,
} from '../repositories/leases.ts'

export type LeaseDeps = {
  database: Database
  now: () => Date
  /** The name of this process as an owner of leases. */
  processId: string
  log: { warn(fields: object, message: string): void }
}

/** A lease that this process has. `signal` aborts when a renewal failed, because another process may start then. */
export type HeldLease = LeaseToken & { signal: AbortSignal }

/** Another process has taken the lease. Nothing more may be written. */
export class LeaseLostError extends Error {
  constructor() {
    super('the lease was lost')
    this.name = 'LeaseLostError'
  }
}

/**
 * Runs a transaction that only the holder of the lease may commit. Otherwise rejects with LeaseLostError and writes
 * nothing.
 */
export async function underLease<T>(
  { database }: Pick<LeaseDeps, 'database'>,
  lease: HeldLease,
  work: (trx: Trx) => Promise<T>,
): Promise<T> {
  if (lease.signal.aborted) throw new LeaseLostError()
  return await database.transaction(async (trx) => {
    const done = await work(trx)
    // Last: from here until the commit, a process that takes the lease waits.
    if (!(await keepLease(trx, lease))) throw new LeaseLostError()
    return done
  })
}

/**
 * Runs `work` while nothing else runs under the lease of this name, in any process. Returns `undefined` at once if it is
 * taken. The lease lasts `lengthMs` and is renewed every third of that.
 */
export async function withLease<T>(
  { database, now, processId: owner, log }: LeaseDeps,
  name: string,
  work: (lease: HeldLease) => Promise<T>,
  lengthMs = leaseMs,
): Promise<{ result: T } | undefined> {
  const lease = await takeLease(database, { name, owner, now: now(), lengthMs })
  if (!lease) return undefined
  const lost = new AbortController()
  const renewal = setInterval(() => {
    renewLease(database.db, lease, { now: now(), lengthMs }).then(
      (isRenewed) => isRenewed || lost.abort(),
      () => lost.abort(),
    )
  }, lengthMs / 3)
  try {
    return { result: await work({ ...lease, signal: lost.signal }) }
  } finally {
    clearInterval(renewal)
    await releaseLease(database.db, lease).catch((error) =>
      log.warn({ err: error, lease: name }, 'lease not released; it expires'),
    )
  }
}
