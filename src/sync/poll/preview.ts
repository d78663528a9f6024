import type { Db } from '../../db/database.ts'
import { sentenceOf } from '../../domain/flow-reasons.ts'
import { type ApprovalRow, listApprovals } from '../../repositories/flows/approvals.ts'
import { deletedHash } from '../../repositories/flows/deliveries.ts'
import { countItems, findHashes } from '../../repositories/flows/flow-items.ts'
import { findFlowState } from '../../repositories/flows/flow-state.ts'
import { findLastContents } from '../../repositories/flows/item-versions.ts'
import { findHeldDeletes, findMissed } from '../../repositories/flows/missed-items.ts'
import type { Rehearsal } from '../deliver/rehearse.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { compareVersions } from '../item/differences.ts'
import type { DeletesPreview, SampledChange, SyncPreview } from '../sync-preview.ts'
import type { SourceRow } from '../types.ts'
import { breathe } from './breather.ts'
import {
  approvedBy,
  countApproved,
  otherSourceReason,
  refusalOf,
  scansToDelete,
  unreadable,
  vanishedItems,
} from './deletes.ts'
import { isOtherSource, unapprovedDestinations } from './identity.ts'
import type { KeySet } from './key-set.ts'
import { watchFields } from './missing-fields.ts'
import { type PassWriter, passOver } from './pass.ts'
import { hasOtherKey, planScan, type Turn, tellsChanges, tellsNews, turnOf } from './plan.ts'
import { createTally, type Sampled, type Tally } from './preview-tally.ts'

export type PreviewDeps = {
  db: Db
  now: () => Date
  /** The flow's destinations. */
  rehearsals: readonly Rehearsal[]
  /** Called between batches; throws when nobody wants the preview to go on. */
  pulse: () => Promise<void>
}

/** Ends a preview early; what is known by then is told. Also the reason of a signal that ends one. */
export class CutOff extends Error {
  readonly by: 'rows' | 'time'

  constructor(by: 'rows' | 'time') {
    super(`the limit of ${by} was reached`)
    this.name = 'CutOff'
    this.by = by
  }
}

/**
 * What `pollOnce` would do now, by the same reading and comparing, without writing anything anywhere. It holds no lease:
 * what it says is true as long as neither the source nor the flow changes. Memory does not grow with the source.
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
  const others = await unapprovedDestinations(deps.db, runtime, state)
  const items = others.length > 0 ? await countItems(deps.db, flow.name) : 0
  const isNewSource = isOtherSource(runtime, state)
  const known = isNewSource ? { ...state, cursor: null } : state
  const turn = others.length > 0 ? 'ask' : turnOf(runtime, state)
  const plan = turn === 'ask' ? null : planScan(runtime, known, turn, startedAt)
  const tally = createTally(deps.rehearsals)
  const fields = watchFields(runtime, state)
  let deletes = unasked(runtime, turn, plan?.isFull ?? false)
  let cutOff: SyncPreview['cutOff'] = null
  try {
    if (plan) {
      const isForgetting = turn === 'resync' || state.forget_due
      const isOtherKey = hasOtherKey(runtime, state)
      const telling = {
        sendsChanges: tellsChanges(runtime, state, turn),
        sendsNews: tellsNews(runtime, state, turn),
        earlierForms: state.hash_forms,
      }
      const from = plan.isFull ? null : known.cursor
      const pass = {
        ...{ since: plan.since, from, startedAt, signal, fields, telling },
        lookOnly: true,
      }
      const counter = createCounter(deps, flow.name, { tally, signal, isForgetting, maxRows })
      const { seen } = await passOver(runtime, pass, counter)
      const holdsDeletes = isNewSource || state.holds_deletes
      const looking = { holdsDeletes, seen, tally, signal, isForgetting, isOtherKey }
      if (!deletes) deletes = await lookForDeletes(deps, runtime, looking)
    }
  } catch (error) {
    // A source that was broken off may say so in its own words.
    const cut = error instanceof CutOff ? error : signal.reason
    if (!(cut instanceof CutOff)) throw error
    cutOff = cut.by
  }
  return {
    turn,
    identity: {
      sourceChanged: isNewSource,
      destinations: others.map((name) => ({ name, items })),
    },
    scan: plan && { kind: plan.isFull ? 'full' : 'incremental', since: plan.since },
    cutOff,
    durationMs: deps.now().getTime() - startedAt.getTime(),
    deletes: deletes ?? { verdict: 'unknown', count: null, reason: 'not everything was read' },
    ...tally.report(),
    sample: await describe(deps.db, flow.name, tally.sampled()),
  }
}

/** Counts what comes. Of more records than `maxRows` the first are handed on before it ends. */
async function* upTo(
  maxRows: number,
  batches: AsyncIterable<SourceRow[]>,
  tally: Tally,
): AsyncGenerator<SourceRow[]> {
  for await (const rows of batches) {
    const kept = rows.slice(0, maxRows - tally.rowsRead)
    tally.rowsRead += kept.length
    if (kept.length > 0) yield kept
    // Thrown, not returned: the records of an item that is put together from several may be half there.
    if (kept.length < rows.length) throw new CutOff('rows')
  }
}

