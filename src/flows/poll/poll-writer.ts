import type { Trx } from '../../db/database.ts'
import { constraintOf } from '../../db/database-failures.ts'
import { type HeldLease, LeaseLostError, underLease } from '../../jobs/with-lease.ts'
import { askDeliveries, keepForDeletes } from '../../repositories/flows/asked-deliveries.ts'
import { recordChanges, recordNewItems } from '../../repositories/flows/deliveries.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-errors.ts'
import { wakeDestination } from '../../repositories/flows/flow-events.ts'
import {
  findHashes,
  lockItems,
  renewHashes,
  upsertHashes,
} from '../../repositories/flows/flow-items.ts'
import { type FlowStateRow, saveProgress } from '../../repositories/flows/flow-state.ts'
import type { Reason } from '../../texts/reason.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import type { ItemKeys } from '../item/key-set.ts'
import type { Item, ItemChange, SourceWarning } from '../types.ts'
import type { DestinationBatch, DestinationComparison } from './compare-destinations.ts'
import { type FieldWatch, watchFields } from './missing-fields.ts'
import type { Enqueue, PollDeps } from './poll-deps.ts'
import { type CauseRules, type FoundChange, type PassWriter, runPass } from './read-and-compare.ts'

/** Queues changes as rows, and wakes the workers of the destinations when the transaction commits. */
export function createEnqueue({ database, now }: Pick<PollDeps, 'database' | 'now'>): Enqueue {
  return async (trx, { flow }, changes, { only, areNew = false } = {}) => {
    if (changes.length === 0) return
    // Sorted, so that two writers do not deadlock.
    const destinations = flow.destinations
      .map(({ name }) => name)
      .filter((name) => only === undefined || name === only)
      .sort()
    const keepsHistory = flow.queue.keepHistoryMs > 0
    const to = { flow: flow.name, destinations, keepsHistory }
    await (areNew ? recordNewItems : recordChanges)(trx, to, changes, now())
    for (const destination of destinations) {
      wakeDestination(database, { flow: flow.name, destination })
    }
  }
}

/** The progress of a poll. */
export type Progress = {
  /** Orders it among other reads of the source. */
  read: number
  /** The keys that it has found, with what is remembered of their items. */
  keys: ItemKeys
  /** While a changed definition is compared. */
  comparison: DestinationComparison | undefined
  /** True while this poll has found no stored item of the flow. */
  isFirst: boolean
  startedAt: Date
  savedAtMs: number
  rowsRead: number
  /** How many changes are sent. */
  changes: number
  /** Deliveries of items that the source did not change, by destination. */
  resent: Record<string, number>
  /** New, changed and deleted items. */
  counts: { new: number; changed: number; deleted: number }
  problems: number
  /** Keys of invalid records, while a definition is compared: their next valid record counts as a change. */
  unread: Set<string>
  /** A record could not be read this time, so the next poll starts where this one did. */
  mustReadAgain: boolean
  /** Warnings of the source. */
  warnings: SourceWarning[]
  /** The position before this poll; null if it reads everything. */
  from: string | null
  cursor: string | null
  fields: FieldWatch
  /** Records with a repeated key and other content. The last one counts; they block nothing else. */
  duplicates: number
  /** The poll reads the source a second time, so its problems are already reported. */
  isAgain: boolean
  /**
   * Batches of a grouped read, kept until the end shows that each group was whole. Undefined if batches are written
   * at once.
   */
  grouped: BufferedGroups | undefined
}

export function newProgress(
  runtime: FlowRuntime,
  state: FlowStateRow,
  begin: Pick<Progress, 'startedAt' | 'read' | 'keys' | 'isFirst' | 'comparison' | 'from'>,
): Progress {
  return {
    ...begin,
    savedAtMs: begin.startedAt.getTime(),
    rowsRead: 0,
    changes: 0,
    resent: {},
    counts: { new: 0, changed: 0, deleted: 0 },
    problems: 0,
    duplicates: 0,
    unread: new Set(),
    mustReadAgain: false,
    warnings: [],
    cursor: begin.from,
    fields: watchFields(runtime, state),
    isAgain: false,
    grouped: runtime.groupBy ? { batches: [], size: 0, isFull: false } : undefined,
  }
}

