import type { Db, Trx } from '../../db/database.ts'
import type { Reason } from '../../domain/flow-reasons.ts'
import { type HeldLease, underLease } from '../../jobs/with-lease.ts'
import {
  type ApprovalRow,
  endApprovals,
  listApprovals,
} from '../../repositories/flows/approvals.ts'
import { deletedHash } from '../../repositories/flows/deliveries.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-errors.ts'
import {
  countItems,
  deleteHashes,
  listPksAfter,
  markUnread,
} from '../../repositories/flows/flow-items.ts'
import { requestFullScan, updateFlowState } from '../../repositories/flows/flow-state.ts'
import {
  clearHeldDeletes,
  countMissed,
  countMissedSince,
  findHeldDeletes,
  findMissed,
  forgetDigests,
  forgetMissed,
  listMissed,
  type MissedItem,
  writeHeldDeletes,
} from '../../repositories/flows/missing-items.ts'
import {
  listRemovedDestinations,
  notePendingDeletes,
} from '../../repositories/flows/pending-deletes.ts'
import type { Flow } from '../definition/schema.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { keyRecord } from '../item/item.ts'
import type { KeySet } from './key-set.ts'
import type { PollDeps } from './poll-writer.ts'

const pageSize = 1_000

/** The result of a complete read for deletes. `isCut`: the read left out records that a later one gives. */
type CompleteRead = {
  seen: KeySet
  problems: number
  read: number
  isCut: boolean
  /** The stored items come from another source, and no operator has approved the deletes. */
  isOtherSource: boolean
}

/**
 * After a complete read of a flow that deletes: deletes missing items at the destinations. Enough full scans must have
 * missed the item, and the guard or an operator must accept. A read with problems deletes only approved items,
 * because unreadable records are not gone. A cut read deletes nothing. An item that a read later than number `read`
 * found stays. Returns how many deletes were queued.
 */
export async function sendDeletes(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  found: CompleteRead,
): Promise<number> {
  const { flow } = runtime
  const { db } = deps.database
  const { seen, problems, read, isCut, isOtherSource } = found
  const letDelete = () => updateFlowState(db, flow.name, { holds_deletes: false })
  await forgetShown(db, flow.name, seen)
  const vanished: string[] = []
  for await (const pks of missingItems(db, flow.name, seen)) vanished.push(...pks)
  if (vanished.length === 0) {
    await clearHeldDeletes(db, flow.name)
    if (isOtherSource && problems === 0 && !isCut) await letDelete()
    return 0
  }
  if (isCut) {
    await reportHeldDeletes(deps, flow.name, vanished.length, unreadable(vanished.length))
    return 0
  }
  const known = await countItems(db, flow.name)
  const approvals = await listApprovals(db, flow.name, 'deletes')
  const isApproved = approvedBy(approvals)
  const unapproved = vanished.length - (await countApproved(db, flow.name, approvals))
  const approvedSingly = (await findHeldDeletes(db, flow.name))?.let_through ?? 0
  const refusalAfter = (deletedSingly: number) =>
    otherSourceReason(isOtherSource, unapproved - deletedSingly) ??
    refusalOf(flow.deletes.guard, {
      ...{ seen: seen.size, known: known - deletedSingly, vanished: unapproved - deletedSingly },
      ...{ approvedSingly: approvedSingly + deletedSingly, problems },
    })
  const refusal = refusalAfter(0)
  const scans = scansToDelete(flow)
  const counts = problems === 0
  const isOfAll = approvedBy(approvals.filter(({ pk }) => pk === ''))
  let deleted = 0
  let deletedSingly = 0
  let notDue = 0
  for (let from = 0; from < vanished.length; from += pageSize) {
    const page = vanished.slice(from, from + pageSize)
    await underLease(deps, lease, async (trx) => {
      const missed = await countMissed(trx, flow.name, page, { read, most: scans, counts })
      const due = missed.filter(
        (one) => isApproved(one) || (refusal === undefined && one.scans >= scans),
      )
      if (counts) notDue += missed.filter((one) => one.scans < scans).length
      await queueDeletes(deps, runtime, trx, { pks: due.map(({ pk }) => pk), read })
      deleted += due.length
      deletedSingly += due.filter((one) => isApproved(one) && !isOfAll(one)).length
    })
  }
  await endApprovals(db, flow.name, approvals)
  if (isOtherSource && approvals.some(({ pk }) => pk === '')) await letDelete()
  const why = refusal && refusalAfter(deletedSingly)
  if (why === undefined) await clearHeldDeletes(db, flow.name)
  else {
    const items = unapproved - deletedSingly
    await reportHeldDeletes(deps, flow.name, items, why)
    const at = deps.now()
    await writeHeldDeletes(db, {
      ...{ flow: flow.name, items, known: known - deletedSingly, why, read_number: read },
      ...{ let_through: approvedSingly + deletedSingly, since: at, held_at: at },
    })
  }
  // Most polls of this flow are incremental, so a full scan is requested to check again.
  if (notDue > 0) await deps.database.transaction((trx) => requestFullScan(trx, flow.name))
  return deleted
}

