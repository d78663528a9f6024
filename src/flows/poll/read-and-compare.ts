import { yieldToEventLoop } from '../../jobs/yield-to-event-loop.ts'
import { unreadHash } from '../../repositories/flows/flow-items.ts'
import type { Reason } from '../../texts/reason.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { type FileStart, groupedRecords } from '../item/group-rows.ts'
import { createKeySet, type ItemKeys, type KeySet } from '../item/key-set.ts'
import { shorten } from '../mapping/excerpt.ts'
import {
  type Item,
  invalidRecordReason,
  SourceError,
  type SourceRow,
  type SourceWarning,
} from '../types.ts'
import { type Ahead, followPosition, type Position } from './cursor.ts'
import type { FieldWatch } from './missing-fields.ts'

/**
 * An item whose hash differs from the stored one, `was`. The source has changed it, or the definition, or the source changed it
 * and the definition gave it another key.
 */
export type FoundChange = {
  item: Item
  kind: 'new' | 'changed'
  cause: 'source' | 'definition' | 'both'
  was: string | undefined
}

/** Distinguishes changes of the source from those of the definition, while a changed definition is compared. */
export type CauseRules = {
  /** Items are made as before: whatever differs is a change of the source. */
  isSameForm: boolean
  /** Items that are not known are new at the source: the definition reads the same items as before. */
  areNewOfSource: boolean
  /** Reads a record by the former rules: where that differs from what is stored, the source has changed. */
  readFormer: FlowRuntime['read'] | undefined
}

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
  seen: ItemKeys
  /** Whether items that are remembered as unchanged are left out. */
  skipsSame: boolean
  /** The number of records; of a grouped source, of its groups. */
  records: number
  /** Where the records of each file begin, for a source that reads files. */
  files: FileStart[]
  /** Keys that the filter excluded in one of the files. */
  filtered: KeySet
  /**
   * Items whose key was repeated in the same file or answer. The last record counts, so they wait for the end of the
   * read.
   */
  repeated: Map<string, { item: Item; first: number; last: number; times: number }>
  /** Keys that were repeated in the previous read. */
  known: ReadonlySet<string>
}

/** A batch of records, compared with the stored items. `isLater`: the last records of repeated keys. */
export type ComparedBatch = ReadBatch & { changes: FoundChange[]; isLater: boolean }

/** Receives the results of a pass, and writes them. */
export type PassWriter = {
  /** Counts the records as they come. It may end them by throwing. */
  receive(batches: AsyncIterable<SourceRow[]>): AsyncIterable<SourceRow[]>
  warn(warning: SourceWarning): void
  /** The stored hashes of these items; an empty one of an item that was reset. */
  hashesOf(pks: readonly string[], isLater: boolean): Promise<Map<string, string>>
  /** Takes a batch while the next one is read. */
  take(batch: ComparedBatch): Promise<void>
}

export type Pass = {
  /** Where the read begins; null for the beginning. */
  since: string | null
  /** The position at the start. */
  from: string | null
  startedAt: Date
  signal: AbortSignal
  fields: FieldWatch
  /** While a changed definition is compared. */
  causeRules?: CauseRules | undefined
  /** Of no key yet, with what is remembered of items. */
  keys: ItemKeys
}

/** A batch of which little is left, because the rest is remembered, waits for others: each would be a transaction. */
const enoughItems = 500
const enoughOfBatch = 0.5
/** What is found does not wait longer for more. */
const gatherMs = 1_000

/** Items with repeated keys wait in memory for the end of a read, up to this number. */
const maxRepeatedInMemory = 20_000

/**
 * One pass over the source of a flow. It reads records in batches, makes items with key and hash, and compares them
 * with the stored ones. Returns the keys of the source and the cursor of the next read. Rejects with SourceError if
 * nothing may be written.
 */
