import type { Database, Trx } from '../../db/database.ts'
import type { Log } from '../../domain/log.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import type { ItemChange } from '../types.ts'
import type { ItemMemory } from './item-memory.ts'

/** What a poll needs. */
export type PollDeps = {
  database: Database
  now: () => Date
  log: Log
  /** See createEnqueue. */
  enqueue: Enqueue
  /** Whether the flow files contain this definition, as far as they can be read. If not, they are read again soon. */
  isOnFile: (runtime: FlowRuntime) => Promise<boolean>
  /** See Deliveries. */
  isDeletedBeside: (flow: string) => boolean
  /** Without it each item is looked up. */
  memory?: ItemMemory | undefined
}

/**
 * Queues changes with distinct keys for the destinations of a flow, or for the one named `only`. `areNew`: items
 * without any stored row, whose hashes are stored too; it rejects if a row exists.
 */
export type Enqueue = (
  trx: Trx,
  runtime: Pick<FlowRuntime, 'flow'>,
  changes: readonly ItemChange[],
  options?: { only?: string; areNew?: boolean },
) => Promise<void>
