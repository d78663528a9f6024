import type { Db } from '../../db/database.ts'
import type { Reason } from '../../domain/flow-reasons.ts'
import { type ApprovalRow, listApprovals } from '../../repositories/flows/approvals.ts'
import { deletedHash } from '../../repositories/flows/deliveries.ts'
import { findHashes } from '../../repositories/flows/flow-items.ts'
import { findFlowState } from '../../repositories/flows/flow-state.ts'
import { findLastContents } from '../../repositories/flows/item-versions.ts'
import { findHeldDeletes, findMissed } from '../../repositories/flows/missing-items.ts'
import type {
  DeletesPreview,
  SampledChange,
  SyncPreview,
} from '../control/control-service-types.ts'
import type { DeliveryPreview } from '../deliver/delivery-preview.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { compareVersions } from '../item/differences.ts'
import { keyRecord } from '../item/item.ts'
import type { SourceRow } from '../types.ts'
import {
  approvedBy,
  countApproved,
  missingItems,
  otherSourceReason,
  refusalOf,
  scansToDelete,
  unreadable,
} from './deletes.ts'
import type { KeySet } from './key-set.ts'
import { watchFields } from './missing-fields.ts'
import {
  isOtherSource,
  isWithoutItems,
  planScan,
  questionState,
  type ScanPlan,
} from './poll-plan.ts'
import { createTally, type Sampled, type Tally } from './preview-counts.ts'
import { type PassWriter, runPass } from './read-and-compare.ts'
import { yieldToEventLoop } from './yield-to-event-loop.ts'

export type PreviewDeps = {
  db: Db
  now: () => Date
  /** The flow's destinations. */
  deliveryPreviews: readonly DeliveryPreview[]
  /** Called between batches. Throws when the preview is no longer wanted. */
  checkWanted: () => Promise<void>
}

/** Ends a preview early; the results so far are returned. Also used as the reason of an abort signal. */
export class CutOff extends Error {
  readonly by: 'rows' | 'time'

  constructor(by: 'rows' | 'time') {
    super(`the limit of ${by} was reached`)
    this.name = 'CutOff'
    this.by = by
  }
}

/**
 * What `pollOnce` would do now, by the same reading and comparing, but without writing. It holds no lease, so the
 * result is valid until the source or the flow changes. Memory does not grow with the source.
 */
export async function previewPoll(
  deps: PreviewDeps,
  runtime: FlowRuntime,
  { maxRows, signal }: { maxRows: number; signal: AbortSignal },
): Promise<SyncPreview> {
  const { flow } = runtime
  const startedAt = deps.now()
  const state = await findFlowState(deps.db, flow.name)
  if (!state) throw new Error(`the flow ${flow.name} has no state`)
  const isNewSource = isOtherSource(runtime, state)
  const known = isNewSource ? { ...state, cursor: null } : state
  const isNew = await isWithoutItems(deps.db, state)
  const definition = isNew ? 'none' : questionState(runtime, state)
  const plan = definition === 'comparing' ? null : planScan(runtime, known, 'normal', startedAt)
  const tally = createTally(deps.deliveryPreviews)
  const fields = watchFields(runtime, state)
  let deletes = unasked(runtime, plan)
  let cutOff: SyncPreview['cutOff'] = null
  try {
    if (plan) {
      const isForgetting = state.forget_due
      const from = plan.isFull ? null : known.cursor
      const pass = {
        ...{ since: plan.since, from, startedAt, signal, fields },
        previewOnly: true,
      }
      const counter = createCounter(deps, flow.name, { tally, signal, isForgetting, maxRows })
      const { seen } = await runPass(runtime, pass, counter)
      const needsApproval = isNewSource || state.holds_deletes
      const looking = { needsApproval, seen, tally, signal, isForgetting }
      if (!deletes) deletes = await lookForDeletes(deps, runtime, looking)
    }
  } catch (error) {
    // A source that is broken off may throw its own error.
    const cut = error instanceof CutOff ? error : signal.reason
    if (!(cut instanceof CutOff)) throw error
    cutOff = cut.by
  }
  return {
    definition,
    sourceChanged: isNewSource,
    scan: plan && { kind: plan.isFull ? 'full' : 'incremental', since: plan.since },
    cutOff,
    durationMs: deps.now().getTime() - startedAt.getTime(),
    deletes: deletes ?? { verdict: 'unknown', count: null, why: { code: 'DELETES_UNKNOWN' } },
    ...tally.report(),
    sample: await describe(deps.db, flow.name, tally.sampled()),
  }
}

/** Counts records. If there are more than `maxRows`, it yields the first ones before it ends. */
async function* upTo(
  maxRows: number,
  batches: AsyncIterable<SourceRow[]>,
  tally: Tally,
): AsyncGenerator<SourceRow[]> {
  for await (const rows of batches) {
    const kept = rows.slice(0, maxRows - tally.rowsRead)
    tally.rowsRead += kept.length
    if (kept.length > 0) yield kept
    // Thrown, because a grouped item may be incomplete at this point.
    if (kept.length < rows.length) throw new CutOff('rows')
  }
}

/** The basis for deletes. `isForgetting`: the poll first forgets stored items, as after a reset. */
type DeleteCheck = {
  /** Deletes wait for an approval, as after another source. */
  needsApproval: boolean
  seen: KeySet
  tally: Tally
  signal: AbortSignal
  isForgetting: boolean
}

const mostFoundKept = 100_000

