import type { Trx } from '../../db/database.ts'
import { AppError } from '../../errors/app-error.ts'
import { confirmItem, lockItems, upsertHashes } from '../../repositories/flows/flow-items.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-problems.ts'
import { findFlowState, hasPollBegunSince, nextRead } from '../../repositories/flows/flow-state.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { groupAll } from '../item/group-rows.ts'
import { splitKey } from '../item/key.ts'
import { looksAs } from '../poll/item-changes.ts'
import { watchFields } from '../poll/missing-fields.ts'
import { refuseUnknownDestinations } from '../poll/plan.ts'
import type { PollDeps } from '../poll/poll-lease.ts'
import { type Item, SourceError } from '../types.ts'

export type ItemSyncDeps = PollDeps & {
  /** Has the failed deliveries of an item tried again; answers how many. */
  retryItem: (flow: string, pk: string) => Promise<number>
}

/** Longest read of one item. */
const readWithinMs = 60_000
/** Of one item, when others read it at the same time. */
const mostReads = 5

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
  for (let reads = 0; reads < mostReads; reads += 1) {
    const read = await nextRead(deps.database.db)
    const item = await readItem(deps, runtime, pk, key)
    if (!item) return { found: false, changed: false, jobs: 0 }
    const became = await deps.database.transaction((trx) =>
      storeItem(deps, runtime, trx, item, read),
    )
    if (became === 'changed') return { found: true, changed: true, jobs: flow.destinations.length }
    if (became === 'unchanged') {
      return { found: true, changed: false, jobs: await deps.retryItem(flow.name, pk) }
    }
  }
  throw new AppError('CONFLICT', {
    message: 'The flow is polled again and again while the item is read; its polls send it',
    extra: { retryAfterSeconds: 1 },
  })
}

/**
 * What a read shows of an item becomes owed, unless it is `overtaken`: a poll that began after it may have seen a newer
 * content, found nothing new in it, and gone on for good.
 */
async function storeItem(
  deps: ItemSyncDeps,
  runtime: FlowRuntime,
  trx: Trx,
  item: Item,
  read: number,
): Promise<'changed' | 'unchanged' | 'overtaken'> {
  const { name } = runtime.flow
  const { pk, hash, value } = item
  const state = await findFlowState(trx, name)
  const stored = (await lockItems(trx, name, [pk])).get(pk)
  if (looksAs(runtime.hashOver, item, stored?.hash, state?.hash_forms ?? {})) {
    await confirmItem(trx, name, pk, read)
    return 'unchanged'
  }
  if (await hasPollBegunSince(trx, name, read)) return 'overtaken'
  await refuseUnknownDestinations(deps, runtime, await findFlowState(trx, name))
  const { ours, same } = await upsertHashes(trx, name, [{ pk, hash }], { read, at: deps.now() })
  if (same.has(pk)) return 'unchanged'
  if (!ours.has(pk)) return 'overtaken'
  const isAnew = stored === undefined
  await deps.enqueue(trx, runtime, [{ pk, kind: 'upsert', hash, value, change: read, isAnew }])
  return 'changed'
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
    watchFields(runtime, { record_fields: null, record_fields_form: null }).check(records)
    const items: Item[] = []
    for (const record of records) {
      const read = await runtime.read(record)
      if ('item' in read && read.item.pk === pk) items.push(read.item)
      if ('problem' in read) throw new SourceError(read.problem.message)
    }
    return items.at(-1)
  } catch (error) {
    if (error instanceof SourceError) {
      const problem = { flow: flow.name, pk, why: error.why, at: deps.now() }
      await insertSourceProblem(deps.database.db, problem)
    }
    throw error
  }
}
