import { randomUUID } from 'node:crypto'
import {
  type HeldLease,
  type LeaseDeps,
  LeaseLostError,
  underLease,
  withLease,
} from '../../jobs/with-lease.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-errors.ts'
import { notifyDeliveries } from '../../repositories/flows/flow-events.ts'
import { markUnread } from '../../repositories/flows/flow-items.ts'
import { isPaused } from '../../repositories/flows/flow-pauses-and-limits.ts'
import { insertPoll } from '../../repositories/flows/flow-polls.ts'
import {
  beginPollRead,
  endPoll,
  type FlowStateRow,
  lockItemsStamp,
  requestFullScan,
  requireFlowState,
  storeComparison,
  updateFlowState,
} from '../../repositories/flows/flow-state.ts'
import { pollLease } from '../../repositories/flows/leader-lease.ts'
import { keptReason, type Reason } from '../../texts/reason.ts'
import type { FlowTrace } from '../flow-trace.ts'
import { type FormPart, itemRulesOf } from '../item/definition-hash.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { createItemKeys, type ItemKeys } from '../item/key-set.ts'
import { FileNotReadyError, SourceError } from '../types.ts'
import { createComparison, type DestinationComparison } from './compare-destinations.ts'
import { type CompleteRead, forgetShown, markMissing, noteMissing, sendDeletes } from './deletes.ts'
import { pauseByService } from './pauses-and-limits.ts'
import type { PollDeps } from './poll-deps.ts'
import type { PollerDeps, PollOutcome } from './poll-loop.ts'
import {
  type Difference,
  forgetItems,
  formerReaderOf,
  isOtherSource,
  isSameItemForm,
  isWithoutItems,
  OutdatedError,
  planPoll,
  planScan,
  questionKey,
} from './poll-plan.ts'
import { isCutOff, newProgress, type Progress, readSource, reportWarnings } from './poll-writer.ts'
import { applyAnswer } from './question.ts'
import type { CauseRules } from './read-and-compare.ts'

export type FlowPollDeps = PollDeps &
  Pick<LeaseDeps, 'processId'> & {
    trace?: Pick<FlowTrace, 'notePoll'> | undefined
    /** Aborts when the service can wait no longer for the end of a poll. */
    abandoned: AbortSignal
  }

/** After a process died during a poll, another one starts within 10 s. */
const pollLeaseMs = 7_000

/** The poll of a flow as its poller calls it: under the flow's lease, and not of a paused flow unless forced. */
export function createPoll(deps: FlowPollDeps, runtime: FlowRuntime): PollerDeps['poll'] {
  const { db } = deps.database
  const { name } = runtime.flow
  let hasPolled = false
  return async ({ force, begun }) => {
    const poll = async (lease: HeldLease): Promise<PollOutcome> => {
      begun()
      if (!force && (await isPaused(db, name))) {
        return { changes: 0, rowsRead: 0, skipped: 'paused' }
      }
      const state = await requireFlowState(db, name)
      if (hasPolled && isOutdated(runtime, state, deps.now())) throw new OutdatedError()
      const signal = AbortSignal.any([lease.signal, deps.abandoned])
      const outcome = await traced(deps, name, () =>
        pollOnce(deps, runtime, { ...lease, signal }, state),
      )
      hasPolled ||= outcome.skipped !== 'paused'
      return outcome
    }
    return (await withLease(deps, pollLease(name), poll, pollLeaseMs))?.result
  }
}

/** A process with another definition is respected until it missed a poll and this time has passed. */
const silenceMs = 60_000

/**
 * Whether another process uses another definition. Each would take the other's for a change and send everything
 * again in alternation. The process that started later polls.
 */
function isOutdated(
  { flow, definitionHash }: FlowRuntime,
  { last_poll_at: last, definition_hash: accepted }: FlowStateRow,
  now: Date,
): boolean {
  if (!last || accepted === definitionHash) return false
  const silentMs = now.getTime() - last.getTime()
  // A time ahead was written before the clock was set back, so it proves nothing.
  return silentMs > -silenceMs && silentMs < 2 * flow.pollIntervalMs + silenceMs
}

