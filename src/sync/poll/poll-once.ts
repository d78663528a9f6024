import type { Trx } from '../../db/database.ts'
import { countRun } from '../../repositories/flow-control.ts'
import { findHashes, lockItemsChangedSince, upsertHashes } from '../../repositories/flow-items.ts'
import { insertPoll } from '../../repositories/flow-polls.ts'
import { insertSourceProblem } from '../../repositories/flow-problems.ts'
import {
  clearProgress,
  type FlowStateRow,
  findFlowState,
  holdsLease,
  requestForgetting,
  saveProgress,
  settleFullScan,
  updateFlowState,
} from '../../repositories/flow-state.ts'
import { pauseByService } from '../control/switches.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { SourceError, type SourceRow } from '../types.ts'
import { changesOf, type FoundChange, readBatch, recordsOf } from './compare.ts'
import { cursorText, isAhead, laterCursor } from './cursor.ts'
import { sendDeletes } from './deletes.ts'
import { forgetItems } from './forget.ts'
import { createKeySet, type KeySet } from './key-set.ts'
import { planScan, type Turn, tellsChanges, turnOf } from './plan.ts'
import { LeaseLostError, type PollDeps, type PollLease } from './poll-deps.ts'
import type { PollOutcome } from './poller.ts'

type Progress = {
  startedAt: Date
  savedAtMs: number
  rowsRead: number
  changes: number
  problems: number
  /** Something could not be judged this time: the next poll begins where this one did. */
  mustReadAgain: boolean
  /** The position before this poll; null when it reads everything. */
  from: string | null
  cursor: string | null
}

/**
 * Reads the source once and queues what changed. Hashes and deliveries of a batch are written in one transaction, so a
 * crash at any moment leaves items either unseen or owed; the cursor moves with the last transaction only. A failure is
 * recorded and thrown.
 */
