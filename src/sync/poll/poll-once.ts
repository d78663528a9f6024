import type { Trx } from '../../db/database.ts'
import { countRun } from '../../repositories/flow-control.ts'
import {
  deleteAllHashes,
  findHashes,
  lockItemsChangedSince,
  upsertHashes,
} from '../../repositories/flow-items.ts'
import { insertPoll } from '../../repositories/flow-polls.ts'
import { insertSourceProblem } from '../../repositories/flow-problems.ts'
import {
  clearProgress,
  type FlowStateRow,
  findFlowState,
  holdsLease,
  requestFullScan,
  saveProgress,
  settleFullScan,
  updateFlowState,
} from '../../repositories/flow-state.ts'
import { pauseByService } from '../control/switches.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { groupRows } from '../item/group-rows.ts'
import { type Item, SourceError, type SourceRow } from '../types.ts'
import { createBreather } from './breather.ts'
import { cursorText, laterCursor, readFrom } from './cursor.ts'
import { sendDeletes } from './deletes.ts'
import { createKeySet, type KeySet } from './key-set.ts'
import { LeaseLostError, type PollDeps, type PollLease } from './poll-deps.ts'
import type { PollOutcome } from './poller.ts'

/**
 * `normal` sends changes; `rebase` only learns how known items look under a new definition, and sends what was never
 * seen: a new file of news would otherwise be put away unsent.
 */
type Mode = 'normal' | 'rebase'

type Progress = {
  startedAt: Date
  savedAtMs: number
  rowsRead: number
  changes: number
  problems: number
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
  const mode = await settleDefinition(deps, runtime, await readState(deps, flow.name))
  if (mode === 'paused') return { changes: 0, rowsRead: 0, skipped: 'paused' }
  const state = await readState(deps, flow.name)

  const isFull = mode === 'rebase' || mustReadAll(runtime, state, deps.now())
  const startedAt = deps.now()
  const progress: Progress = {
    startedAt,
    savedAtMs: startedAt.getTime(),
    rowsRead: 0,
    changes: 0,
    problems: 0,
    cursor: state.cursor,
  }
  await clearProgress(deps.database.db, flow.name)
  try {
    const seen = createKeySet()
    const since =
      isFull || state.cursor === null
        ? null
        : readFrom(state.cursor, runtime.cursor?.overlapMs ?? 0)
    const groupBy = 'groupBy' in flow.source ? flow.source.groupBy : undefined
    const rules = { item: flow.item, source: { groupBy } }
    const records = counted(runtime, lease, since, progress)
    for await (const rows of groupRows(rules, records)) {
      await takeItems(deps, runtime, lease, mode, rows, seen, progress)
    }
    if (isFull && mode === 'normal') {
      progress.changes += await sendDeletes(deps, runtime, lease, seen, progress.problems)
    }
    await finish(deps, runtime, lease, state, isFull, progress)
  } catch (error) {
    // A source that was broken off says so in its own words; what counts is that nothing more of it may be written.
    const failure = lease.signal.aborted ? new LeaseLostError() : error
    await recordFailure(deps, runtime, isFull, progress, failure)
    throw failure
  }
  await runtime.source.committed?.()
  deps.log.info(
    {
      flow: flow.name,
      kind: isFull ? 'full' : 'incremental',
      rowsRead: progress.rowsRead,
      changes: progress.changes,
      problems: progress.problems,
      durationMs: deps.now().getTime() - startedAt.getTime(),
    },
    'flow polled',
  )
  return { changes: progress.changes, rowsRead: progress.rowsRead }
}

async function readState(deps: PollDeps, flow: string): Promise<FlowStateRow> {
  const state = await findFlowState(deps.database.db, flow)
  if (!state) throw new Error(`the flow ${flow} has no state`)
  return state
}

