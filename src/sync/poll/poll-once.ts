import type { Trx } from '../../db/database.ts'
import { askFill, listFills, settleFills } from '../../repositories/flows/destination-fills.ts'
import { findHashes, isOnRecord, restateHashes } from '../../repositories/flows/flow-items.ts'
import { insertPoll } from '../../repositories/flows/flow-polls.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-problems.ts'
import { beginPollRead } from '../../repositories/flows/flow-reads.ts'
import {
  clearProgress,
  type FlowStateRow,
  findFlowState,
  holdsLease,
  keepHashForm,
  requestForgetting,
  requestFullScan,
  saveProgress,
  settleFullScan,
  updateFlowState,
} from '../../repositories/flows/flow-state.ts'
import { countRun, isPaused } from '../../repositories/flows/flow-switches.ts'
import { askAboutDefinition, pauseByService, questionReason } from '../control/switches.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { SourceError, type SourceRow, type SourceWarning, whyNoRecord } from '../types.ts'
import {
  changesOf,
  createMet,
  isGrouped,
  type Met,
  type ReadBatch,
  readBatch,
  recordsOf,
  rememberRepeated,
  repeatedItems,
  type Telling,
} from './compare.ts'
import { followPosition } from './cursor.ts'
import { forgetVanished, sendDeletes } from './deletes.ts'
import { DriftFound, type DriftWatch, holdFlow, type PollBatch, watchDrift } from './drift.ts'
import { forgetItems } from './forget.ts'
import { settleIdentity } from './identity.ts'
import { createKeySet, type KeySet } from './key-set.ts'
import { refuseOutdated } from './outdated.ts'
import {
  addedTo,
  isInQuestion,
  planScan,
  type Turn,
  tellsChanges,
  tellsNews,
  turnOf,
} from './plan.ts'
import { LeaseLostError, type PollDeps, type PollLease } from './poll-deps.ts'
import type { PollOutcome } from './poller.ts'
import { type BatchProgress, writeBatch } from './write-batch.ts'

type Progress = BatchProgress & {
  startedAt: Date
  savedAtMs: number
  rowsRead: number
  /** Found new, found changed, and gone; what is sent of them is in `changes`. */
  counts: { new: number; changed: number; deleted: number }
  problems: number
  /** What the source said beside its records. */
  warnings: SourceWarning[]
  /** The position before this poll; null when it reads everything. */
  from: string | null
  cursor: string | null
  drift: DriftWatch
  /** Records that came again and differ: the last one counts, and nothing else is held up by it. */
  duplicates: number
  /** The source is read a second time by the same poll: what is wrong with it was told. */
  isAgain: boolean
  /** What a read of groups has found, until its end shows that each was whole; undefined once it is sent as it is found. */
  grouped: HeldGroups | undefined
}

/** With `isFull` they are more than are held: only whether they are whole is looked at, and the source is read once more. */
type HeldGroups = { batches: PollBatch[]; size: number; isFull: boolean }

