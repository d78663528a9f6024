import type { Trx } from '../../db/database.ts'
import { constraintOf } from '../../db/database-failures.ts'
import { findChangedSince } from '../../repositories/flows/deliveries.ts'
import type { DestinationFill } from '../../repositories/flows/destination-fills.ts'
import { lockItems, upsertHashes } from '../../repositories/flows/flow-items.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { Item, ItemChange } from '../types.ts'
import { type PollDeps, type PollLease, underLease } from './poll-lease.ts'

/** An item whose hash differs from the stored one. `isQueued`: it must be sent. */
export type FoundChange = { item: Item; kind: 'new' | 'changed'; isQueued: boolean }

/** The fields that hashes of earlier versions of the service covered, by hash form. */
export type EarlierForms = Readonly<Record<string, readonly string[]>>

/** Which differences from the stored items are sent. */
export type SendRules = {
  sendsChanges: boolean
  sendsNewItems?: boolean
  earlierForms: EarlierForms
  /** Other fields may count now: hashes of an earlier version are replaced. */
  renewsHashes?: boolean
}

/** An unchanged item with a stored hash of an earlier version (`was`), and its present hash. */
export type Renewed = { pk: string; hash: string; was: string }

/**
 * Compares items with the stored hashes. `sendsChanges` false: only new items are sent; `sendsNewItems` false: these are
 * not sent either.
 */
export function changesOf(
  { hashOver }: Pick<FlowRuntime, 'hashOver'>,
  items: readonly Item[],
  stored: ReadonlyMap<string, string>,
  { sendsChanges, sendsNewItems = true, earlierForms, renewsHashes = false }: SendRules,
): { changes: FoundChange[]; renewed: Renewed[] } {
  const changes: FoundChange[] = []
  const renewed: Renewed[] = []
  for (const item of items) {
    const { pk, hash } = item
    const was = stored.get(pk)
    if (was === undefined) changes.push({ item, kind: 'new', isQueued: sendsNewItems })
    else if (!looksAs(hashOver, item, was, earlierForms)) {
      changes.push({ item, kind: 'changed', isQueued: sendsChanges })
    } else if (renewsHashes && !isContent(hash, was)) renewed.push({ pk, hash, was })
  }
  return { changes, renewed }
}

/** Whether two hashes cover the same content, even if the service now writes another form. */
export function isContent(hash: string, other: string | undefined): boolean {
  return other !== undefined && hash.endsWith(other.slice(Math.max(0, other.indexOf(':'))))
}

/** Whether an item equals the stored hash. A hash of an earlier version is compared over its fields. */
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

/** What a poll writes for one batch. Unchanged items are included only when a destination must get all. */
export type PollBatch = {
  items: readonly Item[]
  changes: readonly FoundChange[]
  /** These keys came more than once: the same read may have stored an earlier record. */
  isLater?: boolean
}

/** The state of a poll when it writes a batch. */
export type BatchProgress = {
  /** Orders it among other reads of the source. */
  read: number
  /** Destinations that must get every item. */
  fills: readonly DestinationFill[]
  /** True while this poll has found no stored item of the flow. */
  isFirst: boolean
  /** How many changes are sent. */
  changes: number
  /** A record could not be read this time, so the next poll starts where this one did. */
  mustReadAgain: boolean
}

/** The constraints that fail when an item or its delivery is already stored. */
const known = new Set(['flow_items_pkey', 'deliveries_pkey'])

/**
 * Stores and queues the changes of a batch in one transaction. A first poll has no stored items, so it skips lookups,
 * which take a third of the time. If an item exists after all, the batch is written normally.
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
  const { queued, overtaken } = await write(areNew ? writeNewItems : writeChanges).catch(
    (error: unknown) => {
      if (!areNew || !known.has(constraintOf(error) ?? '')) throw error
      progress.isFirst = false
      return write(writeChanges)
    },
  )
  progress.changes += queued
  progress.mustReadAgain ||= overtaken
}

const isNew = ({ kind, isQueued }: PollBatch['changes'][number]) => kind === 'new' && isQueued

type Batch = Pick<BatchProgress, 'read' | 'fills'> & PollBatch
type Written = { queued: number; overtaken: boolean }

/** Stores and queues items without stored rows. Rejects if a row exists. */
async function writeNewItems(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  { changes, read }: Batch,
): Promise<Written> {
  const upserts = changes.map(({ item }) => upsertOf(item, read, true))
  await deps.enqueueNewItems(trx, runtime, upserts)
  return { queued: upserts.length, overtaken: false }
}

/**
 * Stores and queues the changes of a batch. `overtaken`: a read that began later stored other content. This batch may
 * be older or newer, because a poll reads on; only another read can decide.
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
  // Only stored items have a row to lock.
  const seen = changes.flatMap(({ item, kind }) => (kind === 'changed' ? [item] : []))
  const locked = fills.length > 0 ? items : seen
  const stored = await lockItems(
    trx,
    flow.name,
    locked.map(({ pk }) => pk),
  )
  // Another process may have stored the same meanwhile.
  const different = changed.filter(({ pk, hash }) => stored.get(pk)?.hash !== hash)
  const { ours, same } = await upsertHashes(trx, flow.name, different, {
    read,
    at: now,
    isLater,
  })
  const queued = changes.filter(({ item, isQueued }) => isQueued && ours.has(item.pk))
  const upserts = queued.map(({ item, kind }) => upsertOf(item, read, kind === 'new'))
  if (fills.length === 0) await deps.enqueue(trx, runtime, upserts)
  else {
    // If another read stored a different hash since, its newer content is already queued for all destinations.
    const isLatest = ({ pk, hash }: Item) =>
      isContent(hash, stored.get(pk)?.hash) || ours.has(pk) || same.has(pk)
    await enqueueAndFill(deps, runtime, trx, {
      fills,
      upserts,
      items: items.filter(isLatest),
      read,
    })
  }
  const others = different.filter(({ pk }) => !ours.has(pk) && !same.has(pk))
  const overtaken = await differs(trx, flow.name, others)
  return { queued: queued.length, overtaken }
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
 * Queues changes for all destinations, and unchanged items for those that are being filled. Items queued since the
 * fill was requested are skipped, as after a crash. Destinations and keys are locked in order, as everywhere.
 */
async function enqueueAndFill(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  {
    fills,
    upserts,
    items,
    read,
  }: {
    fills: readonly DestinationFill[]
    upserts: readonly ItemChange[]
    items: readonly Item[]
    read: number
  },
): Promise<void> {
  const { name: flow, destinations } = runtime.flow
  const sent = new Set(upserts.map(({ pk }) => pk))
  const rest = items.filter(({ pk }) => !sent.has(pk))
  const pks = rest.map(({ pk }) => pk)
  for (const destination of destinations.map(({ name }) => name).sort()) {
    const fill = fills.find((one) => one.destination === destination)
    const has = fill && (await findChangedSince(trx, { flow, destination }, pks, fill.asked))
    const missing = has ? rest.filter(({ pk }) => !has.has(pk)) : []
    const queued = fill
      ? [
          ...upserts.map((one) => ({ ...one, isForced: true })),
          ...missing.map((one) => upsertOf(one, read, true)),
        ]
      : upserts
    await deps.enqueue(trx, runtime, queued, destination)
  }
}

function upsertOf({ pk, hash, value }: Item, change: number, isForced: boolean): ItemChange {
  return { pk, kind: 'upsert', hash, value, change, isForced }
}
