import type { StoredQuestion } from '../../db/column-types.ts'
import type { Db, Trx } from '../../db/database.ts'
import { type HeldLease, underLease } from '../../jobs/with-lease.ts'
import { deletedHash } from '../../repositories/flows/deliveries.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-errors.ts'
import {
  countItems,
  deleteHashes,
  listPksAfter,
  markUnread,
} from '../../repositories/flows/flow-items.ts'
import {
  type FlowStateChange,
  type FlowStateRow,
  replaceQuestion,
  requestFullScan,
  updateFlowState,
} from '../../repositories/flows/flow-state.ts'
import {
  countMissed,
  countMissedSince,
  findMissed,
  forgetDigests,
  forgetMissed,
  listMissed,
  listReadBefore,
  type MissedItem,
} from '../../repositories/flows/missing-items.ts'
import {
  listRemovedDestinations,
  notePendingDeletes,
} from '../../repositories/flows/pending-deletes.ts'
import { keptReason, type Reason } from '../../texts/reason.ts'
import type { Flow } from '../definition/schema.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { keyRecord } from '../item/item.ts'
import type { ItemKeys } from '../item/key-set.ts'
import type { PollDeps } from './poll-deps.ts'

const pageSize = 1_000

/** The result of a complete read for deletes. `isCut`: the read left out records that a later one gives. */
export type CompleteRead = {
  seen: ItemKeys
  problems: number
  read: number
  isCut: boolean
}

/**
 * After a complete read of a flow that deletes: deletes missing items at the destinations. Enough full scans must have
 * missed the item, and the guard or an operator's answer must allow it; else the flow asks. A read with problems deletes only
 * what an operator allowed, because unreadable records are not gone. A cut read deletes nothing. An item that a read later than
 * number `read` found stays. `state` is of before the read: an answer that came later is for the next one. Returns how many
 * deletes were queued.
 */
export async function sendDeletes(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  state: FlowStateRow,
  { seen, problems, read, isCut }: CompleteRead,
): Promise<number> {
  const { flow } = runtime
  const { db } = deps.database
  const { question, holds_deletes: isOtherSource } = state
  /** Ends the present question, and asks the next one if there is one. */
  const ask = (next: StoredQuestion | null, fields: FlowStateChange = {}) =>
    underLease(deps, lease, async (trx) => {
      if (question || next) await replaceQuestion(trx, flow.name, question, next)
      if (Object.keys(fields).length > 0) await updateFlowState(trx, flow.name, fields)
    })
  const anySource = { holds_deletes: false }
  await forgetShown(db, flow.name, seen)
  const vanished: string[] = []
  for await (const pks of missingItems(db, flow.name, { seen, read })) vanished.push(...pks)
  if (vanished.length === 0) {
    if (question || isOtherSource) await ask(null, problems === 0 && !isCut ? anySource : {})
    return 0
  }
  if (isCut) {
    await reportHeldDeletes(deps, flow.name, vanished.length, unreadable(vanished.length))
    return 0
  }
  const allowed = question?.answer === 'send' ? question : undefined
  const isOfAll = allowed !== undefined && allowed.pks === undefined
  const isAllowed = allowedBy(allowed)
  const allowedItems = await countAllowed(db, flow.name, allowed, vanished)
  const items = vanished.length - allowedItems
  const letThrough = (question?.held?.letThrough ?? 0) + (isOfAll ? 0 : allowedItems)
  const known = (await countItems(db, flow.name)) - (isOfAll ? 0 : allowedItems)
  const refusal =
    otherSourceReason(isOtherSource, items) ??
    refusalOf(flow.deletes.guard, { seen: seen.size, known, vanished: items, letThrough, problems })
  const scans = scansToDelete(flow)
  const counts = problems === 0
  let deleted = 0
  let notDue = 0
  let lastMissed = 0
  for (let from = 0; from < vanished.length; from += pageSize) {
    const page = vanished.slice(from, from + pageSize)
    await underLease(deps, lease, async (trx) => {
      const missed = await countMissed(trx, flow.name, page, { read, most: scans, counts })
      const [yes, others] = partition(missed, isAllowed)
      const due = others.filter((one) => refusal === undefined && one.scans >= scans)
      if (counts) notDue += missed.filter((one) => one.scans < scans).length
      lastMissed = others.reduce((last, { since }) => Math.max(last, since), lastMissed)
      const { isOtherKey } = allowed ?? {}
      await queueDeletes(deps, runtime, trx, { pks: yes.map(keyOf), read, isOtherKey })
      await queueDeletes(deps, runtime, trx, { pks: due.map(keyOf), read })
      deleted += yes.length + due.length
    })
  }
  const fields = isOtherSource && isOfAll ? anySource : {}
  if (refusal === undefined) await ask(null, fields)
  else {
    await reportHeldDeletes(deps, flow.name, items, refusal)
    // The same question as long as it concerns no further items.
    const { number = 0, askedAt = deps.now().toISOString() } = question?.held ? question : {}
    const held = { why: keptReason(refusal), known, letThrough }
    await ask(
      { number: lastMissed > number ? read : number, askedAt, missing: items, held },
      fields,
    )
  }
  // Most polls of this flow are incremental, so a full scan is requested to check again.
  if (notDue > 0) await deps.database.transaction((trx) => requestFullScan(trx, flow.name))
  return deleted
}