async function traced(
  { trace }: Pick<FlowPollDeps, 'trace'>,
  flow: string,
  poll: () => Promise<PollOutcome>,
): Promise<PollOutcome> {
  const beganAt = performance.now()
  const note = (rowsRead: number, changes: number, failure: string | null) =>
    trace?.notePoll({
      ...{ flow, rowsRead, changes, failure },
      durationMs: performance.now() - beganAt,
    })
  try {
    const outcome = await poll()
    if (outcome.skipped === undefined) note(outcome.rowsRead, outcome.changes, null)
    return outcome
  } catch (error) {
    note(0, 0, error instanceof Error ? error.constructor.name : 'unknown')
    throw error
  }
}

/**
 * Reads the source once and queues changes. Hashes and deliveries of a batch share a transaction, so after a crash an
 * item is either unread or queued. The cursor moves in the last transaction only. `found` is the flow's state before.
 * A failure is recorded and thrown.
 */
export async function pollOnce(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  found: FlowStateRow,
): Promise<PollOutcome> {
  const { flow } = runtime
  const bound = await applySource(deps, runtime, lease, found)
  const answered = await applyAnswer(deps, runtime, lease, bound)
  const { pollKind, differences, state } = await planPoll(deps, runtime, lease, answered)
  await forgetItems(deps, flow.name, lease, state)

  const startedAt = deps.now()
  const { isFull, since } = planScan(runtime, state, pollKind, startedAt)
  const isComparison = pollKind === 'comparison'
  const comparison = isComparison ? createComparison(runtime, differences) : undefined
  const causeRules = isComparison ? causesBy(runtime, state, differences) : undefined
  const stamp = { begun: randomUUID(), ended: randomUUID() }
  const begun = await beginPollRead(deps.database.db, flow.name, stamp.begun)
  // A comparison needs what is stored of each item.
  const memory = isComparison ? undefined : deps.memory
  const keys = memory?.take(runtime, begun.found) ?? createItemKeys()
  const stamps = { ...stamp, isFromMemory: keys.kept > 0 }
  const isFirst = await isWithoutItems(deps.database.db, state)
  const progress = newProgress(runtime, state, {
    ...{ startedAt, read: begun.read, keys, isFirst, comparison },
    // A full read finds the position again, in case its value is wrong and hides changes.
    from: isFull ? null : state.cursor,
  })
  try {
    const seen = await readSource(deps, runtime, lease, causeRules, since, progress)
    await reportWarnings(deps, runtime, progress)
    const found = {
      ...{ seen, read: progress.read, isCut: isCutOff(progress) },
      problems: progress.problems - progress.duplicates,
    }
    if (comparison)
      await endComparison(deps, runtime, lease, { progress, comparison, seen, differences })
    else if (isFull) await noteUnseen(deps, runtime, lease, state, progress, found)
    if (isFull) keys.forgetUnseen()
    await finish(deps, runtime, lease, state, isFull, progress, stamps)
    memory?.keep(runtime, stamps.ended, keys)
    if (comparison) await deleteAfterAnswer(deps, runtime, lease, found)
  } catch (error) {
    // A source that is broken off throws its own error. The lost lease is what matters.
    const failure = lease.signal.aborted ? new LeaseLostError() : error
    const wait = waitOf(failure, state, deps.now())
    if (wait) await recordWait(deps, flow.name, wait)
    else await recordFailure(deps, runtime, isFull, progress, failure)
    // If the wait is longer than a writer takes, it is a failure like any other.
    if (failure instanceof FileNotReadyError && !wait) throw new SourceError(failure.why)
    throw failure
  }
  if (!progress.mustReadAgain) await runtime.source.committed?.()
  logPoll(deps, flow.name, isFull, progress)
  const after = comparison ? await requireFlowState(deps.database.db, flow.name) : state
  const isAbout = after.question?.definition !== undefined && after.question.number !== undefined
  const question = isAbout ? after.question : undefined
  const { changes, rowsRead, resent } = progress
  return { changes, rowsRead, resent, ...(question && { question }) }
}