export async function runPass(
  runtime: FlowRuntime,
  pass: Pass,
  writer: PassWriter,
): Promise<{ seen: ItemKeys; cursor: string | null }> {
  const { since, signal, fields, causeRules, keys: seen } = pass
  const readState = createReadState(runtime, seen, causeRules === undefined)
  const take = async (batch: ReadBatch, isLater: boolean) => {
    const pks = batch.items.flatMap(({ pk, former }) =>
      former && former.pk !== pk ? [pk, former.pk] : [pk],
    )
    const stored = await writer.hashesOf(pks, isLater)
    const changes = changesOf(batch.items, stored, causeRules)
    for (const { pk, hash } of batch.items) if (stored.get(pk) === hash) seen.remember(pk, hash)
    await writer.take({ ...batch, changes, isLater })
  }
  const takeRepeated = async () => {
    if (readState.repeated.size === 0) return
    const batch = repeatedItems(runtime, readState, { isFull: since === null })
    readState.repeated.clear()
    await take(batch, true)
  }
  let taking: Promise<void> = Promise.resolve()
  const gathered = createGathering()
  const position = runtime.cursor && followPosition(pass.from, pass.startedAt)
  try {
    const rowFiles = runtime.groupBy ? [] : readState.files
    const batches = positioned(runtime, pass, position, rowFiles, writer)
    const records = runtime.groupBy
      ? groupedRecords(runtime, batches, { since, signal, rowFiles, groupFiles: readState.files })
      : batches
    for await (const rows of records) {
      fields.check(rows)
      gathered.add(await readBatch(runtime, rows, readState, signal, causeRules?.readFormer))
      const areRepeated = readState.repeated.size > maxRepeatedInMemory
      if (!gathered.isEnough(rows.length) && !areRepeated) continue
      await taking
      taking = take(gathered.end(), false)
      // An error is thrown where the result is awaited.
      taking.catch(() => undefined)
      // Their first records are written before.
      if (areRepeated) await taking.then(takeRepeated)
    }
    await taking
    await take(gathered.end(), false)
    rememberRepeated(runtime, readState)
    await takeRepeated()
  } catch (error) {
    await taking.catch(() => undefined)
    throw error
  }
  if (!position) return { seen, cursor: pass.from }
  const { cursor, ahead } = position.end()
  if (ahead) {
    const why = aheadReason(runtime.cursor?.field, ahead)
    writer.warn({ why, isIncomplete: false })
  }
  return { seen, cursor }
}

/** Batches of which little is left are joined. */
function createGathering() {
  const nothing = (): ReadBatch => ({ items: [], problems: [], filtered: 0 })
  let batch = nothing()
  let sinceMs = performance.now()
  return {
    add({ items, problems, filtered }: ReadBatch) {
      if (batch.items.length === 0) batch.items = items
      else for (const item of items) batch.items.push(item)
      for (const problem of problems) batch.problems.push(problem)
      batch.filtered += filtered
    },
    /** `records`: of the last batch. */
    isEnough(records: number): boolean {
      const found = batch.items.length + batch.problems.length
      if (found >= Math.min(enoughItems, records * enoughOfBatch)) return true
      return performance.now() - sinceMs >= gatherMs
    },
    end(): ReadBatch {
      const ended = batch
      batch = nothing()
      sinceMs = performance.now()
      return ended
    },
  }
}

/** The records of the source; the position follows them. */
async function* positioned(
  runtime: FlowRuntime,
  { since, signal }: Pass,
  position: Position | undefined,
  files: FileStart[],
  writer: PassWriter,
): AsyncGenerator<SourceRow[]> {
  const field = runtime.cursor?.field
  const { warn } = writer
  const onFileStart = (name: string, before: number) => void files.push({ name, before })
  const records = runtime.source.scan({ since, signal, warn, onFileStart })
  let isFirst = true
  for await (const rows of writer.receive(records)) {
    if (field !== undefined && position) {
      if (isFirst) checkCursorField(field, rows)
      for (const row of rows) position.take(row[field])
    }
    isFirst &&= rows.length === 0
    yield rows
  }
}

function aheadReason(field = '', { count, example }: Ahead): Reason {
  const data = { field: JSON.stringify(field), count, example: JSON.stringify(example) }
  return { code: 'CURSOR_AHEAD', data }
}

/** Without its field the cursor would never move, and each poll would read everything since. Throws SourceError. */
function checkCursorField(field: string, rows: readonly SourceRow[]): void {
  const records = rows.filter((row) => invalidRecordReason(row) === undefined)
  const [first] = records
  if (!first || records.some((row) => Object.hasOwn(row, field))) return
  const found = Object.keys(first).slice(0, 20).join(', ')
  throw new SourceError({ code: 'CURSOR_MISSING', data: { field: JSON.stringify(field), found } })
}

/** Beyond this number, repeated keys are not remembered for the next read. */
const mostKeysKnown = 100_000

/** By present definition. */
const repeatedBefore = new WeakMap<FlowRuntime, ReadonlySet<string>>()

export function createReadState(runtime: FlowRuntime, seen: ItemKeys, skipsSame = true): ReadState {
  const known = repeatedBefore.get(runtime) ?? new Set()
  const filtered = createKeySet()
  return { seen, skipsSame, records: 0, files: [], filtered, repeated: new Map(), known }
}

/** Remembers the repeated keys of a read for the next one. */
export function rememberRepeated(runtime: FlowRuntime, { repeated }: ReadState): void {
  const keys = [...repeated].flatMap(([pk, { times }]) => (times > 1 ? [pk] : []))
  repeatedBefore.set(runtime, new Set(keys.slice(0, mostKeysKnown)))
}

