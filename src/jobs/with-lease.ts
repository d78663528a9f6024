import type { Database } from '../db/database.ts'
import { acquireLease, leaseMs, releaseLease } from '../repositories/leases.ts'

export type LeaseDeps = {
  database: Database
  now: () => Date
  /** The name of this process as an owner of leases. */
  processId: string
  log: { warn(fields: object, message: string): void }
}

/**
 * Runs `work` while no other process runs work of the same name. Returns `undefined` at once if another process has
 * the lease. The lease lasts `lengthMs` and is renewed every third of that. `signal` aborts if a renewal failed,
 * because another process may start then.
 */
export async function withLease<T>(
  deps: LeaseDeps,
  name: string,
  work: (lease: { token: number; signal: AbortSignal }) => Promise<T>,
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
    return { result: await work({ token, signal: lost.signal }) }
  } finally {
    clearInterval(renewal)
    await releaseLease(db, { name, owner: deps.processId }).catch((error) =>
      deps.log.warn({ err: error, lease: name }, 'lease not released; it expires'),
    )
  }
}