/** Handles what a whole read did not find. */
async function noteUnseen(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  state: FlowStateRow,
  progress: Progress,
  found: CompleteRead,
): Promise<void> {
  const { flow } = runtime
  if (state.question?.definition !== undefined) {
    await forgetShown(deps.database.db, flow.name, found.seen)
  } else if (flow.deletes.mode === 'delete') {
    progress.counts.deleted = await sendDeletes(deps, runtime, lease, state, found)
    progress.changes += progress.counts.deleted
  } else if (deps.isDeletedBeside(flow.name)) {
    if (found.problems === 0 && !found.isCut) await noteMissing(deps, runtime, lease, found)
  }
}

/** The deletes of a comparison's read, which has missed what the answer lets be deleted. */
async function deleteAfterAnswer(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  found: CompleteRead,
): Promise<void> {
  const compared = await requireFlowState(deps.database.db, runtime.flow.name)
  const accepted = await applyAnswer(deps, runtime, lease, compared)
  const { question } = accepted
  if (question?.answer && question.definition === undefined) {
    await sendDeletes(deps, runtime, lease, accepted, found)
  }
}

/** Another source is read completely, and what it lacks is deleted only after an answer. Returns the new state. */
async function applySource(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  state: FlowStateRow,
): Promise<FlowStateRow> {
  if (!isOtherSource(runtime, state)) return state
  const { name } = runtime.flow
  // The files may have changed since this process read them.
  if (!(await deps.isOnFile(runtime))) throw new OutdatedError()
  await underLease(deps, lease, async (trx) => {
    await updateFlowState(trx, name, {
      ...{ source_identity: runtime.identities.source, holds_deletes: true },
      ...{ cursor: null, cursor_origin: null },
    })
    await requestFullScan(trx, name)
  })
  deps.log.warn({ flow: name }, 'source of a flow changed; its deletes wait')
  return requireFlowState(deps.database.db, name)
}

function causesBy(
  runtime: FlowRuntime,
  state: FlowStateRow,
  differences: readonly Difference[],
): CauseRules {
  // Else all destinations are compared, and what the definition changes reaches them that way.
  const areSameItems = !differences.some(
    (one) => one.how === 'changed' && (one.parts.has('key') || one.parts.has('item')),
  )
  const isSameForm = areSameItems || isSameItemForm(runtime, state)
  return {
    isSameForm,
    areNewOfSource: areSameItems,
    readFormer: isSameForm ? undefined : formerReaderOf(runtime, state),
  }
}

/**
 * Stores what to ask after a comparison, with the answer where no operator needs to give it: the definition has a standing one, or
 * nothing differs because of it. A comparison that was not whole is made again.
 */
async function endComparison(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  {
    progress,
    comparison,
    seen,
    differences,
  }: {
    progress: Progress
    comparison: DestinationComparison
    seen: ItemKeys
    differences: readonly Difference[]
  },
): Promise<void> {
  const { name, deletes, item } = runtime.flow
  if (progress.mustReadAgain || isCutOff(progress)) return
  const { read: number } = progress
  const missing = await markMissing(deps, name, lease, { seen, read: number })
  const concerns = (part: FormPart) =>
    differences.some((one) => one.how === 'changed' && one.parts.has(part))
  // Without deletes only items of a former key are forgotten: what the source lost may still be deleted one day.
  const isOfDefinition =
    deletes.mode === 'delete'
      ? concerns('key') || concerns('item') || concerns('deletes')
      : concerns('key')
  const asked = { ...comparison.found(), missing: isOfDefinition ? missing : 0 }
  // Stored with the comparison, so that a crash leaves no question that needs no operator.
  const { onDefinitionChange: standing } = item
  const isDifferent = comparison.mustAsk() || asked.missing > 0
  const answer = isDifferent ? (standing === 'ask' ? undefined : standing) : 'send'
  await underLease(deps, lease, async (trx) => {
    // The next valid record of these items counts as a change.
    const unread = [...progress.unread].sort()
    for (let from = 0; from < unread.length; from += rowsAtOnce) {
      await markUnread(trx, name, unread.slice(from, from + rowsAtOnce))
    }
    const question = {
      definition: questionKey(runtime),
      number,
      askedAt: deps.now().toISOString(),
      ...asked,
      ...(answer && { answer }),
    }
    await storeComparison(trx, name, question)
  })
  const compared = { flow: name, ...asked, examples: undefined, answer }
  if (answer === undefined)
    deps.log.warn(compared, 'flow definition changed; an operator must decide')
  else deps.log.info(compared, 'flow definition changed; no operator needs to decide')
}

