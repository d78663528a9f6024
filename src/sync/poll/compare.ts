import type { FlowRuntime } from '../flow-runtime.ts'
import { groupRows } from '../item/group-rows.ts'
import type { Item, SourceRow } from '../types.ts'
import { breathe } from './breather.ts'
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
  for (const row of rows) {
    const others = breathe()
    if (others) await others
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

/** What forms of hashes stand for, by their name: the fields that count. */
export type HashForms = Readonly<Record<string, readonly string[]>>

/** What is to be sent of what differs from what is stored. */
export type Telling = { sendsChanges: boolean; sendsNews?: boolean; forms: HashForms }

/** An item that looks as it did, by a hash of another form: `was` is stored, the item's own says the same now. */
export type Restated = { pk: string; hash: string; was: string }

/**
 * Which of the items changed, against the stored hashes by key. Without `sendsChanges` only what was never seen is owed,
 * without `sendsNews` not that either. A
 * stored hash of another form, as before other fields were mapped, is compared in its own form.
 */
export function changesOf(
  { hashes }: Pick<FlowRuntime, 'hashes'>,
  items: readonly Item[],
  stored: ReadonlyMap<string, string>,
  { sendsChanges, sendsNews = true, forms }: Telling,
): { changes: FoundChange[]; restated: Restated[] } {
  const changes: FoundChange[] = []
  const restated: Restated[] = []
  for (const item of items) {
    const was = stored.get(item.pk)
    switch (comparison(hashes, item, was, forms)) {
      case 'same':
        break
      case 'restated':
        restated.push({ pk: item.pk, hash: item.hash, was: was ?? '' })
        break
      default:
        changes.push({
          item,
          kind: was === undefined ? 'new' : 'changed',
          isOwed: was === undefined ? sendsNews : sendsChanges,
        })
    }
  }
  return { changes, restated }
}

/** Whether two hashes are of one content, also where their forms are others. */
export function isContent(hash: string, other: string | undefined): boolean {
  return other !== undefined && hash.endsWith(other.slice(Math.max(0, other.indexOf(':'))))
}

/** Whether an item looks as the stored hash says. */
export function comparison(
  hashes: FlowRuntime['hashes'],
  item: Item,
  was: string | undefined,
  forms: HashForms,
): 'same' | 'restated' | 'different' {
  if (was === undefined) return 'different'
  if (was === item.hash) return 'same'
  const colon = was.indexOf(':')
  const form = was.slice(0, colon)
  if (form === hashes.hashForm) return 'different'
  // What counts was written down alike.
  if (isContent(item.hash, was)) return 'same'
  return hashes.hashAs(item, form, forms[form]) === was ? 'restated' : 'different'
}