/** Keeps only counts and examples of a pass, and the checks of destinations. */
function createCounter(
  { db, checkWanted }: PreviewDeps,
  flow: string,
  about: Pick<DeleteCheck, 'tally' | 'signal' | 'isForgetting'> & { maxRows: number },
): PassWriter {
  const { tally, signal, isForgetting, maxRows } = about
  /** What a poll would have stored for an earlier record. */
  const found = new Map<string, string>()
  return {
    receive: (batches) => upTo(maxRows, batches, tally),
    warn: tally.warn,
    async hashesOf(pks) {
      const stored = isForgetting ? new Map<string, string>() : await findHashes(db, flow, pks)
      for (const pk of pks) {
        const hash = found.get(pk)
        if (hash !== undefined) stored.set(pk, hash)
      }
      return stored
    },
    async take(batch) {
      tally.count(batch, batch.changes)
      for (const { item, kind } of batch.changes) {
        if (found.size < mostFoundKept) found.set(item.pk, item.hash)
        await yieldToEventLoop()
        signal.throwIfAborted()
        await tally.tryOut({ ...item, kind: 'upsert', isForced: kind === 'new' })
      }
      await checkWanted()
    },
  }
}

/** Why this poll would not look for missing items; undefined if it would. */
function unasked({ flow }: FlowRuntime, plan: ScanPlan | null): DeletesPreview | undefined {
  const because = (why: Reason): DeletesPreview => ({ verdict: 'not_asked', count: null, why })
  if (flow.deletes.mode !== 'delete') return because({ code: 'DELETES_IGNORED' })
  if (!plan) return because({ code: 'POLL_READS_NOTHING' })
  return plan.isFull ? undefined : because({ code: 'DELETES_BY_FULL_SCAN' })
}

async function lookForDeletes(
  { db, checkWanted }: PreviewDeps,
  runtime: FlowRuntime,
  looking: DeleteCheck,
): Promise<DeletesPreview> {
  const { flow } = runtime
  const { seen, tally, signal } = looking
  const approvals = await listApprovals(db, flow.name, 'deletes')
  const isDue = dueOf(db, flow, approvals)
  let vanished = 0
  let due = 0
  let approved = 0
  for await (const pks of missingItems(db, flow.name, seen)) {
    signal.throwIfAborted()
    vanished += pks.length
    const page = await isDue(pks)
    due += page.due.length
    approved += page.approved.length
    tally.sampleDeleted(pks)
    await checkWanted()
  }
  if (vanished === 0) return { verdict: 'none', count: 0, why: null }
  if (tally.isCut()) return { verdict: 'hold_back', count: vanished, why: unreadable(vanished) }
  const unapproved = vanished - (await countApproved(db, flow.name, approvals))
  const refusal =
    otherSourceReason(looking.needsApproval, unapproved) ??
    refusalOf(flow.deletes.guard, {
      seen: seen.size,
      // A poll has stored the new items by then.
      known: seen.size + vanished,
      vanished: unapproved,
      approvedSingly: (await findHeldDeletes(db, flow.name))?.let_through ?? 0,
      problems: tally.blockingProblems(),
    })
  const sent = refusal === undefined ? due : approved
  const waits: Reason = { code: 'DELETES_WAIT', data: { items: vanished - sent } }
  const why = refusal ?? (sent < vanished ? waits : null)
  if (sent === 0) return { verdict: 'hold_back', count: vanished, why }
  tally.countDeletes(sent)
  const chosen = async (pks: string[]) =>
    (await isDue(pks))[refusal === undefined ? 'due' : 'approved']
  await tryDeletes(db, runtime, looking, chosen)
  return { verdict: 'send', count: sent, why }
}

/** Missing items that a poll would delete now: missed by enough scans, or approved. */
function dueOf(db: Db, flow: FlowRuntime['flow'], approvals: readonly ApprovalRow[]) {
  const scans = scansToDelete(flow)
  const isApproved = approvedBy(approvals)
  return async (pks: string[]) => {
    if (scans === 1 && approvals.length === 0) return { due: pks, approved: [] }
    const missed = new Map((await findMissed(db, flow.name, pks)).map((one) => [one.pk, one]))
    const approved = pks.filter((pk) =>
      isApproved(missed.get(pk) ?? { pk, scans: 0, since: Infinity }),
    )
    const isRipe = (pk: string) => (missed.get(pk)?.scans ?? 0) + 1 >= scans
    return { due: pks.filter((pk) => isRipe(pk) || approved.includes(pk)), approved }
  }
}

async function tryDeletes(
  db: Db,
  runtime: FlowRuntime,
  { seen, tally, signal }: DeleteCheck,
  chosen: (pks: string[]) => Promise<string[]>,
) {
  for await (const pks of missingItems(db, runtime.flow.name, seen)) {
    for (const pk of await chosen(pks)) {
      await yieldToEventLoop()
      signal.throwIfAborted()
      const value = keyRecord(runtime.flow.item.key, pk)
      const mayGoOn = await tally.tryOut({ pk, kind: 'delete', hash: deletedHash, value })
      if (!mayGoOn) return
    }
  }
}

async function describe(db: Db, flow: string, sampled: Sampled[]): Promise<SampledChange[]> {
  const before = await findLastContents(
    db,
    flow,
    sampled.map(({ pk }) => pk),
  )
  return sampled.map(({ pk, kind, value }) =>
    kind === 'deleted'
      ? { pk, kind, comparison: 'deleted', differences: [], differenceCount: 0 }
      : { pk, kind, ...compareVersions(before.get(pk), value) },
  )
}
