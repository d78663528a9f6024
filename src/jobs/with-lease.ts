import type { Database, Trx } from '../db/database.ts'
import { acquireLease, holdsLease, leaseMs, releaseLease } from '../repositories/leases.ts'

export type LeaseDeps = {
  database: Database
  now: () => Date
  /** The name of this process as an owner of leases. */
  processId: string
  log: { warn(fields: object, message: string): void }
}

/** A lease that this process has. `signal` aborts when a renewal failed, because another process may start then. */
export type HeldLease = { name: string; token: number; signal: AbortSignal }

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
  { database, now }: Pick<LeaseDeps, 'database' | 'now'>,
  lease: HeldLease,
  work: (trx: Trx) => Promise<T>,
): Promise<T> {
  if (lease.signal.aborted) throw new LeaseLostError()
  return await database.transaction(async (trx) => {
    const done = await work(trx)
    // Last, because the row stays locked until the commit, and another batch and the next renewal need it.
    if (!(await holdsLease(trx, { ...lease, now: now() }))) throw new LeaseLostError()
    return done
  })
}

/**
 * Runs `work` while no other process runs work of the same name. Returns `undefined` at once if another process has
 * the lease. The lease lasts `lengthMs` and is renewed every third of that.
 */
export async function withLease<T>(
  deps: LeaseDeps,
  name: string,
  work: (lease: HeldLease) => Promise<T>,
  lengthMs = leaseMs,
): Promise<{ result: T } | undefined> {
  const { db } = deps.database
  const lease = () => ({ name, owner: deps.processId, now: deps.now(), lengthMs })
  const token = await acquireLease(db, lease())
  if (token === undefined) return undefined
  const lost = new AbortController()
  const renewal = setInterval(() => {
    acquireLease(db, lease()).then(
      (renewed) => {
        if (renewed !== token) lost.abort()
      },
      () => lost.abort(),
    )
  }, lengthMs / 3)
  try {
    return { result: await work({ name, token, signal: lost.signal }) }
  } finally {
    clearInterval(renewal)
    await releaseLease(db, { name, owner: deps.processId }).catch((error) =>
      deps.log.warn({ err: error, lease: name }, 'lease not released; it expires'),
    )
  }
}
