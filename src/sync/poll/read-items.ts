import type { FlowRuntime } from '../flow-runtime.ts'
import { groupAll, groupRows } from '../item/group-rows.ts'
import { splitKey } from '../item/key.ts'
import { shorten } from '../mapping/excerpt.ts'
import { type Item, SourceError, type SourceRow } from '../types.ts'
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

/** What a read of a source has met so far. */
export type Met = {
  seen: KeySet
  /** How many records it gave. */
  records: number
  /** Where the records of each file begin, of a source that reads files. */
  files: { name: string; before: number }[]
  /** Items whose key came again in the same file or answer: the last record counts, so they wait for the end of the read. */
  repeated: Map<string, { item: Item; first: number; last: number; times: number }>
  /** Keys that came again in the read before this one. */
  known: ReadonlySet<string>
}

/** Beyond that many, keys that came again are not kept in mind for the next read. */
const mostKeysKnown = 100_000

/** By the definition that a flow has now. */
const repeatedBefore = new WeakMap<FlowRuntime, ReadonlySet<string>>()

export function createMet(runtime: FlowRuntime, seen: KeySet): Met {
  const known = repeatedBefore.get(runtime) ?? new Set()
  return { seen, records: 0, files: [], repeated: new Map(), known }
}

/** Keeps in mind which keys came more than once in a read, for the next one. */
export function rememberRepeated(runtime: FlowRuntime, { repeated }: Met): void {
  const keys = [...repeated].flatMap(([pk, { times }]) => (times > 1 ? [pk] : []))
  repeatedBefore.set(runtime, new Set(keys.slice(0, mostKeysKnown)))
}

/** How a poll reads: `since` is where it begins, null for the beginning. */
type Reading = { since: string | null; signal: AbortSignal }

/**
 * The records of a source, put together as the flow's `groupBy` says. Of an incremental read the items are read again whole, by their
 * keys: it has only those of their records that changed.
 */
export async function* recordsOf(
  runtime: FlowRuntime,
  batches: AsyncIterable<SourceRow[]>,
  { since, signal }: Reading,
): AsyncGenerator<SourceRow[]> {
  const rules = groupRules(runtime)
  if (rules.source.groupBy === undefined || since === null) yield* groupRows(rules, batches)
  else yield* wholeGroups(runtime, batches, signal)
}

/** Beyond that one read of everything costs the source less. */
const mostReadsByKey = 100

async function* wholeGroups(
  runtime: FlowRuntime,
  batches: AsyncIterable<SourceRow[]>,
  signal: AbortSignal,
): AsyncGenerator<SourceRow[]> {
  const { source, read } = runtime
  const rules = groupRules(runtime)
  const keys = new Map<string, readonly string[]>()
  const pkOf = async (row: SourceRow): Promise<string | null> => {
    const found = await read(row)
    if ('problem' in found) return found.problem.pk
    return 'item' in found ? found.item.pk : found.pk
  }
  for await (const rows of batches) {
    for (const row of rows) {
      const pk = await pkOf(row)
      const key = pk === null ? undefined : splitKey(pk, runtime.flow.item.key.length)
      if (pk !== null && key) keys.set(pk, key)
      else yield [row]
    }
  }
  if (keys.size > mostReadsByKey) {
    const all = source.scan({ since: null, signal, lookOnly: true })
    for await (const rows of groupRows(rules, all)) {
      const pks = await Promise.all(rows.map(pkOf))
      yield rows.filter((_, index) => pks[index] === null || keys.has(pks[index] ?? ''))
    }
    return
  }
  for (const key of keys.values()) yield groupAll(rules, await source.readItem({ key, signal }))
}

function groupRules({ flow }: FlowRuntime) {
  const groupBy = 'groupBy' in flow.source ? flow.source.groupBy : undefined
  return { item: flow.item, source: { groupBy } }
}

/** Whether items are put together from several records, so that a key that comes twice means a part of an item. */
export function isGrouped({ flow }: Pick<FlowRuntime, 'flow'>): boolean {
  return 'groupBy' in flow.source && flow.source.groupBy !== undefined
}

/**
 * Makes items of records. `met` has what the read met so far and gets these too; rejects when `signal` aborts, and with SourceError
 * when the records of a grouped item are not neighbours.
 *
 * Of several records of one key the last one is the item. Of several files the newest is read first, so a key that another file had
 * is passed over.
 */
export async function readBatch(
  runtime: FlowRuntime,
  rows: readonly SourceRow[],
  met: Met,
  signal: AbortSignal,
): Promise<ReadBatch> {
  const batch: ReadBatch = { items: [], problems: [], filtered: 0 }
  for (const row of rows) {
    const others = breathe()
    if (others) await others
    signal.throwIfAborted()
    const read = await runtime.read(row)
    met.records += 1
    if ('problem' in read) batch.problems.push({ ...read.problem, isDuplicate: false })
    else if ('skipped' in read) batch.filtered += 1
    else meet(runtime, met, batch, read.item)
  }
  return batch
}

function meet(runtime: FlowRuntime, met: Met, batch: ReadBatch, item: Item): void {
  const { pk } = item
  const { seen, repeated, records: record } = met
  if (seen.add(pk, record)) {
    // What came again last time will again: to send the first record first would change the item back and forth.
    if (met.known.has(pk)) repeated.set(pk, { item, first: record, last: record, times: 1 })
    else batch.items.push(item)
    return
  }
  if (isGrouped(runtime)) {
    const { key } = runtime.flow.item
    throw new SourceError(
      `the records of ${shorten(pk)} are not neighbours, so its lists would be cut; order the source by ${key.join(', ')}`,
    )
  }
  const before = repeated.get(pk)
  const first = before?.first ?? seen.recordOf(pk)
  if (fileOf(met, first) !== fileOf(met, record)) return
  repeated.set(pk, { item, first, last: record, times: (before?.times ?? 1) + 1 })
  if (before) return
  const place = batch.items.findIndex((one) => one.pk === pk)
  if (place >= 0) batch.items.splice(place, 1)
}

/**
 * The items whose key came more than once, when everything is read: the last record of each. It is a problem where everything was
 * read, since one of the two is wrong; of changes the later one follows the earlier.
 */
export function repeatedItems(
  { source }: Pick<FlowRuntime, 'source'>,
  met: Met,
  { isFull }: { isFull: boolean },
): ReadBatch {
  const isProblem = isFull && source.repeatsKeys !== true
  const batch: ReadBatch = { items: [], problems: [], filtered: 0 }
  for (const [pk, { item, first, last, times }] of met.repeated) {
    batch.items.push(item)
    if (!isProblem || times === 1) continue
    const places = `at ${placeOf(met, first)} and ${placeOf(met, last)}`
    const message = `the key stands ${times} times in the source, first and last ${places}; the last record counts`
    batch.problems.push({ pk, message, isDuplicate: true })
  }
  return batch
}

function fileOf({ files }: Met, record: number) {
  return files.findLast(({ before }) => before < record)
}

function placeOf(met: Met, record: number): string {
  const file = fileOf(met, record)
  return file ? `${file.name} record ${record - file.before}` : `record ${record}`
}