const mostGroupsHeld = 20_000

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
  const others = await settleIdentity(deps, runtime, lease, await readState(deps, flow.name))
  if (others !== undefined) return { changes: 0, rowsRead: 0, skipped: 'paused', reason: others }
  const turn = await settleDefinition(deps, runtime, lease, await readState(deps, flow.name))
  if (turn === 'ask') {
    return { changes: 0, rowsRead: 0, skipped: 'paused', reason: questionReason }
  }
  await forgetItems(deps, runtime, lease)
  const state = await readState(deps, flow.name)

  const startedAt = deps.now()
  const { hashes, usedFields } = runtime
  const forms = await keepHashForm(deps.database.db, flow.name, hashes.hashForm, usedFields)
  const telling = {
    sendsChanges: tellsChanges(runtime, state, turn),
    sendsNews: tellsNews(runtime, state, turn),
    forms,
  }
  const { isFull, since } = planScan(runtime, state, turn, startedAt)
  // A full read learns the position anew: one that no record has any longer would hide all that changes.
  const from = isFull ? null : state.cursor
  const destinations = new Set(flow.destinations.map(({ name }) => name))
  const fills = isFull
    ? (await listFills(deps.database.db, flow.name)).filter((one) =>
        destinations.has(one.destination),
      )
    : []
  const progress: Progress = {
    read: await beginPollRead(deps.database.db, flow.name),
    resets: state.resets,
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
    drift: await watchDrift(deps, runtime, lease, state),
    isAgain: false,
    grouped: isGrouped(runtime) ? { batches: [], size: 0, isFull: false } : undefined,
  }
  await clearProgress(deps.database.db, flow.name)
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
    if (failure instanceof DriftFound) {
      await finishHeld(deps, runtime, lease, isFull, progress, failure)
      return { changes: 0, rowsRead: progress.rowsRead, skipped: 'held' }
    }
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
  lease: PollLease,
  state: FlowStateRow,
): Promise<Turn> {
  const { flow, definitionHash } = runtime
  await refuseOutdated(deps, runtime, state)
  const underLease = (work: (trx: Trx) => Promise<void>) =>
    deps.database.transaction(async (trx) => {
      if (!(await holdsLease(trx, { ...lease, now: deps.now() }))) throw new LeaseLostError()
      await work(trx)
    })
  // Only a resume answers the question: a poll that is forced while the flow is paused does not.
  const mustAsk = isInQuestion(runtime, state) && (await isPaused(deps.database.db, flow.name))
  const turn = mustAsk ? 'ask' : turnOf(runtime, state)
  const added = addedTo(runtime, state)
  if (added) {
    await underLease(async (trx) => {
      await acceptDefinition(trx, runtime)
      for (const destination of added) await askFill(trx, { flow: flow.name, destination })
      await requestFullScan(trx, flow.name)
    })
    deps.log.info({ flow: flow.name, destinations: added }, 'a new destination is filled')
  }
  if (turn === 'resync') {
    await underLease(async (trx) => {
      await updateFlowState(trx, flow.name, { definition_hash: definitionHash })
      await requestForgetting(trx, flow.name)
    })
  }
  if (turn === 'ask') {
    await underLease(async (trx) => {
      await askAboutDefinition(trx, flow.name, { at: deps.now(), definitionHash })
    })
    deps.log.warn({ flow: flow.name }, 'the definition of a flow changed; it waits for an operator')
  }
  return turn
}

/** What the definition says now is what counts as unchanged from now on. */
async function acceptDefinition(trx: Trx, { flow, definitionHash }: FlowRuntime): Promise<void> {
  await updateFlowState(trx, flow.name, {
    definition_hash: definitionHash,
    pending_definition_hash: null,
    destinations: flow.destinations.map(({ name }) => name),
  })
}

/** Takes what the source has, by a second reading where the first could not be kept. Answers the keys that it has. */
async function readSource(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  telling: Telling,
  since: string | null,
  progress: Progress,
): Promise<KeySet> {
  const seen = createKeySet()
  const counts = { new: 0, changed: 0, deleted: 0 }
  const unread = { rowsRead: 0, problems: 0, duplicates: 0, mustReadAgain: false, warnings: [] }
  const readAgain = () => {
    Object.assign(progress, { ...unread, counts, cursor: progress.from, isAgain: true })
    return readSource(deps, runtime, lease, telling, since, progress)
  }
  const met = createMet(runtime, seen)
  await takeAll(deps, runtime, lease, { telling, since, met, progress })
  if (progress.grouped?.isFull) {
    progress.grouped = undefined
    return readAgain()
  }
  const kept = await progress.drift.end(isCutOff(progress))
  if (kept === 'cut') {
    Object.assign(progress, { mustReadAgain: true, counts })
    return seen
  }
  if (kept === 'again') return readAgain()
  for (const batch of kept) await writeBatch(deps, runtime, lease, batch, progress)
  return seen
}

/** The source's records, counted, with the cursor moving along. */
async function* counted(
  runtime: FlowRuntime,
  lease: PollLease,
  since: string | null,
  met: Met,
  progress: Progress,
): AsyncGenerator<SourceRow[]> {
  const field = runtime.cursor?.field
  const position = followPosition(progress.cursor, progress.startedAt)
  const warn = (warning: SourceWarning) => void progress.warnings.push(warning)
  const begins = (name: string, before: number) => void met.files.push({ name, before })
  for await (const rows of runtime.source.scan({ since, signal: lease.signal, warn, begins })) {
    if (lease.signal.aborted) throw new LeaseLostError()
    if (field !== undefined) {
      if (progress.rowsRead === 0) checkCursorField(field, rows)
      for (const row of rows) position.take(row[field])
    }
    progress.rowsRead += rows.length
    yield rows
  }
  const { cursor, ahead } = position.end()
  progress.cursor = cursor
  if (ahead) {
    const message = `the cursor field ${JSON.stringify(field)} of ${ahead.count} records lies ahead of the time of the read, such as ${JSON.stringify(ahead.example)}; they do not move the cursor. Correct them at the source`
    warn({ message, isIncomplete: false })
  }
}

