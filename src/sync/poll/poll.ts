import type { Trx } from '../../db/database.ts'
import { keptReason, type Reason } from '../../domain/flow-reasons.ts'
import { listFills, settleFills } from '../../repositories/flows/destination-fills.ts'
import { isOnRecord } from '../../repositories/flows/flow-items.ts'
import { insertPoll } from '../../repositories/flows/flow-polls.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-problems.ts'
import { beginPollRead, endPoll, type FlowStateRow } from '../../repositories/flows/flow-state.ts'
import { countRun } from '../../repositories/flows/flow-switches.ts'
import { pauseByService } from '../control/switches.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { SourceError } from '../types.ts'
import { forgetVanished, sendDeletes } from './deletes.ts'
import { settleIdentity } from './identity.ts'
import { watchFields } from './missing-fields.ts'
import {
  acceptedBy,
  forgetItems,
  planScan,
  settleDefinition,
  tellsChanges,
  tellsNews,
} from './plan.ts'
import { LeaseLostError, type PollDeps, type PollLease, underLease } from './poll-lease.ts'
import { isCutOff, type Progress, readSource, reportWarnings } from './poll-writer.ts'
import type { PollOutcome } from './poller.ts'
import { isGrouped } from './read-items.ts'

/**
 * Reads the source once and queues what changed. Hashes and deliveries of a batch are written in one transaction, so a
 * crash at any moment leaves items either unseen or owed; the cursor moves with the last transaction only. The state of the flow is read
 * before (`found`) and written at the end. A failure is recorded and thrown.
 */
export async function pollOnce(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  found: FlowStateRow,
): Promise<PollOutcome> {
  const { flow } = runtime
  const bound = await settleIdentity(deps, runtime, lease, found)
  if ('asked' in bound) {
    return { changes: 0, rowsRead: 0, skipped: 'paused', why: bound.asked }
  }
  const { turn, state } = await settleDefinition(deps, runtime, lease, bound.state)
  if (turn === 'ask') {
    return { changes: 0, rowsRead: 0, skipped: 'paused', why: { code: 'DEFINITION_CHANGED' } }
  }
  await forgetItems(deps, runtime, lease, state)

  const startedAt = deps.now()
  const { isFull, since } = planScan(runtime, state, turn, startedAt)
  // A full read learns the position anew: one that no record has any longer would hide all that changes.
  const from = isFull ? null : state.cursor
  const destinations = new Set(flow.destinations.map(({ name }) => name))
  const fills = isFull
    ? (await listFills(deps.database.db, flow.name)).filter((one) =>
        destinations.has(one.destination),
      )
    : []
  const telling = {
    sendsChanges: tellsChanges(runtime, state, turn),
    sendsNews: tellsNews(runtime, state, turn),
    earlierForms: state.hash_forms,
    renewsHashes: turn === 'rebase' || fills.length > 0,
  }
  const progress: Progress = {
    read: await beginPollRead(deps.database.db, flow.name),
    isFirst: state.last_success_at === null && !(await isOnRecord(deps.database.db, flow.name)),
    startedAt,
    savedAtMs: startedAt.getTime(),
    rowsRead: 0,
    changes: 0,
    counts: { new: 0, changed: 0, deleted: 0 },
    problems: 0,
    duplicates: 0,
    mustReadAgain: false,
    warnings: [],
    from,
    cursor: from,
    fills,
    fields: watchFields(runtime, state),
    isAgain: false,
    grouped: isGrouped(runtime) ? { batches: [], size: 0, isFull: false } : undefined,
  }
  try {
    const seen = await readSource(deps, runtime, lease, telling, since, progress)
    await reportWarnings(deps, runtime, progress)
    if (isFull && turn !== 'rebase') {
      const { read } = progress
      const isCut = isCutOff(progress)
      const problems = progress.problems - progress.duplicates
      const found = { seen, problems, read, isCut, isOtherSource: state.holds_deletes }
      progress.counts.deleted = await sendDeletes(deps, runtime, lease, found)
      progress.changes += progress.counts.deleted
    }
    if (!telling.sendsNews) await forgetVanished(deps, flow.name, lease, seen)
    await finish(deps, runtime, lease, state, isFull, progress)
  } catch (error) {
    // A source that was broken off says so in its own words; what counts is that nothing more of it may be written.
    const failure = lease.signal.aborted ? new LeaseLostError() : error
    await recordFailure(deps, runtime, isFull, progress, failure)
    throw failure
  }
  if (!progress.mustReadAgain) await runtime.source.committed?.()
  logPoll(deps, flow.name, isFull, progress)
  return { changes: progress.changes, rowsRead: progress.rowsRead }
}

