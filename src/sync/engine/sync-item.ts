import { findHashes, lockItemsChangedSince, upsertHashes } from '../../repositories/flow-items.ts'
import { insertSourceProblem } from '../../repositories/flow-problems.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { groupAll } from '../item/group-rows.ts'
import { splitKey } from '../item/key.ts'
import type { PollDeps } from '../poll/poll-deps.ts'
import { type Item, SourceError } from '../types.ts'

export type ItemSyncDeps = PollDeps & {
  /** Has the failed deliveries of an item tried again; answers how many. */
  retryItem: (flow: string, pk: string) => Promise<number>
}

/** Longest read of one item. */
const readWithinMs = 60_000

/**
 * Reads one item from the source and queues it when it changed, whether the flow is paused or not. An item that did not
 * change but failed to arrive is sent again. A source that cannot be read is
 * recorded among the errors and thrown.
 */
export async function syncItem(
  deps: ItemSyncDeps,
  runtime: FlowRuntime,
  pk: string,
): Promise<{ found: boolean; changed: boolean; jobs: number }> {
  const { flow } = runtime
  const key = splitKey(pk, flow.item.key.length)
  if (!key) return { found: false, changed: false, jobs: 0 }
  const readSince = deps.now()
  const item = await readItem(deps, runtime, pk, key)
  if (!item) return { found: false, changed: false, jobs: 0 }
  const changed = await deps.database.transaction(async (trx) => {
    const newer = await lockItemsChangedSince(trx, flow.name, [pk], readSince)
    const stored = await findHashes(trx, flow.name, [pk])
    // Whoever wrote it meanwhile has read it after us.
    if (newer.has(pk) || stored.get(pk) === item.hash) return false
    await upsertHashes(trx, flow.name, [item], deps.now())
    await deps.enqueue(trx, runtime, [{ pk, kind: 'upsert', hash: item.hash, value: item.value }])
    return true
  })
  const jobs = changed ? flow.destinations.length : await deps.retryItem(flow.name, pk)
  return { found: true, changed, jobs }
}

async function readItem(
  deps: ItemSyncDeps,
  runtime: FlowRuntime,
  pk: string,
  key: readonly string[],
): Promise<Item | undefined> {
  const { flow, source } = runtime
  const groupBy = 'groupBy' in flow.source ? flow.source.groupBy : undefined
  try {
    const rows = await source.readItem({ key, signal: AbortSignal.timeout(readWithinMs) })
    const records = await groupAll({ item: flow.item, source: { groupBy } }, rows)
    const items: Item[] = []
    for (const record of records) {
      const read = await runtime.read(record)
      if ('item' in read && read.item.pk === pk) items.push(read.item)
      if ('problem' in read) throw new SourceError(read.problem.message)
    }
    if (items.length > 1) throw new SourceError('the source has more than one record of this key')
    return items[0]
  } catch (error) {
    if (error instanceof SourceError) {
      const problem = { flow: flow.name, pk, error: error.message, at: deps.now() }
      await insertSourceProblem(deps.database.db, problem)
    }
    throw error
  }
}
