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
  /** Writes what is owed to the destinations of the flow, or to one alone, and wakes their workers, in the given transaction. */
  enqueue: (
    trx: Trx,
    runtime: FlowRuntime,
    changes: readonly ItemChange[],
    only?: string,
  ) => Promise<void>
  /** As enqueue, of items of which nothing is on record, and stores their hashes; rejects where something is. */
  enqueueNews: (trx: Trx, runtime: FlowRuntime, changes: readonly ItemChange[]) => Promise<void>
  /** Whether the flow files say this definition, as far as they can be read; if not, they are read again soon. */
  isOnFile: (runtime: FlowRuntime) => Promise<boolean>
}

export type PollLease = { name: string; token: number; signal: AbortSignal }

/** Another process took the flow over in the middle of the poll; nothing more of it may be written. */
export class LeaseLostError extends Error {
  constructor() {
    super('the lease of the flow was lost')
    this.name = 'LeaseLostError'
  }
}

/** Does something in a transaction that only the holder of the lease may. Rejects with LeaseLostError, and writes nothing then. */
export async function underLease<T>(
  { database, now }: Pick<PollDeps, 'database' | 'now'>,
  lease: PollLease,
  work: (trx: Trx) => Promise<T>,
): Promise<T> {
  if (lease.signal.aborted) throw new LeaseLostError()
  return await database.transaction(async (trx) => {
    const done = await work(trx)
    // Last of all: the row stays locked until the commit, and another batch and the next renewal need it too.
    if (!(await holdsLease(trx, { ...lease, now: now() }))) throw new LeaseLostError()
    return done
  })
}