/** Without its field the cursor would stay where it is, and each poll read everything since. Throws SourceError. */
function checkCursorField(field: string, rows: readonly SourceRow[]): void {
  const records = rows.filter((row) => whyNoRecord(row) === undefined)
  const [first] = records
  if (!first || records.some((row) => Object.hasOwn(row, field))) return
  const names = Object.keys(first).slice(0, 20).join(', ')
  throw new SourceError(
    `the cursor field ${JSON.stringify(field)} (source.cursor.field) is in none of the records, which have: ${names}. Select it in the query, or name one of these`,
  )
}

/** Whole items wait for the end of a read because their key came again. */
const mostRepeatedHeld = 20_000

/** While one batch waits for the disk the next is written: more at a time would take from others what they need. */
const writesAtOnce = 2

/** Those under way; one that has failed stays among them. */
type Writes = Set<Promise<void>>

/** Takes all that the source has. While a batch is written the next is compared, and the one after it read. */
async function takeAll(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  poll: { telling: Telling; since: string | null; met: Met; progress: Progress },
): Promise<void> {
  const { telling, since, met, progress } = poll
  const writes: Writes = new Set()
  let taking: Promise<void> = Promise.resolve()
  /** Takes the last record of the keys that came more than once, behind the earlier ones. */
  const takeRepeated = async (isFull: boolean) => {
    if (met.repeated.size === 0) return
    await Promise.all(writes)
    const batch = repeatedItems(runtime, met, { isFull })
    met.repeated.clear()
    progress.duplicates += batch.problems.length
    await takeItems(deps, runtime, lease, telling, batch, progress, writes, true)
  }
  try {
    for await (const rows of recordsOf(runtime, counted(runtime, lease, since, met, progress), {
      since,
      signal: lease.signal,
    })) {
      progress.drift.look(rows)
      const batch = await readBatch(runtime, rows, met, lease.signal)
      await taking
      if (met.repeated.size > mostRepeatedHeld) await takeRepeated(since === null)
      taking = takeItems(deps, runtime, lease, telling, batch, progress, writes)
      // It is heard of when it is waited for.
      taking.catch(() => undefined)
    }
    await taking
    rememberRepeated(runtime, met)
    await takeRepeated(since === null)
    // Now that none of them is known to be a part only.
    for (const held of progress.grouped?.batches.splice(0) ?? []) {
      await admitBatch(deps, runtime, lease, held, progress, writes)
    }
    await Promise.all(writes)
  } catch (error) {
    // Nothing of this poll may be written when it counts as failed.
    await taking.catch(() => undefined)
    await Promise.allSettled(writes)
    throw error
  }
}

/** Compares what was read with what is stored, and begins to write what changed. */
async function takeItems(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  telling: Telling,
  { items, problems }: ReadBatch,
  progress: Progress,
  writes: Writes,
  isLater = false,
): Promise<void> {
  const { flow } = runtime
  for (const problem of problems) await reportProblem(deps, runtime, progress, problem)
  progress.mustReadAgain ||= problems.some(({ mayPass }) => mayPass === true)
  const keys = items.map(({ pk }) => pk)
  const stored =
    progress.isFirst && !isLater
      ? new Map<string, string>()
      : await findHashes(deps.database.db, flow.name, keys)
  const { changes, restated } = changesOf(runtime, items, stored, telling)
  await restateHashes(deps.database.db, flow.name, restated)
  for (const { kind } of changes) progress.counts[kind] += 1
  const batch = { items: progress.fills.length > 0 ? items : [], changes, isLater }
  if (progress.grouped) holdGroups(progress.grouped, batch)
  else await admitBatch(deps, runtime, lease, batch, progress, writes)
  await noteProgress(deps, flow.name, progress)
}

