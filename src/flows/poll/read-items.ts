import type { Reason } from '../../domain/flow-reasons.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { groupAll, groupRows } from '../item/group-rows.ts'
import { splitKey } from '../item/item.ts'
import { shorten } from '../mapping/excerpt.ts'
import { type Item, SourceError, type SourceRow } from '../types.ts'
import type { KeySet } from './key-set.ts'
import { yieldToEventLoop } from './yield-to-event-loop.ts'

/** An invalid or repeated record. `pk` is null without a usable key. */
export type RecordProblem = {
  pk: string | null
  why: Reason
  isDuplicate: boolean
  /** The same record may be valid another time. */
  mayPass?: true
}

/** The items of a batch, and the problems of other records. `filtered` counts records left out on purpose. */
export type ReadBatch = { items: Item[]; problems: RecordProblem[]; filtered: number }

/** What a read of a source has found so far. */
export type ReadState = {
  seen: KeySet
  /** The number of records. */
  records: number
  /** Where the records of each file begin, for a source that reads files. */
  files: { name: string; before: number }[]
  /**
   * Items whose key was repeated in the same file or answer. The last record counts, so they wait for the end of the
   * read.
   */
  repeated: Map<string, { item: Item; first: number; last: number; times: number }>
  /** Keys that were repeated in the previous read. */
  known: ReadonlySet<string>
}

/** Beyond this number, repeated keys are not remembered for the next read. */
const mostKeysKnown = 100_000

/** By present definition. */
const repeatedBefore = new WeakMap<FlowRuntime, ReadonlySet<string>>()

export function createReadState(runtime: FlowRuntime, seen: KeySet): ReadState {
  const known = repeatedBefore.get(runtime) ?? new Set()
  return { seen, records: 0, files: [], repeated: new Map(), known }
}

/** Remembers the repeated keys of a read for the next one. */
export function rememberRepeated(runtime: FlowRuntime, { repeated }: ReadState): void {
  const keys = [...repeated].flatMap(([pk, { times }]) => (times > 1 ? [pk] : []))
  repeatedBefore.set(runtime, new Set(keys.slice(0, mostKeysKnown)))
}

/** `since` is where a poll begins; null for the beginning. */
type Reading = { since: string | null; signal: AbortSignal }

/**
 * The records of a source, grouped by the flow's `groupBy`. An incremental read has only the changed records, so it
 * reads each item again by key.
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

/** Beyond this number a full read costs the source less. */
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
    const all = source.scan({ since: null, signal, previewOnly: true })
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

/** Whether items consist of several records. Then a repeated key means an incomplete group. */
export function isGrouped({ flow }: Pick<FlowRuntime, 'flow'>): boolean {
  return 'groupBy' in flow.source && flow.source.groupBy !== undefined
}

/**
 * Makes items of records. `readState` has what the read found so far and is updated. Rejects if `signal` aborts, and with
 * SourceError if records of a group are not adjacent. The last record of a key is the item. The newest file is read
 * first, so keys of later files are skipped if an earlier one had them.
 */
export async function readBatch(
  runtime: FlowRuntime,
  rows: readonly SourceRow[],
  readState: ReadState,
  signal: AbortSignal,
): Promise<ReadBatch> {
  const batch: ReadBatch = { items: [], problems: [], filtered: 0 }
  for (const row of rows) {
    const others = yieldToEventLoop()
    if (others) await others
    signal.throwIfAborted()
    const read = await runtime.read(row)
    readState.records += 1
    if ('problem' in read) batch.problems.push({ ...read.problem, isDuplicate: false })
    else if ('skipped' in read) batch.filtered += 1
    else addItem(runtime, readState, batch, read.item)
  }
  return batch
}

function addItem(runtime: FlowRuntime, readState: ReadState, batch: ReadBatch, item: Item): void {
  const { pk } = item
  const { seen, repeated, records: record } = readState
  if (seen.add(pk, record)) {
    // A key that was repeated last time will be again. Sending its first record would change the item back and forth.
    if (readState.known.has(pk)) repeated.set(pk, { item, first: record, last: record, times: 1 })
    else batch.items.push(item)
    return
  }
  if (isGrouped(runtime)) {
    const { key } = runtime.flow.item
    throw new SourceError({ code: 'GROUP_APART', data: { pk: shorten(pk), key: key.join(', ') } })
  }
  const before = repeated.get(pk)
  const first = before?.first ?? seen.recordOf(pk)
  if (fileOf(readState, first) !== fileOf(readState, record)) return
  repeated.set(pk, { item, first, last: record, times: (before?.times ?? 1) + 1 })
  if (before) return
  const place = batch.items.findIndex((one) => one.pk === pk)
  if (place >= 0) batch.items.splice(place, 1)
}

/**
 * The last record of each repeated key, after everything was read. In a full read a repeated key is a problem,
 * because one record is wrong. In an incremental read the later change follows the earlier one.
 */
export function repeatedItems(
  { source }: Pick<FlowRuntime, 'source'>,
  readState: ReadState,
  { isFull }: { isFull: boolean },
): ReadBatch {
  const isProblem = isFull && source.repeatsKeys !== true
  const batch: ReadBatch = { items: [], problems: [], filtered: 0 }
  for (const [pk, { item, first, last, times }] of readState.repeated) {
    batch.items.push(item)
    if (!isProblem || times === 1) continue
    const data = { times, first: placeOf(readState, first), last: placeOf(readState, last) }
    batch.problems.push({ pk, why: { code: 'KEY_TWICE', data }, isDuplicate: true })
  }
  return batch
}

function fileOf({ files }: ReadState, record: number) {
  return files.findLast(({ before }) => before < record)
}

function placeOf(readState: ReadState, record: number): Reason {
  const file = fileOf(readState, record)
  const data = { file: file?.name, record: record - (file?.before ?? 0) }
  return { code: 'RECORD_PLACE', data }
}
