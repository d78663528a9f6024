import type { FlowRuntime } from '../flow-runtime.ts'
import { groupRows } from '../item/group-rows.ts'
import type { Item, SourceRow } from '../types.ts'
import { createBreather } from './breather.ts'
import type { KeySet } from './key-set.ts'

/** A record that is no item, or repeats one. `pk` is null when it has no usable key. */
export type RecordProblem = {
  pk: string | null
  message: string
  isDuplicate: boolean
  /** Another time the same record may be judged. */
  mayPass?: true
}

/** The items of a batch of records, and what is in the way of the others; `filtered` were left out on purpose. */
export type ReadBatch = { items: Item[]; problems: RecordProblem[]; filtered: number }

/** An item whose hash is not the stored one. `isOwed`: it is to be sent. */
export type FoundChange = { item: Item; kind: 'new' | 'changed'; isOwed: boolean }

/** The records of a source, put together as the flow's `groupBy` says. */
export function recordsOf(
  { flow }: FlowRuntime,
  batches: AsyncIterable<SourceRow[]>,
): AsyncGenerator<SourceRow[]> {
  const groupBy = 'groupBy' in flow.source ? flow.source.groupBy : undefined
  return groupRows({ item: flow.item, source: { groupBy } }, batches)
}

/** Makes items of records. `seen` has the keys met so far and gets these too; rejects when `signal` aborts. */
export async function readBatch(
  runtime: FlowRuntime,
  rows: readonly SourceRow[],
  seen: KeySet,
  signal: AbortSignal,
): Promise<ReadBatch> {
  const batch: ReadBatch = { items: [], problems: [], filtered: 0 }
  const breathe = createBreather()
  for (const row of rows) {
    await breathe()
    signal.throwIfAborted()
    const read = await runtime.read(row)
    if ('problem' in read) batch.problems.push({ ...read.problem, isDuplicate: false })
    else if ('skipped' in read) batch.filtered += 1
    else if (seen.add(read.item.pk)) batch.items.push(read.item)
    else {
      const message = 'the key stands more than once in the source; only its first record counts'
      batch.problems.push({ pk: read.item.pk, message, isDuplicate: true })
    }
  }
  return batch
}

/** Which of the items changed, against the stored hashes by key. Without `sendsChanges` only what was never seen is owed. */
export function changesOf(
  items: readonly Item[],
  stored: ReadonlyMap<string, string>,
  sendsChanges: boolean,
): FoundChange[] {
  return items
    .filter(({ pk, hash }) => stored.get(pk) !== hash)
    .map((item) => {
      const kind = stored.has(item.pk) ? 'changed' : 'new'
      return { item, kind, isOwed: sendsChanges || kind === 'new' }
    })
}