const keyOf = ({ pk }: { pk: string }) => pk

function partition<T>(all: readonly T[], test: (one: T) => boolean): [T[], T[]] {
  return [all.filter(test), all.filter((one) => !test(one))]
}

/**
 * Deletes these items everywhere. With `isOtherKey` their keys are not those of the definition, whose fields then say nothing about
 * what was delivered.
 */
export async function queueDeletes(
  deps: Pick<PollDeps, 'now' | 'enqueue'>,
  runtime: FlowRuntime,
  trx: Trx,
  {
    pks,
    read,
    isOtherKey = false,
  }: { pks: string[]; read: number; isOtherKey?: boolean | undefined },
): Promise<void> {
  if (pks.length === 0) return
  const { name: flow, destinations } = runtime.flow
  await deleteHashes(trx, flow, pks, { byPoll: true })
  const defined = destinations.map(({ name }) => name)
  for (const destination of await listRemovedDestinations(trx, flow, defined)) {
    await notePendingDeletes(trx, { flow, destination }, pks, { change: read, at: deps.now() })
  }
  await deps.enqueue(
    trx,
    runtime,
    pks.map((pk) => {
      const value = isOtherKey ? {} : keyRecord(runtime.flow.item.key, pk)
      return { pk, kind: 'delete', hash: deletedHash, value, change: read }
    }),
  )
}

async function reportHeldDeletes(
  deps: PollDeps,
  flow: string,
  vanished: number,
  why: Reason,
): Promise<void> {
  deps.log.warn({ flow, vanished }, 'deletes wait for an answer')
  const problem = { flow, pk: '', why, at: deps.now() }
  await insertSourceProblem(deps.database.db, problem)
}

/**
 * How many full scans in a row must miss an item before it is deleted. Records of a paged list can move to a page
 * that was read before. SQL Server reads committed rows at each moment, so a query can miss moved rows too.
 * PostgreSQL and MySQL read the table as it was when the query began.
 */
export function scansToDelete({ source, deletes }: Pick<Flow, 'source' | 'deletes'>): number {
  if (deletes.scans !== undefined) return deletes.scans
  const isPaged = source.type === 'http' && source.paging.type !== 'none'
  const isMoving = source.type === 'sql' && source.driver === 'mssql'
  return isPaged || isMoving ? 2 : 1
}

/** Whether an operator allowed the delete of an item: of this one, or of all that were missing when the flow asked. */
function allowedBy(answered: StoredQuestion | undefined): (item: MissedItem) => boolean {
  if (!answered) return () => false
  const { number = 0, pks } = answered
  const chosen = pks && new Set(pks)
  return ({ pk, since }) => (chosen ? chosen.has(pk) : since <= number)
}

/** Of how many of these missing items an operator allowed the delete. */
async function countAllowed(
  db: Db,
  flow: string,
  answered: StoredQuestion | undefined,
  vanished: readonly string[],
): Promise<number> {
  if (!answered) return 0
  const { number = 0, pks } = answered
  if (pks === undefined) return countMissedSince(db, flow, number)
  const missing = new Set(vanished)
  return pks.filter((pk) => missing.has(pk)).length
}

/** Items that this read found again are not missing. */
export async function forgetShown(
  db: Db,
  flow: string,
  seen: Pick<ItemKeys, 'has'>,
): Promise<void> {
  let after: string | undefined
  do {
    const missed = await listMissed(db, flow, after, pageSize)
    const shown = missed.filter((pk) => seen.has(pk))
    if (shown.length > 0) await forgetMissed(db, flow, shown)
    after = missed.length === pageSize ? missed.at(-1) : undefined
  } while (after !== undefined)
}

/**
 * Marks what a comparison missed, and returns how much. An operator decides about it, or the next complete read does
 * (sendDeletes).
 */