/** What a changed definition means for this poll; `ask` pauses the flow until the operator resumes or resyncs it. */
async function settleDefinition(
  deps: PollDeps,
  runtime: FlowRuntime,
  state: FlowStateRow,
): Promise<Mode | 'paused'> {
  const { flow, definitionHash } = runtime
  if (state.definition_hash === definitionHash) return 'normal'
  switch (flow.item.onDefinitionChange) {
    case 'rebase':
      return 'rebase'
    case 'resync':
      await deps.database.transaction(async (trx) => {
        await deleteAllHashes(trx, flow.name)
        await updateFlowState(trx, flow.name, { definition_hash: definitionHash })
        await requestFullScan(trx, flow.name)
      })
      return 'normal'
    case 'ask': {
      // Resumed after having been asked: the operator wants no storm.
      if (state.pending_definition_hash === definitionHash) return 'rebase'
      await deps.database.transaction(async (trx) => {
        await updateFlowState(trx, flow.name, { pending_definition_hash: definitionHash })
        await pauseByService(trx, [flow.name], {
          at: deps.now(),
          reason:
            'The definition changed. Resume: keep what was sent. Resync with force: send everything again',
        })
      })
      deps.log.warn(
        { flow: flow.name },
        'the definition of a flow changed; it waits for an operator',
      )
      return 'paused'
    }
    default:
      return flow.item.onDefinitionChange satisfies never
  }
}

function mustReadAll(runtime: FlowRuntime, state: FlowStateRow, now: Date): boolean {
  const { cursor, fullScanEveryMs } = runtime
  if (!cursor || state.full_scan_due || state.cursor === null) return true
  const last = state.last_full_scan_at?.getTime() ?? 0
  return fullScanEveryMs !== undefined && now.getTime() - last >= fullScanEveryMs
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
        if (text !== undefined) progress.cursor = laterCursor(progress.cursor, text)
      }
    }
    yield rows
  }
}

async function takeItems(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  mode: Mode,
  rows: readonly Record<string, unknown>[],
  seen: KeySet,
  progress: Progress,
): Promise<void> {
  const { flow } = runtime
  const items: Item[] = []
  const breathe = createBreather()
  for (const row of rows) {
    await breathe()
    const read = await runtime.read(row)
    if ('item' in read) {
      if (seen.add(read.item.pk)) items.push(read.item)
      else {
        await reportProblem(deps, runtime, progress, {
          pk: read.item.pk,
          message: 'the key stands more than once in the source; only its first record counts',
        })
      }
    } else if ('problem' in read) await reportProblem(deps, runtime, progress, read.problem)
  }
  const stored = await findHashes(
    deps.database.db,
    flow.name,
    items.map((item) => item.pk),
  )
  const changed = items.filter((item) => stored.get(item.pk) !== item.hash)
  const isOwed = ({ pk }: Item) => mode === 'normal' || !stored.has(pk)
  if (changed.length > 0) {
    progress.changes += await deps.database.transaction((trx) =>
      writeChanges(deps, runtime, trx, lease, { changed, readSince: progress.startedAt, isOwed }),
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
  batch: { changed: Item[]; readSince: Date; isOwed: (item: Item) => boolean },
): Promise<number> {
  const { flow } = runtime
  const { changed, readSince } = batch
  const now = deps.now()
  if (!(await holdsLease(trx, { ...lease, now }))) throw new LeaseLostError()
  const newer = await lockItemsChangedSince(
    trx,
    flow.name,
    changed.map((item) => item.pk),
    readSince,
  )
  const ours = newer.size === 0 ? changed : changed.filter((item) => !newer.has(item.pk))
  await upsertHashes(trx, flow.name, ours, now)
  const owed = ours.filter(batch.isOwed)
  await deps.enqueue(
    trx,
    runtime,
    owed.map(({ pk, hash, value }) => ({ pk, kind: 'upsert', hash, value })),
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
      cursor: progress.cursor,
      definition_hash: runtime.definitionHash,
      pending_definition_hash: null,
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
