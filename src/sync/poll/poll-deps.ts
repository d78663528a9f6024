import type { Database, Trx } from '../../db/database.ts'
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
