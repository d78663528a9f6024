import type { Db, Trx } from '../../db/database.ts'
import type { Reason } from '../../domain/flow-reasons.ts'
import {
  type ApprovalRow,
  endApprovals,
  listApprovals,
} from '../../repositories/flows/approvals.ts'
import { deletedHash } from '../../repositories/flows/deliveries.ts'
import { countItems, deleteHashes, listPksAfter } from '../../repositories/flows/flow-items.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-problems.ts'
import { requestFullScan, updateFlowState } from '../../repositories/flows/flow-state.ts'
import {
  clearHeldDeletes,
  countMissed,
  countMissedSince,
  findHeldDeletes,
  forgetMissed,
  listMissed,
  type MissedItem,
  writeHeldDeletes,
} from '../../repositories/flows/missed-items.ts'
import type { Flow } from '../definition/schema.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { KeySet } from './key-set.ts'
import { type PollDeps, type PollLease, underLease } from './poll-lease.ts'

const pageSize = 1_000

/** What a complete read says about what is gone. `isCut`: records were left out that a later one gives. */
type CompleteRead = {
  seen: KeySet
  problems: number
  read: number
  isCut: boolean
  /** What is stored was learnt from another source, and nobody has approved the deletes that follow. */
  isOtherSource: boolean
}

/**
 * After a complete read: items that the source no longer has are deleted at the destinations, when the flow says so, enough
 * reads in a row have missed them, and the guard sees no accident or an operator has approved it. A read with problems deletes
 * only what was approved, since what could not be read did not vanish, and one that is cut nothing at all; nor is an item deleted
 * that a read has shown that began after this one, number `read`. Answers how many deletes were queued.
 */
export async function sendDeletes(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  found: CompleteRead,
): Promise<number> {
  const { flow } = runtime
  const { db } = deps.database
  if (flow.deletes.mode !== 'delete') return 0
  const { seen, problems, read, isCut, isOtherSource } = found
  const letDelete = () => updateFlowState(db, flow.name, { holds_deletes: false })
  await forgetShown(db, flow.name, seen)
  const vanished: string[] = []
  for await (const pks of vanishedItems(db, flow.name, seen)) vanished.push(...pks)
  if (vanished.length === 0) {
    await clearHeldDeletes(db, flow.name)
    if (isOtherSource && problems === 0 && !isCut) await letDelete()
    return 0
  }
  if (isCut) {
    await tellHeld(deps, flow.name, vanished.length, unreadable(vanished.length))
    return 0
  }
  const known = await countItems(db, flow.name)
  const approvals = await listApprovals(db, flow.name, 'deletes')
  const isApproved = approvedBy(approvals)
  const held = vanished.length - (await countApproved(db, flow.name, approvals))
  const letThrough = (await findHeldDeletes(db, flow.name))?.let_through ?? 0
  const refusalAfter = (deletedSingly: number) =>
    otherSourceReason(isOtherSource, held - deletedSingly) ??
    refusalOf(flow.deletes.guard, {
      ...{ seen: seen.size, known: known - deletedSingly, vanished: held - deletedSingly },
      ...{ letThrough: letThrough + deletedSingly, problems },
    })
  const refusal = refusalAfter(0)
  const scans = scansToDelete(flow)
  const counts = problems === 0
  const isOfAll = approvedBy(approvals.filter(({ pk }) => pk === ''))
  let deleted = 0
  let deletedSingly = 0
  let unripe = 0
  for (let from = 0; from < vanished.length; from += pageSize) {
    const page = vanished.slice(from, from + pageSize)
    await underLease(deps, lease, async (trx) => {
      const missed = await countMissed(trx, flow.name, page, { read, most: scans, counts })
      const ripe = missed.filter(
        (one) => isApproved(one) || (refusal === undefined && one.scans >= scans),
      )
      if (counts) unripe += missed.filter((one) => one.scans < scans).length
      await queueDeletes(deps, runtime, trx, { pks: ripe.map(({ pk }) => pk), read })
      deleted += ripe.length
      deletedSingly += ripe.filter((one) => isApproved(one) && !isOfAll(one)).length
    })
  }
  await endApprovals(db, flow.name, approvals)
  if (isOtherSource && approvals.some(({ pk }) => pk === '')) await letDelete()
  const why = refusal && refusalAfter(deletedSingly)
  if (why === undefined) await clearHeldDeletes(db, flow.name)
  else {
    const items = held - deletedSingly
    await tellHeld(deps, flow.name, items, why)
    const at = deps.now()
    await writeHeldDeletes(db, {
      ...{ flow: flow.name, items, known: known - deletedSingly, why, read_number: read },
      ...{ let_through: letThrough + deletedSingly, since: at, held_at: at },
    })
  }
  // Where most polls read only what is new, the next one looks again.
  if (unripe > 0) await deps.database.transaction((trx) => requestFullScan(trx, flow.name))
  return deleted
}

