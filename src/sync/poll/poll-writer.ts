import { findHashes, renewHashes } from '../../repositories/flows/flow-items.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-problems.ts'
import { saveProgress } from '../../repositories/flows/flow-state.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { SourceWarning } from '../types.ts'
import { type BatchProgress, type PollBatch, type Telling, writeBatch } from './item-changes.ts'
import type { KeySet } from './key-set.ts'
import type { FieldWatch } from './missing-fields.ts'
import { type PassWriter, passOver } from './pass.ts'
import { LeaseLostError, type PollDeps, type PollLease } from './poll-lease.ts'
/** How far a poll has come. */
export type Progress = BatchProgress & {
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
  fields: FieldWatch
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

/** While one batch waits for the disk the next is written: more at a time would take from others what they need. */
const writesAtOnce = 2

/**
 * Takes what the source has and writes down what changed, by a second reading where the first could not be kept. Answers the keys
 * that the source has.
 */
export async function readSource(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  telling: Telling,
  since: string | null,
  progress: Progress,
): Promise<KeySet> {
  const { from, startedAt, fields } = progress
  const { signal } = lease
  const pass = { since, from, startedAt, signal, fields, telling, lookOnly: false }
  const writer = createPollWriter(deps, runtime, lease, progress)
  try {
    const { seen, cursor } = await passOver(runtime, pass, writer)
    progress.cursor = cursor
    if (!progress.grouped?.isFull) {
      await writer.end()
      return seen
    }
  } catch (error) {
    // Nothing of this poll may be written when it counts as failed.
    await writer.settled()
    throw error
  }
  const unread = {
    ...{ rowsRead: 0, problems: 0, duplicates: 0, mustReadAgain: false, warnings: [] },
    counts: { new: 0, changed: 0, deleted: 0 },
  }
  Object.assign(progress, { ...unread, grouped: undefined, cursor: from, isAgain: true })
  return readSource(deps, runtime, lease, telling, since, progress)
}

/** Writes each batch in a transaction of its own, two side by side. `settled` waits for those under way, whatever becomes of them. */
function createPollWriter(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  progress: Progress,
): PassWriter & { end(): Promise<void>; settled(): Promise<void> } {
  const { db } = deps.database
  const { name } = runtime.flow
  /** Under way; one that has failed stays among them. */
  const writes = new Set<Promise<void>>()
  const begin = async (batch: PollBatch) => {
    if (writes.size >= writesAtOnce) await Promise.race(writes)
    const write = writeBatch(deps, runtime, lease, batch, progress)
    writes.add(write)
    write.then(
      () => writes.delete(write),
      () => undefined,
    )
  }
  return {
    async *receive(batches) {
      for await (const rows of batches) {
        if (lease.signal.aborted) throw new LeaseLostError()
        progress.rowsRead += rows.length
        yield rows
      }
    },
    warn: (warning) => void progress.warnings.push(warning),
    async hashesOf(pks, isLater) {
      // An earlier record of them may be among these.
      if (isLater) await Promise.all(writes)
      return progress.isFirst && !isLater ? new Map() : await findHashes(db, name, pks)
    },
    async take({ items, problems, changes, renewed, isLater }) {
      for (const problem of problems) await reportProblem(deps, runtime, progress, problem)
      progress.mustReadAgain ||= problems.some(({ mayPass }) => mayPass === true)
      if (isLater) progress.duplicates += problems.length
      await renewHashes(db, name, renewed)
      for (const { kind } of changes) progress.counts[kind] += 1
      const batch = { items: progress.fills.length > 0 ? items : [], changes, isLater }
      if (progress.grouped) holdGroups(progress.grouped, batch)
      else await begin(batch)
      await noteProgress(deps, name, progress)
    },
    async end() {
      // Now that no group is known to be a part only.
      for (const held of progress.grouped?.batches.splice(0) ?? []) await begin(held)
      await Promise.all(writes)
    },
    settled: async () => void (await Promise.allSettled(writes)),
  }
}

function holdGroups(held: HeldGroups, batch: PollBatch): void {
  held.size += batch.items.length + batch.changes.length
  held.isFull ||= held.size > mostGroupsHeld
  if (held.isFull) held.batches.length = 0
  else held.batches.push(batch)
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
    why: { code: 'RECORD_REFUSED', data: { said: problem.message } },
    at: deps.now(),
  })
}

/** A warning stays among the errors; of an incomplete read it also holds deletes back. */
export async function reportWarnings(
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
        why: { code: 'SOURCE_WARNING', data: { said: message } },
        at: deps.now(),
      })
    }
  }
}

/** Whether records were left out that a later read gives. */
export function isCutOff({ warnings }: Pick<Progress, 'warnings'>): boolean {
  return warnings.some((one) => one.isIncomplete)
}