/** What is written for one batch. Unchanged items are included only in a comparison. */
type PollBatch = {
  items: readonly Item[]
  changes: readonly FoundChange[]
  /** These keys came more than once: the same read may have stored an earlier record. */
  isLater?: boolean
}

/** `isFull`: too many to keep. The read only checks the groups, and the source is read again. */
type BufferedGroups = { batches: PollBatch[]; size: number; isFull: boolean }

const maxGroupsInMemory = 20_000

/** While one batch waits for the disk the next is written. More would slow down other requests. */
const writesAtOnce = 2

/**
 * Reads the source and writes changes. It reads a second time if the groups did not fit in memory. Returns the keys
 * of the source.
 */
export async function readSource(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  causeRules: CauseRules | undefined,
  since: string | null,
  progress: Progress,
): Promise<ItemKeys> {
  const { from, startedAt, fields, keys } = progress
  const { signal } = lease
  const pass = { since, from, startedAt, signal, fields, causeRules, keys }
  const writer = createPollWriter(deps, runtime, lease, progress)
  try {
    const { seen, cursor } = await runPass(runtime, pass, writer)
    progress.cursor = cursor
    if (!progress.grouped?.isFull) {
      await writer.end()
      return seen
    }
    seen.begin()
  } catch (error) {
    // A failed poll must not write anything later.
    await writer.settled()
    throw error
  }
  const unread = {
    ...{ rowsRead: 0, problems: 0, duplicates: 0, mustReadAgain: false, warnings: [] },
    counts: { new: 0, changed: 0, deleted: 0 },
  }
  Object.assign(progress, { ...unread, grouped: undefined, cursor: from, isAgain: true })
  return readSource(deps, runtime, lease, causeRules, since, progress)
}

/**
 * Writes each batch in its own transaction, two in parallel. `settled` waits for those under way, also after
 * failures.
 */
function createPollWriter(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  progress: Progress,
): PassWriter & { end(): Promise<void>; settled(): Promise<void> } {
  const { db } = deps.database
  const { name } = runtime.flow
  /** Writes under way. A failed one stays in the set. */
  const writes = new Set<Promise<void>>()
  const begin = async (batch: PollBatch) => {
    if (writes.size >= writesAtOnce) await Promise.race(writes)
    const write = writeBatch(deps, runtime, lease, batch, progress)
    writes.add(write)
    write.then(
      () => writes.delete(write),
      () => undefined,
    )
  }
  return {
    async *receive(batches) {
      for await (const rows of batches) {
        if (lease.signal.aborted) throw new LeaseLostError()
        progress.rowsRead += rows.length
        yield rows
      }
    },
    warn: (warning) => void progress.warnings.push(warning),
    async hashesOf(pks, isLater) {
      // An earlier record of these keys may be among them.
      if (isLater) await Promise.all(writes)
      return progress.isFirst && !isLater ? new Map() : await findHashes(db, name, pks)
    },
    async take({ items, problems, changes, isLater }) {
      for (const problem of problems) await reportProblem(deps, runtime, progress, problem)
      for (const { pk, isDuplicate } of progress.comparison ? problems : []) {
        if (pk !== null && !isDuplicate) progress.unread.add(pk)
      }
      progress.mustReadAgain ||= problems.some(({ mayPass }) => mayPass === true)
      if (isLater) progress.duplicates += problems.length
      for (const { kind, cause } of changes) if (cause === 'source') progress.counts[kind] += 1
      const batch = { items: progress.comparison ? items : [], changes, isLater }
      if (progress.grouped) bufferGroups(progress.grouped, batch)
      else await begin(batch)
      await noteProgress(deps, name, progress)
    },
    async end() {
      // All groups are known to be whole now.
      for (const batch of progress.grouped?.batches.splice(0) ?? []) await begin(batch)
      await Promise.all(writes)
    },
    settled: async () => void (await Promise.allSettled(writes)),
  }
}