/** A flow that polls every few seconds would bury the log under polls that found nothing; `/metrics` counts those. */
function logPoll(deps: PollDeps, flow: string, isFull: boolean, progress: Progress): void {
  const { startedAt, rowsRead, changes, problems } = progress
  if (changes + problems === 0) return
  const kind = isFull ? 'full' : 'incremental'
  const durationMs = deps.now().getTime() - startedAt.getTime()
  deps.log.info({ flow, kind, rowsRead, changes, problems, durationMs }, 'flow polled')
}

async function finish(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  state: FlowStateRow,
  isFull: boolean,
  progress: Progress,
): Promise<void> {
  const { flow } = runtime
  await underLease(deps, lease, async (trx) => {
    const now = deps.now()
    await insertPoll(trx, pollRow(flow.name, isFull, progress, now))
    // What was left out of a read that was not whole is read, filled, and looked for, by the next one.
    const isWhole = !progress.mustReadAgain && !isCutOff(progress)
    await endPoll(trx, flow.name, {
      ...acceptedBy(runtime),
      ...progress.fields.learned(),
      cursor: isWhole ? progress.cursor : progress.from,
      cursor_origin: runtime.cursor?.origin ?? null,
      item_form: runtime.itemForm,
      last_poll_at: now,
      last_success_at: now,
      ...(isFull && { last_full_scan_at: progress.startedAt }),
      scannedAfter: isFull && isWhole ? state.resets : undefined,
    })
    if (isFull && isWhole) await settleFills(trx, flow.name, progress.fills)
    await endRun(trx, flow.name, now)
  })
}

function pollRow(flow: string, isFull: boolean, progress: Progress, now: Date) {
  return {
    flow,
    kind: isFull ? ('full' as const) : ('incremental' as const),
    startedAt: progress.startedAt,
    durationMs: now.getTime() - progress.startedAt.getTime(),
    rowsRead: progress.rowsRead,
    changes: progress.changes,
    items: { ...progress.counts, refused: progress.problems },
    why: null,
  }
}

async function endRun(trx: Trx, flow: string, at: Date): Promise<void> {
  if (await countRun(trx, flow)) {
    await pauseByService(trx, [flow], { at, why: { code: 'RUN_LIMIT_REACHED' } })
  }
}

async function recordFailure(
  deps: PollDeps,
  runtime: FlowRuntime,
  isFull: boolean,
  progress: Progress,
  error: unknown,
): Promise<void> {
  const { flow } = runtime
  if (error instanceof LeaseLostError) return
  // What a driver says may hold data or addresses; only our own words are kept.
  const why: Reason = error instanceof SourceError ? keptReason(error.why) : { code: 'POLL_FAILED' }
  const now = deps.now()
  try {
    await deps.database.transaction(async (trx) => {
      await insertPoll(trx, { ...pollRow(flow.name, isFull, progress, now), why })
      await endPoll(trx, flow.name, { last_poll_at: now })
    })
    await insertSourceProblem(deps.database.db, {
      flow: flow.name,
      pk: '',
      why,
      at: now,
    })
  } catch (cause) {
    deps.log.error({ flow: flow.name, err: cause }, 'a failed poll could not be recorded')
  }
}