async function queueDeletes(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  { pks, read }: { pks: string[]; read: number },
): Promise<void> {
  if (pks.length === 0) return
  await deleteHashes(trx, runtime.flow.name, pks)
  await deps.enqueue(
    trx,
    runtime,
    pks.map((pk) => {
      const value = runtime.keyValue(pk)
      return { pk, kind: 'delete', hash: deletedHash, value, change: read }
    }),
  )
}

async function tellHeld(
  deps: PollDeps,
  flow: string,
  vanished: number,
  why: Reason,
): Promise<void> {
  deps.log.warn({ flow, vanished }, 'deletes were held back')
  const problem = { flow, pk: '', why, at: deps.now() }
  await insertSourceProblem(deps.database.db, problem)
}

/**
 * How many full scans in a row have to miss an item before it is deleted. Between two pages of a list records move, and one
 * that moves to where was read before is missed. The same within a query of SQL Server, which reads what is committed at each
 * moment; a query of PostgreSQL or MySQL sees the table as it was when the query began.
 */
export function scansToDelete({ source, deletes }: Pick<Flow, 'source' | 'deletes'>): number {
  if (deletes.scans !== undefined) return deletes.scans
  const isPaged = source.type === 'http' && source.paging.type !== 'none'
  const isMoving = source.type === 'sql' && source.driver === 'mssql'
  return isPaged || isMoving ? 2 : 1
}

/** Whether somebody has let the delete of an item through: of this one, or of all that were missing then. */
export function approvedBy(approvals: readonly ApprovalRow[]): (item: MissedItem) => boolean {
  const reads = new Map(approvals.map((one) => [one.pk, one.read_number]))
  const all = reads.get('')
  return ({ pk, since }) => reads.has(pk) || (all !== undefined && since <= all)
}

/** How many of the missing items an approval of all lets through. */
export async function countApproved(
  db: Db,
  flow: string,
  approvals: readonly ApprovalRow[],
): Promise<number> {
  const all = approvals.find(({ pk }) => pk === '')
  return all ? countMissedSince(db, flow, all.read_number) : 0
}

/** What this read has shown again was not gone. */
async function forgetShown(db: Db, flow: string, seen: Pick<KeySet, 'has'>): Promise<void> {
  let after: string | undefined
  do {
    const missed = await listMissed(db, flow, after, pageSize)
    const shown = missed.filter((pk) => seen.has(pk))
    if (shown.length > 0) await forgetMissed(db, flow, shown)
    after = missed.length === pageSize ? missed.at(-1) : undefined
  } while (after !== undefined)
}

/**
 * After the first complete read under another key: what is stored by the old one is forgotten and deleted nowhere, as it is the
 * same items by names that nothing has any longer.
 */
export async function forgetVanished(
  deps: Pick<PollDeps, 'database' | 'now'>,
  flow: string,
  lease: PollLease,
  seen: Pick<KeySet, 'has'>,
): Promise<void> {
  for await (const pks of vanishedItems(deps.database.db, flow, seen)) {
    await underLease(deps, lease, async (trx) => {
      await deleteHashes(trx, flow, pks)
    })
  }
}

/** The keys of stored items that a complete read has not met, some at a time. */
export async function* vanishedItems(
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
 * Why the guard holds deletes back; undefined when it lets them through. `known` counts the stored items, those included
 * that this read found new; `letThrough` those that vanished with the others and were deleted since, each by an approval of its
 * own.
 */
export function refusalOf(
  guard: Flow['deletes']['guard'],
  found: { seen: number; known: number; vanished: number; letThrough: number; problems: number },
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

/** Why deletes wait that follow from the first comparison with another source; undefined when there are none. */
export function otherSourceReason(isOtherSource: boolean, vanished: number): Reason | undefined {
  if (!isOtherSource || vanished === 0) return undefined
  return { code: 'DELETES_HELD_OTHER_SOURCE', data: { items: vanished } }
}

export function unreadable(vanished: number): Reason {
  return { code: 'DELETES_HELD_UNREAD', data: { items: vanished } }
}
