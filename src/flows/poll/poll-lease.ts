import type { Database, Trx } from '../../db/database.ts'
import { holdsLease } from '../../repositories/flows/flow-state.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { ItemChange } from '../types.ts'

export type PollDeps = {
  database: Database
  now: () => Date
  log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
    error(fields: object, message: string): void
  }
  /**
   * Queues changes for the destinations of the flow, or for one alone, and wakes their workers when the transaction
   * commits.
   */
  enqueue: (
    trx: Trx,
    runtime: FlowRuntime,
    changes: readonly ItemChange[],
    only?: string,
  ) => Promise<void>
  /** Like enqueue, for items without any stored row; also stores their hashes. Rejects if a row exists. */
  enqueueNewItems: (trx: Trx, runtime: FlowRuntime, changes: readonly ItemChange[]) => Promise<void>
  /** Whether the flow files contain this definition, as far as they can be read. If not, they are read again soon. */
  isOnFile: (runtime: FlowRuntime) => Promise<boolean>
}

export type PollLease = { name: string; token: number; signal: AbortSignal }

/** Another process took over the flow during the poll. Nothing more of it may be written. */
export class LeaseLostError extends Error {
  constructor() {
    super('the lease of the flow was lost')
    this.name = 'LeaseLostError'
  }
}

/**
 * Runs a transaction that only the holder of the lease may commit. Otherwise rejects with LeaseLostError and writes
 * nothing.
 */
export async function underLease<T>(
  { database, now }: Pick<PollDeps, 'database' | 'now'>,
  lease: PollLease,
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