/**
 * Makes items of records. `readState` has what the read found so far and is updated. Rejects if `signal` aborts, and with
 * SourceError if records of a group are not adjacent. The last record of a key is the item. The newest file is read
 * first, so keys of later files are skipped if an earlier one had them, even if its record gave no item.
 */
export async function readBatch(
  runtime: FlowRuntime,
  rows: readonly SourceRow[],
  readState: ReadState,
  signal: AbortSignal,
  readFormer?: CauseRules['readFormer'],
): Promise<ReadBatch> {
  const batch: ReadBatch = { items: [], problems: [], filtered: 0 }
  for (const row of rows) {
    const others = yieldToEventLoop()
    if (others) await others
    signal.throwIfAborted()
    const read = await runtime.read(row)
    readState.records += 1
    if ('problem' in read) {
      batch.problems.push({ ...read.problem, isDuplicate: false })
      const { pk } = read.problem
      // The source has the item, although it cannot be read.
      if (pk !== null && !isOfEarlierFile(readState, pk)) readState.seen.add(pk, readState.records)
    } else if ('skipped' in read) {
      batch.filtered += 1
      const isInFile = readState.files.length > 0
      if (isInFile && !isOfEarlierFile(readState, read.pk)) {
        readState.filtered.add(read.pk, readState.records)
      }
    } else {
      const former = await readFormer?.(row)
      const item = former && 'item' in former ? { ...read.item, former: former.item } : read.item
      addItem(runtime, readState, batch, item)
    }
  }
  return batch
}

function addItem(runtime: FlowRuntime, readState: ReadState, batch: ReadBatch, item: Item): void {
  const { pk, hash } = item
  const { seen, skipsSame, repeated, records: record } = readState
  if (isOfEarlierFile(readState, pk)) return
  if (seen.add(pk, record)) {
    // A key that was repeated last time will be again. Sending its first record would change the item back and forth.
    if (readState.known.has(pk)) repeated.set(pk, { item, first: record, last: record, times: 1 })
    else if (!skipsSame || !seen.isSame(pk, hash)) batch.items.push(item)
    return
  }
  if (runtime.groupBy) {
    const { key } = runtime.flow.item
    throw new SourceError({ code: 'GROUP_APART', data: { pk: shorten(pk), key: key.join(', ') } })
  }
  const before = repeated.get(pk)
  const first = before?.first ?? seen.recordOf(pk)
  repeated.set(pk, { item, first, last: record, times: (before?.times ?? 1) + 1 })
  if (before) return
  const place = batch.items.findIndex((one) => one.pk === pk)
  if (place >= 0) batch.items.splice(place, 1)
}

/** Whether a file that was read before the present one, and so is newer, has a record of this key. */
function isOfEarlierFile({ seen, filtered, files, records }: ReadState, pk: string): boolean {
  const before = files.at(-1) && fileOf({ files }, records)?.before
  if (before === undefined || before === 0) return false
  return [seen, filtered].some((keys) => {
    const record = keys.recordOf(pk)
    return record > 0 && record <= before
  })
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

function fileOf({ files }: Pick<ReadState, 'files'>, record: number) {
  return files.findLast(({ before }) => before < record)
}

function placeOf(readState: ReadState, record: number): Reason {
  const file = fileOf(readState, record)
  const data = { file: file?.name, record: record - (file?.before ?? 0) }
  return { code: 'RECORD_PLACE', data }
}

/** Compares items with the stored hashes. Without `causeRules` every difference is a change of the source. */
function changesOf(
  items: readonly Item[],
  stored: ReadonlyMap<string, string>,
  causeRules: CauseRules | undefined,
): FoundChange[] {
  const changes: FoundChange[] = []
  for (const item of items) {
    const was = stored.get(item.pk)
    if (was === item.hash) continue
    const isNew = was === undefined || was === ''
    const cause = causeRules ? causeOf(item, was, stored, causeRules) : 'source'
    changes.push({ item, kind: isNew ? 'new' : 'changed', cause, was })
  }
  return changes
}

function causeOf(
  { pk, former }: Item,
  was: string | undefined,
  stored: ReadonlyMap<string, string>,
  { isSameForm, areNewOfSource }: CauseRules,
): FoundChange['cause'] {
  // One that was reset is sent again, whatever the definition says.
  if (was === '') return 'source'
  // It was known by this key before it had another one.
  const isOtherKey = former !== undefined && former.pk !== pk
  if (isOtherKey && was !== undefined && was !== unreadHash) return 'source'
  const before = stored.get(former?.pk ?? pk)
  if (before === undefined || before === unreadHash) return areNewOfSource ? 'source' : 'definition'
  const isChanged = former ? former.hash !== before : isSameForm
  if (!isChanged) return 'definition'
  return isOtherKey ? 'both' : 'source'
}