/** What deletes go by. `isForgetting`: the poll forgets first what was there, as after a reset; `isOtherKey`: what is stored goes by another key. */
type Looking = {
  /** Deletes wait for an approval, as after another source. */
  holdsDeletes: boolean
  seen: KeySet
  tally: Tally
  signal: AbortSignal
  isForgetting: boolean
  isOtherKey: boolean
}

const mostFoundKept = 100_000

/** Leaves nothing of a pass but figures, some examples, and what destinations would say. */
function createCounter(
  { db, pulse }: PreviewDeps,
  flow: string,
  about: Pick<Looking, 'tally' | 'signal' | 'isForgetting'> & { maxRows: number },
): PassWriter {
  const { tally, signal, isForgetting, maxRows } = about
  /** What a poll would have stored of an earlier record. */
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
      for (const { item, kind, isOwed } of batch.changes) {
        if (found.size < mostFoundKept) found.set(item.pk, item.hash)
        if (!isOwed) continue
        await breathe()
        signal.throwIfAborted()
        await tally.tryOut({ ...item, kind: 'upsert', isAnew: kind === 'new' })
      }
      await pulse()
    },
  }
}

/** Why this poll would not look for what is gone; undefined when it would. */
function unasked({ flow }: FlowRuntime, turn: Turn, isFull: boolean): DeletesPreview | undefined {
  const say = (reason: string): DeletesPreview => ({ verdict: 'not_asked', count: null, reason })
  if (flow.deletes.mode !== 'delete') return say('deletes.mode of the flow is ignore')
  if (turn === 'ask') return say('the poll reads nothing')
  if (turn === 'rebase') return say('the first poll of a changed definition deletes nothing')
  return isFull ? undefined : say('only a full scan shows what is gone')
}

async function lookForDeletes(
  { db, pulse }: PreviewDeps,
  runtime: FlowRuntime,
  looking: Looking,
): Promise<DeletesPreview> {
  const { flow } = runtime
  const { seen, tally, signal, isForgetting, isOtherKey } = looking
  if (isForgetting && isOtherKey) return { verdict: 'none', count: 0, reason: null }
  const approvals = await listApprovals(db, flow.name, 'deletes')
  const isDue = dueOf(db, flow, approvals)
  let vanished = 0
  let due = 0
  let approved = 0
  for await (const pks of vanishedItems(db, flow.name, seen)) {
    signal.throwIfAborted()
    vanished += pks.length
    const page = await isDue(pks)
    due += page.due.length
    approved += page.approved.length
    tally.sampleDeleted(pks)
    await pulse()
  }
  if (vanished === 0) return { verdict: 'none', count: 0, reason: null }
  if (tally.isCut())
    return { verdict: 'hold_back', count: vanished, reason: sentenceOf(unreadable(vanished), 'en') }
  const unapproved = vanished - (await countApproved(db, flow.name, approvals))
  const refusal =
    otherSourceReason(looking.holdsDeletes, unapproved) ??
    refusalOf(flow.deletes.guard, {
      seen: seen.size,
      // A poll has stored the new ones by then.
      known: seen.size + vanished,
      vanished: unapproved,
      letThrough: (await findHeldDeletes(db, flow.name))?.let_through ?? 0,
      problems: tally.inTheWay(),
    })
  const sent = refusal === undefined ? due : approved
  const waits = `${vanished - sent} wait for another full scan without them`
  const held = refusal && sentenceOf(refusal, 'en')
  const reason = held ?? (sent < vanished ? waits : null)
  if (sent === 0) return { verdict: 'hold_back', count: vanished, reason }
  tally.countDeletes(sent)
  const chosen = async (pks: string[]) =>
    (await isDue(pks))[refusal === undefined ? 'due' : 'approved']
  await tryDeletes(db, runtime, looking, chosen)
  return { verdict: 'send', count: sent, reason }
}

/** Which of the vanished items a poll would delete now: by its scans, and those whose delete was approved. */
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
  { seen, tally, signal }: Looking,
  chosen: (pks: string[]) => Promise<string[]>,
) {
  for await (const pks of vanishedItems(db, runtime.flow.name, seen)) {
    for (const pk of await chosen(pks)) {
      await breathe()
      signal.throwIfAborted()
      const value = runtime.keyValue(pk)
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