function bufferGroups(buffered: BufferedGroups, batch: PollBatch): void {
  buffered.size += batch.items.length + batch.changes.length
  buffered.isFull ||= buffered.size > maxGroupsInMemory
  if (buffered.isFull) buffered.batches.length = 0
  else buffered.batches.push(batch)
}

async function noteProgress(deps: PollDeps, flow: string, progress: Progress): Promise<void> {
  const now = deps.now()
  if (now.getTime() - progress.savedAtMs >= 1_000) {
    progress.savedAtMs = now.getTime()
    await saveProgress(deps.database.db, {
      flow,
      started_at: progress.startedAt,
      rows_read: progress.rowsRead,
      changes: progress.changes,
      updated_at: now,
    })
  }
}

/** The constraints that fail when an item or its delivery is already stored. */
const known = new Set(['flow_items_pkey', 'deliveries_pkey'])

/**
 * Stores and queues the changes of a batch in one transaction. A first poll has no stored items, so it skips lookups,
 * which take a third of the time. If an item exists after all, the batch is written normally.
 */
async function writeBatch(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  batch: PollBatch,
  progress: Progress,
): Promise<void> {
  const { items, changes } = batch
  if (items.length + changes.length === 0) return
  // Before the transaction, because mapping takes time.
  const differing = (await progress.comparison?.compare(deps.database.db, items, changes)) ?? []
  const write = (how: typeof writeChanges) =>
    underLease(deps, lease, (trx) => how(deps, runtime, trx, { ...progress, ...batch, differing }))
  const areNew = progress.isFirst && !batch.isLater && items.length === 0 && changes.every(isNew)
  const { queued, resent, overtaken } = await write(areNew ? writeNewItems : writeChanges).catch(
    (error: unknown) => {
      if (!areNew || !known.has(constraintOf(error) ?? '')) throw error
      progress.isFirst = false
      return write(writeChanges)
    },
  )
  progress.changes += queued
  for (const [destination, count] of Object.entries(resent)) {
    progress.resent[destination] = (progress.resent[destination] ?? 0) + count
  }
  progress.mustReadAgain ||= overtaken
  for (const { item } of changes) {
    if (overtaken) progress.keys.forget(item.pk)
    else progress.keys.remember(item.pk, item.hash)
  }
}

const isNew = ({ kind }: PollBatch['changes'][number]) => kind === 'new'

type Batch = Pick<Progress, 'read'> & PollBatch & { differing: readonly DestinationBatch[] }
type Written = Pick<Progress, 'resent'> & { queued: number; overtaken: boolean }

/** Stores and queues items without stored rows. Rejects if a row exists. */
async function writeNewItems(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  { changes, read }: Batch,
): Promise<Written> {
  const upserts = changes.map(({ item }) => upsertOf(item, read, true))
  await deps.enqueue(trx, runtime, upserts, { areNew: true })
  return { queued: upserts.length, resent: {}, overtaken: false }
}

/**
 * Stores and queues the changes of a batch. `overtaken`: a read that began later stored other content. This batch may
 * be older or newer, because a poll reads on; only another read can decide.
 */
async function writeChanges(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  { changes, read, isLater = false, differing }: Batch,
): Promise<Written> {
  const { flow } = runtime
  const now = deps.now()
  const ofDefinition = changes.filter(({ cause, was }) => cause !== 'source' && was !== undefined)
  const renewed = ofDefinition.map(({ item: { pk, hash }, was = '' }) => ({ pk, hash, was }))
  // Another process may have stored the same meanwhile.
  const stored = changes.filter(({ cause, was }) => cause === 'source' || was === undefined)
  const changed = stored.map(({ item }) => item)
  const { ours, same } = await upsertHashes(trx, flow.name, changed, {
    read,
    at: now,
    isLater,
    byPoll: true,
  })
  await renewHashes(trx, flow.name, renewed, read)
  const queued = changes.filter(({ item, cause }) => cause === 'source' && ours.has(item.pk))
  const upserts = queued.map(({ item, kind }) => upsertOf(item, read, kind === 'new'))
  await deps.enqueue(trx, runtime, upserts)
  const resent =
    differing.length > 0
      ? await queueDiffering(deps, runtime, trx, differing, { read, at: now })
      : {}
  const others = changed.filter(({ pk }) => !ours.has(pk) && !same.has(pk))
  others.push(...ofDefinition.map(({ item }) => item))
  const overtaken = await differs(trx, flow.name, others)
  return { queued: queued.length, resent, overtaken }
}

