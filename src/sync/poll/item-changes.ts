import type { Trx } from '../../db/database.ts'
import { constraintOf } from '../../db/database-failures.ts'
import { findChangedSince } from '../../repositories/flows/deliveries.ts'
import type { DestinationFill } from '../../repositories/flows/destination-fills.ts'
import { lockItems, upsertHashes } from '../../repositories/flows/flow-items.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { Item, ItemChange } from '../types.ts'
import { type PollDeps, type PollLease, underLease } from './poll-lease.ts'

/** An item whose hash is not the stored one. `isOwed`: it is to be sent. */
export type FoundChange = { item: Item; kind: 'new' | 'changed'; isOwed: boolean }

/** The fields that hashes of an earlier version of the service were over, by the form of the hash. */
export type EarlierForms = Readonly<Record<string, readonly string[]>>

/** What is to be sent of what differs from what is stored. */
export type Telling = {
  sendsChanges: boolean
  sendsNews?: boolean
  earlierForms: EarlierForms
  /** Other fields may count from now on: hashes of an earlier version are written anew. */
  renewsHashes?: boolean
}

/** An item that looks as it did, by a hash of an earlier version: `was` is stored, the item's own says the same now. */
export type Renewed = { pk: string; hash: string; was: string }

/**
 * Which of the items changed, against the stored hashes by key. Without `sendsChanges` only what was never seen is owed,
 * without `sendsNews` not that either.
 */
export function changesOf(
  { hashOver }: Pick<FlowRuntime, 'hashOver'>,
  items: readonly Item[],
  stored: ReadonlyMap<string, string>,
  { sendsChanges, sendsNews = true, earlierForms, renewsHashes = false }: Telling,
): { changes: FoundChange[]; renewed: Renewed[] } {
  const changes: FoundChange[] = []
  const renewed: Renewed[] = []
  for (const item of items) {
    const { pk, hash } = item
    const was = stored.get(pk)
    if (was === undefined) changes.push({ item, kind: 'new', isOwed: sendsNews })
    else if (!looksAs(hashOver, item, was, earlierForms)) {
      changes.push({ item, kind: 'changed', isOwed: sendsChanges })
    } else if (renewsHashes && !isContent(hash, was)) renewed.push({ pk, hash, was })
  }
  return { changes, renewed }
}

/** Whether two hashes are of one content, also where the service writes another form of them now. */
export function isContent(hash: string, other: string | undefined): boolean {
  return other !== undefined && hash.endsWith(other.slice(Math.max(0, other.indexOf(':'))))
}

/** Whether an item looks as the stored hash says. One of an earlier version, over some fields, is compared by these. */
export function looksAs(
  hashOver: FlowRuntime['hashOver'],
  item: Item,
  was: string | undefined,
  earlierForms: EarlierForms,
): boolean {
  if (was === undefined) return false
  if (isContent(item.hash, was)) return true
  const form = was.slice(0, was.indexOf(':'))
  const fields = earlierForms[form]
  return fields !== undefined && hashOver(fields, item, form) === was
}

/** What a poll writes of one batch of records; items that did not change only where a destination is to get all. */
export type PollBatch = {
  items: readonly Item[]
  changes: readonly FoundChange[]
  /** Of keys that came more than once: the same read may have stored an earlier record of them. */
  isLater?: boolean
}

/** What a poll knows of itself when it writes. */
export type BatchProgress = {
  /** Puts it in order with other reads of the source. */
  read: number
  /** Destinations that get every item. */
  fills: readonly DestinationFill[]
  /** Nothing of the flow's items is on record, as far as this poll has seen. */
  isFirst: boolean
  /** What is sent. */
  changes: number
  /** Something could not be judged, or be taken, this time: the next poll begins where this one did. */
  mustReadAgain: boolean
}

/** What says that somebody has stored, or was owed, one of the items before. */
const known = new Set(['flow_items_pkey', 'deliveries_pkey'])

/**
 * Stores and queues what a batch changes, in one transaction. In a first poll nothing is there yet that a new item could
 * meet, and to look for it would take a third of the time: only when something is, the batch is written as any other.
 */