function holdGroups(held: HeldGroups, batch: PollBatch): void {
  held.size += batch.items.length + batch.changes.length
  held.isFull ||= held.size > mostGroupsHeld
  if (held.isFull) held.batches.length = 0
  else held.batches.push(batch)
}

/** Begins to write a batch, unless it is held back. */
async function admitBatch(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  batch: PollBatch,
  progress: Progress,
  writes: Writes,
): Promise<void> {
  for (const one of await progress.drift.admit(batch)) {
    if (writes.size >= writesAtOnce) await Promise.race(writes)
    const write = writeBatch(deps, runtime, lease, one, progress)
    writes.add(write)
    write.then(
      () => writes.delete(write),
      () => undefined,
    )
  }
}

async function noteProgress(deps: PollDeps, flow: string, progress: Progress): Promise<void> {
  const now = deps.now()
  if (now.getTime() - progress.savedAtMs >= 1_000) {
    progress.savedAtMs = now.getTime()
    await saveProgress(deps.database.db, {
      flow,
      started_at: progress.startedAt,
      rows_read: progress.rowsRead,
      changes: progress.changes,
      updated_at: now,
    })
  }
}

const problemsKept = 1_000

async function reportProblem(
  deps: PollDeps,
  runtime: FlowRuntime,
  progress: Progress,
  problem: { pk: string | null; message: string },
): Promise<void> {
  progress.problems += 1
  if (progress.problems > problemsKept || progress.isAgain) return
  await insertSourceProblem(deps.database.db, {
    flow: runtime.flow.name,
    pk: problem.pk ?? '',
    error: problem.message,
    at: deps.now(),
  })
}

/** A warning stays among the errors; of an incomplete read it also holds deletes back. */
async function reportWarnings(
  deps: PollDeps,
  runtime: FlowRuntime,
  progress: Progress,
): Promise<void> {
  const { name } = runtime.flow
  for (const { message, isIncomplete } of progress.warnings) {
    if (isIncomplete) await reportProblem(deps, runtime, progress, { pk: null, message })
    else {
      await insertSourceProblem(deps.database.db, {
        flow: name,
        pk: '',
        error: message,
        at: deps.now(),
      })
    }
  }
}

/** Whether records were left out that a later read gives. */
function isCutOff({ warnings }: Pick<Progress, 'warnings'>): boolean {
  return warnings.some((one) => one.isIncomplete)
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
    await insertPoll(trx, pollRow(flow.name, isFull, progress, now))
    // What was left out of a read that was not whole is read, filled, and looked for, by the next one.
    const isWhole = !progress.mustReadAgain && !isCutOff(progress)
    await updateFlowState(trx, flow.name, {
      cursor: isWhole ? progress.cursor : progress.from,
      cursor_origin: runtime.cursor?.origin ?? null,
      item_form: runtime.itemForm,
      last_poll_at: now,
      last_success_at: now,
      ...(isFull && { last_full_scan_at: progress.startedAt }),
    })
    await acceptDefinition(trx, runtime)
    if (isFull && isWhole) {
      await settleFullScan(trx, flow.name, state.resets)
      await settleFills(trx, flow.name, progress.fills)
    }
    await progress.drift.settle(trx)
    await endRun(trx, flow.name, now)
  })
}

/** The source was read, and what it showed is held back: position, hashes and definition stay as they were. */
async function finishHeld(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  isFull: boolean,
  progress: Progress,
  found: DriftFound,
): Promise<void> {
  const { name } = runtime.flow
  await deps.database.transaction(async (trx) => {
    const now = deps.now()
    if (!(await holdsLease(trx, { ...lease, now }))) throw new LeaseLostError()
    await holdFlow(deps, trx, name, found, progress.read)
    await insertPoll(trx, pollRow(name, isFull, progress, now))
    await updateFlowState(trx, name, { last_poll_at: now, last_success_at: now })
    await endRun(trx, name, now)
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
    error: null,
  }
}

async function endRun(trx: Trx, flow: string, at: Date): Promise<void> {
  await clearProgress(trx, flow)
  if (await countRun(trx, flow)) {
    await pauseByService(trx, [flow], { at, reason: 'The limit of runs was reached' })
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
  const message = error instanceof SourceError ? error.message : 'the poll failed; see the log'
  const now = deps.now()
  try {
    await deps.database.transaction(async (trx) => {
      await insertPoll(trx, { ...pollRow(flow.name, isFull, progress, now), error: message })
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
