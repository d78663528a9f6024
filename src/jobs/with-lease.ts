import type { Database, Trx } from '../db/database.ts'
import type { SendPermit } from '../outbound/outbound.ts'
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

/** A lease that this process has. */
export type HeldLease = LeaseToken & {
  /** Aborts when a renewal failed, because another process may start then. */
  signal: AbortSignal
  /**
   * For work that sends: nothing may be sent unless the permit was given and is still valid at the first byte. A process may stand still
   * at any moment, and another one has the lease when it goes on.
   */
  permit: SendPermit
}

/** A permit ends before another process may take the lease: clocks differ, and the first byte takes a moment. */
const validShare = 0.9

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
  let proven = { at: now(), ms: performance.now() }
  const lease = await takeLease(database, { name, owner, now: proven.at, lengthMs })
  if (!lease) return undefined
  const lost = new AbortController()
  const renew = async () => {
    const asked = { at: now(), ms: performance.now() }
    const times = { now: asked.at, lengthMs }
    if (await renewLease(database.db, lease, times).catch(() => false)) proven = asked
    else lost.abort()
  }
  // By both clocks: only one of them advances while the machine is suspended.
  const ageMs = () => Math.max(performance.now() - proven.ms, now().getTime() - proven.at.getTime())
  const isValid = () => !lost.signal.aborted && ageMs() < lengthMs * validShare
  const permit: SendPermit = async () => {
    if (ageMs() > lengthMs / 2) await renew()
    return isValid() ? isValid : undefined
  }
  const renewal = setInterval(renew, lengthMs / 3)
  try {
    return { result: await work({ ...lease, signal: lost.signal, permit }) }
  } finally {
    clearInterval(renewal)
    await releaseLease(database.db, lease).catch((error) =>
      log.warn({ err: error, lease: name }, 'lease not released; it expires'),
    )
  }
}