export async function markMissing(
  deps: PollDeps,
  flow: string,
  lease: HeldLease,
  { seen, read }: Pick<CompleteRead, 'seen' | 'read'>,
): Promise<number> {
  await forgetShown(deps.database.db, flow, seen)
  let missing = 0
  for await (const pks of missingItems(deps.database.db, flow, { seen, read })) {
    const marked = await underLease(deps, lease, async (trx) => {
      // Nothing has compared them: if they return, they count as changed.
      await markUnread(trx, flow, pks)
      return countMissed(trx, flow, pks, { read, most: 0, counts: false })
    })
    missing += marked.length
  }
  return missing
}

/**
 * After a complete read of a flow that deletes nothing: notes which items are missing, because deletes of other flows wait for
 * that. Where one read may miss an item by chance, two must (scansToDelete).
 */
export async function noteMissing(
  deps: PollDeps,
  { flow: { name: flow, source, deletes, destinations } }: FlowRuntime,
  lease: HeldLease,
  { seen, read }: Pick<CompleteRead, 'seen' | 'read'>,
): Promise<void> {
  const { db } = deps.database
  const isSure = scansToDelete({ source, deletes }) === 1
  let isNew = false
  await forgetShown(db, flow, seen)
  for await (const pks of missingItems(db, flow, { seen, read })) {
    const before = new Map((await findMissed(db, flow, pks)).map((one) => [one.pk, one.scans]))
    const [first, again] = [
      pks.filter((pk) => !before.has(pk)),
      pks.filter((pk) => before.get(pk) === 0),
    ]
    if (first.length + again.length === 0) continue
    isNew ||= first.length > 0
    await underLease(deps, lease, async (trx) => {
      await countMissed(trx, flow, first, { read, most: 1, counts: isSure })
      await countMissed(trx, flow, again, { read, most: 1, counts: true })
      // Another flow may delete them: if they return, they are sent even if they are the same.
      await markUnread(trx, flow, first)
      await forgetDigests(
        trx,
        flow,
        destinations.map(({ name }) => name),
        first,
      )
    })
  }
  if (isNew && !isSure) await deps.database.transaction((trx) => requestFullScan(trx, flow))
}

/** The keys of stored items that a complete read did not find, in pages, without those that a later read found. */
async function* missingItems(
  db: Db,
  flow: string,
  { seen, read }: Pick<CompleteRead, 'seen' | 'read'>,
): AsyncGenerator<string[]> {
  if (seen.isWhole && seen.countUnseen() === 0) return
  let after: string | undefined
  let isWhole = true
  for (;;) {
    const pks = await listPksAfter(db, flow, after, pageSize)
    const unseen = pks.filter((pk) => !seen.has(pk))
    if (unseen.length > 0) yield await listReadBefore(db, flow, unseen, read)
    isWhole &&= pks.every((pk) => seen.isRemembered(pk))
    after = pks.at(-1)
    if (pks.length < pageSize) break
  }
  seen.isWhole = isWhole
}

/**
 * Why the guard stops deletes; undefined if it allows them. `known` counts stored items, including new ones of this
 * read. `letThrough` counts items of the same loss that an operator had deleted one by one.
 */
export function refusalOf(
  guard: Flow['deletes']['guard'],
  found: {
    seen: number
    known: number
    vanished: number
    letThrough: number
    problems: number
  },
): Reason | undefined {
  const { seen, vanished, letThrough, problems } = found
  if (vanished === 0) return undefined
  if (problems > 0) return unreadable(vanished)
  if (seen === 0 && guard.emptySource === 'refuse') {
    return { code: 'DELETES_HELD_EMPTY', data: { items: vanished } }
  }
  const known = found.known + letThrough
  const atOnce = vanished + letThrough
  const percent = (atOnce / known) * 100
  if (atOnce > guard.minItems && percent > guard.maxPercent) {
    const data = { items: vanished, percent: percent.toFixed(1), known, most: guard.maxPercent }
    return { code: 'DELETES_HELD_MANY', data }
  }
  return undefined
}

/** Why deletes wait after the first comparison with another source; undefined if there are none. */
export function otherSourceReason(isOtherSource: boolean, vanished: number): Reason | undefined {
  if (!isOtherSource || vanished === 0) return undefined
  return { code: 'DELETES_HELD_OTHER_SOURCE', data: { items: vanished } }
}

export function unreadable(vanished: number): Reason {
  return { code: 'DELETES_HELD_UNREAD', data: { items: vanished } }
}