/** Deletes these items everywhere. With `isOtherKey` their keys are not those of the definition. */
export async function queueDeletes(
  deps: Pick<PollDeps, 'now' | 'enqueue'>,
  runtime: FlowRuntime,
  trx: Trx,
  { pks, read, isOtherKey = false }: { pks: string[]; read: number; isOtherKey?: boolean },
): Promise<void> {
  if (pks.length === 0) return
  const { name: flow, destinations } = runtime.flow
  await deleteHashes(trx, flow, pks)
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
  deps.log.warn({ flow, vanished }, 'deletes need approval')
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

/** Whether an operator approved the delete of an item: of this one, or of all that were missing then. */
export function approvedBy(approvals: readonly ApprovalRow[]): (item: MissedItem) => boolean {
  const reads = new Map(approvals.map((one) => [one.pk, one.read_number]))
  const all = reads.get('')
  return ({ pk, since }) => reads.has(pk) || (all !== undefined && since <= all)
}

/** How many missing items an approval of all covers. */
export async function countApproved(
  db: Db,
  flow: string,
  approvals: readonly ApprovalRow[],
): Promise<number> {
  const all = approvals.find(({ pk }) => pk === '')
  return all ? countMissedSince(db, flow, all.read_number) : 0
}

/** Items that this read found again are not missing. */
export async function forgetShown(db: Db, flow: string, seen: Pick<KeySet, 'has'>): Promise<void> {
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
  for await (const pks of missingItems(deps.database.db, flow, seen)) {
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
  for await (const pks of missingItems(db, flow, seen)) {
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

/** The keys of stored items that a complete read did not find, in pages. */
export async function* missingItems(
  db: Db,
  flow: string,
  seen: Pick<KeySet, 'has'>,
): AsyncGenerator<string[]> {
  let after: string | undefined
  for (;;) {
    const pks = await listPksAfter(db, flow, after, pageSize)
    yield pks.filter((pk) => !seen.has(pk))
    after = pks.at(-1)
    if (pks.length < pageSize) return
  }
}

/**
 * Why the guard stops deletes; undefined if it allows them. `known` counts stored items, including new ones of this
 * read. `approvedSingly` counts items of the same loss that were deleted after single approvals.
 */
export function refusalOf(
  guard: Flow['deletes']['guard'],
  found: {
    seen: number
    known: number
    vanished: number
    approvedSingly: number
    problems: number
  },
): Reason | undefined {
  const { seen, vanished, approvedSingly, problems } = found
  if (vanished === 0) return undefined
  if (problems > 0) return unreadable(vanished)
  if (seen === 0 && guard.emptySource === 'refuse') {
    return { code: 'DELETES_HELD_EMPTY', data: { items: vanished } }
  }
  const known = found.known + approvedSingly
  const atOnce = vanished + approvedSingly
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