/** Polls every few seconds that find nothing would flood the log; `/metrics` counts them. */
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
  lease: HeldLease,
  state: FlowStateRow,
  isFull: boolean,
  progress: Progress,
  { isFromMemory, ...stamps }: { begun: string; ended: string; isFromMemory: boolean },
): Promise<void> {
  const { flow } = runtime
  await underLease(deps, lease, async (trx) => {
    const now = deps.now()
    // What another writer has stored meanwhile was not compared with what the poll read.
    const isOverwritten = isFromMemory && (await lockItemsStamp(trx, flow.name)) !== stamps.begun
    // Requests and missing items stay open for the next read if this one was not whole.
    const isWhole = !progress.mustReadAgain && !isCutOff(progress) && !isOverwritten
    const poll = pollRow(flow.name, isFull, progress, now)
    const isLimitReached = await insertPoll(trx, poll, {
      definition_hash: runtime.definitionHash,
      ...progress.fields.learned(),
      cursor: isWhole ? progress.cursor : progress.from,
      cursor_origin: runtime.cursor?.origin ?? null,
      item_form: runtime.itemForm,
      item_rules: itemRulesOf(flow),
      last_poll_at: now,
      last_success_at: now,
      waiting_why: null,
      waiting_since: null,
      stamps,
      ...(isFull && { last_full_scan_at: progress.startedAt }),
      scannedAfter: isFull && isWhole ? state.resets : undefined,
    })
    if (isLimitReached) {
      await pauseByService(trx, [flow.name], { at: now, why: { code: 'RUN_LIMIT_REACHED' } })
    }
  })
}

const rowsAtOnce = 1_000

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

type Wait = { why: Reason; since: Date; at: Date }

/** The wait for a file, unless it lasts too long. Undefined for every other failure. */
function waitOf(failure: unknown, state: FlowStateRow, at: Date): Wait | undefined {
  if (!(failure instanceof FileNotReadyError)) return undefined
  const since = state.waiting_since ?? at
  if (at.getTime() - since.getTime() > failure.maxWaitMs) return undefined
  const until = failure.until?.toISOString()
  // No message names the time; pages show it separately.
  const why = { code: failure.why.code, data: { ...failure.why.data, until } as object } as Reason
  return { why: keptReason(why), since, at }
}

/** Nothing was read and nothing failed: no poll is counted and no notification is sent. */
async function recordWait(deps: PollDeps, flow: string, { why, since, at }: Wait): Promise<void> {
  const fields = { last_poll_at: at, waiting_why: why, waiting_since: since }
  await deps.database.transaction(async (trx) => {
    await endPoll(trx, flow, fields)
    await notifyDeliveries(trx, [flow])
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
  // A driver's error text may contain data or addresses, so only a reason code is kept.
  const why: Reason = error instanceof SourceError ? keptReason(error.why) : { code: 'POLL_FAILED' }
  const now = deps.now()
  try {
    const poll = { ...pollRow(flow.name, isFull, progress, now), why }
    await deps.database.transaction((trx) =>
      insertPoll(trx, poll, { last_poll_at: now, waiting_why: null }),
    )
    await insertSourceProblem(deps.database.db, {
      flow: flow.name,
      pk: '',
      why,
      at: now,
    })
  } catch (cause) {
    deps.log.error({ flow: flow.name, err: cause }, 'failed poll not recorded')
  }
}