export async function pollOnce(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
): Promise<PollOutcome> {
  const { flow } = runtime
  const turn = await settleDefinition(deps, runtime, await readState(deps, flow.name))
  if (turn === 'ask') return { changes: 0, rowsRead: 0, skipped: 'paused' }
  await forgetItems(deps, flow.name, lease)
  const state = await readState(deps, flow.name)

  const startedAt = deps.now()
  const sendsChanges = tellsChanges(runtime, state, turn)
  const { isFull, since } = planScan(runtime, state, turn, startedAt)
  // A full read learns the position anew: one that no record has any longer would hide all that changes.
  const from = isFull ? null : state.cursor
  const progress: Progress = {
    startedAt,
    savedAtMs: startedAt.getTime(),
    rowsRead: 0,
    changes: 0,
    problems: 0,
    mustReadAgain: false,
    from,
    cursor: from,
  }
  await clearProgress(deps.database.db, flow.name)
  try {
    const seen = createKeySet()
    for await (const rows of recordsOf(runtime, counted(runtime, lease, since, progress))) {
      await takeItems(deps, runtime, lease, sendsChanges, rows, seen, progress)
    }
    if (isFull && turn !== 'rebase') {
      progress.changes += await sendDeletes(deps, runtime, lease, {
        seen,
        problems: progress.problems,
        readSince: startedAt,
      })
    }
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

async function readState(deps: PollDeps, flow: string): Promise<FlowStateRow> {
  const state = await findFlowState(deps.database.db, flow)
  if (!state) throw new Error(`the flow ${flow} has no state`)
  return state
}

/** Does what a changed definition asks for before the source is read. Answers the turn of this poll. */
async function settleDefinition(
  deps: PollDeps,
  runtime: FlowRuntime,
  state: FlowStateRow,
): Promise<Turn> {
  const { flow, definitionHash } = runtime
  const turn = turnOf(runtime, state)
  if (turn === 'resync') {
    await deps.database.transaction(async (trx) => {
      await updateFlowState(trx, flow.name, { definition_hash: definitionHash })
      await requestForgetting(trx, flow.name)
    })
  }
  if (turn === 'ask') {
    await deps.database.transaction(async (trx) => {
      await updateFlowState(trx, flow.name, { pending_definition_hash: definitionHash })
      await pauseByService(trx, [flow.name], {
        at: deps.now(),
        reason:
          'The definition changed. Resume: keep what was sent. Resync with force: send everything again',
      })
    })
    deps.log.warn({ flow: flow.name }, 'the definition of a flow changed; it waits for an operator')
  }
  return turn
}

/** The source's records, counted, with the cursor moving along. */
async function* counted(
  runtime: FlowRuntime,
  lease: PollLease,
  since: string | null,
  progress: Progress,
): AsyncGenerator<SourceRow[]> {
  const field = runtime.cursor?.field
  for await (const rows of runtime.source.scan({ since, signal: lease.signal })) {
    if (lease.signal.aborted) throw new LeaseLostError()
    progress.rowsRead += rows.length
    if (field !== undefined) {
      for (const row of rows) {
        const text = cursorText(row[field])
        if (text === undefined || isAhead(text, progress.startedAt)) continue
        progress.cursor = laterCursor(progress.cursor, text)
      }
    }
    yield rows
  }
}

async function takeItems(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  sendsChanges: boolean,
  rows: readonly SourceRow[],
  seen: KeySet,
  progress: Progress,
): Promise<void> {
  const { flow } = runtime
  const { items, problems } = await readBatch(runtime, rows, seen, lease.signal)
  for (const problem of problems) await reportProblem(deps, runtime, progress, problem)
  progress.mustReadAgain ||= problems.some(({ mayPass }) => mayPass === true)
  const stored = await findHashes(
    deps.database.db,
    flow.name,
    items.map((item) => item.pk),
  )
  const changes = changesOf(items, stored, sendsChanges)
  if (changes.length > 0) {
    progress.changes += await deps.database.transaction((trx) =>
      writeChanges(deps, runtime, trx, lease, { changes, readSince: progress.startedAt }),
    )
  }
  const now = deps.now()
  if (now.getTime() - progress.savedAtMs >= 1_000) {
    progress.savedAtMs = now.getTime()
    await saveProgress(deps.database.db, {
      flow: flow.name,
      started_at: progress.startedAt,
      rows_read: progress.rowsRead,
      changes: progress.changes,
      updated_at: now,
    })
  }
}

async function writeChanges(
  deps: PollDeps,
  runtime: FlowRuntime,
  trx: Trx,
  lease: PollLease,
  { changes, readSince }: { changes: readonly FoundChange[]; readSince: Date },
): Promise<number> {
  const { flow } = runtime
  const now = deps.now()
  if (!(await holdsLease(trx, { ...lease, now }))) throw new LeaseLostError()
  const newer = await lockItemsChangedSince(
    trx,
    flow.name,
    changes.map(({ item }) => item.pk),
    readSince,
  )
  const ours = changes.filter(({ item }) => !newer.has(item.pk))
  await upsertHashes(
    trx,
    flow.name,
    ours.map(({ item }) => item),
    now,
  )
  const owed = ours.filter(({ isOwed }) => isOwed)
  await deps.enqueue(
    trx,
    runtime,
    owed.map(({ item: { pk, hash, value } }) => ({ pk, kind: 'upsert', hash, value })),
  )
  return owed.length
}

const problemsKept = 1_000

async function reportProblem(
  deps: PollDeps,
  runtime: FlowRuntime,
  progress: Progress,
  problem: { pk: string | null; message: string },
): Promise<void> {
  progress.problems += 1
  if (progress.problems > problemsKept) return
  await insertSourceProblem(deps.database.db, {
    flow: runtime.flow.name,
    pk: problem.pk ?? '',
    error: problem.message,
    at: deps.now(),
  })
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
  await deps.database.transaction(async (trx) => {
    const now = deps.now()
    if (!(await holdsLease(trx, { ...lease, now }))) throw new LeaseLostError()
    await insertPoll(trx, {
      flow: flow.name,
      kind: isFull ? 'full' : 'incremental',
      startedAt: progress.startedAt,
      durationMs: now.getTime() - progress.startedAt.getTime(),
      rowsRead: progress.rowsRead,
      changes: progress.changes,
      error: null,
    })
    await updateFlowState(trx, flow.name, {
      cursor: progress.mustReadAgain ? progress.from : progress.cursor,
      cursor_origin: runtime.cursor?.origin ?? null,
      definition_hash: runtime.definitionHash,
      pending_definition_hash: null,
      item_form: runtime.itemForm,
      last_poll_at: now,
      last_success_at: now,
      ...(isFull && { last_full_scan_at: progress.startedAt }),
    })
    if (isFull) await settleFullScan(trx, flow.name, state.resets)
    await clearProgress(trx, flow.name)
    if (await countRun(trx, flow.name)) {
      await pauseByService(trx, [flow.name], { at: now, reason: 'The limit of runs was reached' })
    }
  })
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
  const message = error instanceof SourceError ? error.message : 'the poll failed; see the log'
  const now = deps.now()
  try {
    await deps.database.transaction(async (trx) => {
      await insertPoll(trx, {
        flow: flow.name,
        kind: isFull ? 'full' : 'incremental',
        startedAt: progress.startedAt,
        durationMs: now.getTime() - progress.startedAt.getTime(),
        rowsRead: progress.rowsRead,
        changes: progress.changes,
        error: message,
      })
      await updateFlowState(trx, flow.name, { last_poll_at: now })
      await clearProgress(trx, flow.name)
    })
    await insertSourceProblem(deps.database.db, {
      flow: flow.name,
      pk: '',
      error: message,
      at: now,
    })
  } catch (cause) {
    deps.log.error({ flow: flow.name, err: cause }, 'a failed poll could not be recorded')
  }
}