/** Whether a stored hash differs from one of these items. */
async function differs(trx: Trx, flow: string, items: readonly Item[]): Promise<boolean> {
  const stored = await lockItems(
    trx,
    flow,
    items.map(({ pk }) => pk),
  )
  return items.some(({ pk, hash }) => stored.get(pk)?.hash !== hash)
}

/**
 * Queues what destinations are sent because of the definition. An item that another read has changed since is left out: its
 * newer content is queued already. Answers how many deliveries each destination got.
 */
async function queueDiffering(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  differing: readonly DestinationBatch[],
  { read, at }: { read: number; at: Date },
): Promise<Progress['resent']> {
  const { name: flow } = runtime.flow
  const resent: Progress['resent'] = {}
  const items = new Map(
    differing.flatMap(({ sent, asked }) =>
      [...sent, ...asked.map(({ item }) => item)].map((item): [string, Item] => [item.pk, item]),
    ),
  )
  const stored = await lockItems(trx, flow, [...items.keys()].sort())
  /** With the hash that deliveries of this content refer to. */
  const present = ({ pk, hash }: Item) => {
    const one = stored.get(pk)
    return one?.hash === hash ? one.contentHash : undefined
  }
  const ordered = [...differing].sort((one, next) => (one.destination < next.destination ? -1 : 1))
  for (const { destination, sent, asked, kept } of ordered) {
    const upserts = sent.flatMap((item) => {
      const hash = present(item)
      return hash === undefined ? [] : [upsertOf({ ...item, hash }, read, false)]
    })
    await deps.enqueue(trx, runtime, upserts, { only: destination })
    resent[destination] = upserts.length
    const waiting = asked.flatMap(({ item, ...one }) => {
      const hash = present(item)
      return hash === undefined ? [] : [{ ...one, hash }]
    })
    await askDeliveries(trx, { flow, destination }, waiting, { change: read, at })
    await keepForDeletes(trx, { flow, destination }, kept)
  }
  return resent
}

function upsertOf({ pk, hash, value }: Item, change: number, isForced: boolean): ItemChange {
  return { pk, kind: 'upsert', hash, value, change, isForced }
}

const problemsKept = 1_000

async function reportProblem(
  deps: PollDeps,
  runtime: FlowRuntime,
  progress: Progress,
  { pk, why }: { pk: string | null; why: Reason },
): Promise<void> {
  progress.problems += 1
  if (progress.problems > problemsKept || progress.isAgain) return
  await insertSourceProblem(deps.database.db, {
    flow: runtime.flow.name,
    pk: pk ?? '',
    why,
    at: deps.now(),
  })
}

/** Records warnings as errors. Those of an incomplete read also stop deletes. */
export async function reportWarnings(
  deps: PollDeps,
  runtime: FlowRuntime,
  progress: Progress,
): Promise<void> {
  const { name } = runtime.flow
  for (const { why, isIncomplete } of progress.warnings) {
    if (isIncomplete) await reportProblem(deps, runtime, progress, { pk: null, why })
    else {
      await insertSourceProblem(deps.database.db, {
        flow: name,
        pk: '',
        why,
        at: deps.now(),
      })
    }
  }
}

/** Whether the read left out records that a later one gives. */
export function isCutOff({ warnings }: Pick<Progress, 'warnings'>): boolean {
  return warnings.some((one) => one.isIncomplete)
}