export async function writeBatch(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  batch: PollBatch,
  progress: BatchProgress,
): Promise<void> {
  const { items, changes } = batch
  if (items.length + changes.length === 0) return
  const write = (how: typeof writeChanges) =>
    underLease(deps, lease, (trx) => how(deps, runtime, trx, { ...progress, ...batch }))
  const areNew = progress.isFirst && !batch.isLater && items.length === 0 && changes.every(isNew)
  const { owed, overtaken } = await write(areNew ? writeNews : writeChanges).catch(
    (error: unknown) => {
      if (!areNew || !known.has(constraintOf(error) ?? '')) throw error
      progress.isFirst = false
      return write(writeChanges)
    },
  )
  progress.changes += owed
  progress.mustReadAgain ||= overtaken
}

const isNew = ({ kind, isOwed }: PollBatch['changes'][number]) => kind === 'new' && isOwed

type Batch = Pick<BatchProgress, 'read' | 'fills'> & PollBatch
type Written = { owed: number; overtaken: boolean }

/** Stores and queues items of which nothing is on record; rejects where something is. */
async function writeNews(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  { changes, read }: Batch,
): Promise<Written> {
  const news = changes.map(({ item }) => upsertOf(item, read, true))
  await deps.enqueueNews(trx, runtime, news)
  return { owed: news.length, overtaken: false }
}

/**
 * Stores and queues what a batch changes. `overtaken`: somebody who began to read after this poll did has stored another
 * content of an item. This batch may be older than that, or newer, since a poll goes on reading: only another read tells.
 */
async function writeChanges(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  { items, changes, read, fills, isLater = false }: Batch,
): Promise<Written> {
  const { flow } = runtime
  const now = deps.now()
  const changed = changes.map(({ item }) => item)
  // What nobody has stored yet has no row to lock.
  const seen = changes.flatMap(({ item, kind }) => (kind === 'changed' ? [item] : []))
  const locked = fills.length > 0 ? items : seen
  const stored = await lockItems(
    trx,
    flow.name,
    locked.map(({ pk }) => pk),
  )
  // Somebody else may have found the same meanwhile.
  const different = changed.filter(({ pk, hash }) => stored.get(pk)?.hash !== hash)
  const { ours, same } = await upsertHashes(trx, flow.name, different, {
    read,
    at: now,
    isLater,
  })
  const owed = changes.filter(({ item, isOwed }) => isOwed && ours.has(item.pk))
  const news = owed.map(({ item, kind }) => upsertOf(item, read, kind === 'new'))
  if (fills.length === 0) await deps.enqueue(trx, runtime, news)
  else {
    // Of what somebody has seen since in another form the newer one is on its way to all of them.
    const isLatest = ({ pk, hash }: Item) =>
      isContent(hash, stored.get(pk)?.hash) || ours.has(pk) || same.has(pk)
    await enqueueAndFill(deps, runtime, trx, { fills, news, items: items.filter(isLatest), read })
  }
  const beaten = different.filter(({ pk }) => !ours.has(pk) && !same.has(pk))
  const overtaken = await differs(trx, flow.name, beaten)
  return { owed: owed.length, overtaken }
}

/** Whether one of these items is stored as something else. */
async function differs(trx: Trx, flow: string, items: readonly Item[]): Promise<boolean> {
  const stored = await lockItems(
    trx,
    flow,
    items.map(({ pk }) => pk),
  )
  return items.some(({ pk, hash }) => stored.get(pk)?.hash !== hash)
}

/**
 * Owes the destinations what changed, and those that are filled the rest too: but for what they are owed since that was asked
 * for, as before a crash. One destination after the other and its keys in order, as everybody locks them.
 */
async function enqueueAndFill(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  {
    fills,
    news,
    items,
    read,
  }: {
    fills: readonly DestinationFill[]
    news: readonly ItemChange[]
    items: readonly Item[]
    read: number
  },
): Promise<void> {
  const { name: flow, destinations } = runtime.flow
  const sent = new Set(news.map(({ pk }) => pk))
  const rest = items.filter(({ pk }) => !sent.has(pk))
  const pks = rest.map(({ pk }) => pk)
  for (const destination of destinations.map(({ name }) => name).sort()) {
    const fill = fills.find((one) => one.destination === destination)
    const has = fill && (await findChangedSince(trx, { flow, destination }, pks, fill.asked))
    const missing = has ? rest.filter(({ pk }) => !has.has(pk)) : []
    const owed = fill
      ? [
          ...news.map((one) => ({ ...one, isAnew: true })),
          ...missing.map((one) => upsertOf(one, read, true)),
        ]
      : news
    await deps.enqueue(trx, runtime, owed, destination)
  }
}

function upsertOf({ pk, hash, value }: Item, change: number, isAnew: boolean): ItemChange {
  return { pk, kind: 'upsert', hash, value, change, isAnew }
}
