import type { Reason } from '../../domain/flow-reasons.ts'
import { findHashes, renewHashes } from '../../repositories/flows/flow-items.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-problems.ts'
import { saveProgress } from '../../repositories/flows/flow-state.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { SourceWarning } from '../types.ts'
import { type BatchProgress, type PollBatch, type SendRules, writeBatch } from './item-changes.ts'
import type { KeySet } from './key-set.ts'
import type { FieldWatch } from './missing-fields.ts'
import { type PassWriter, runPass } from './pass.ts'
import { LeaseLostError, type PollDeps, type PollLease } from './poll-lease.ts'
/** The progress of a poll. */
export type Progress = BatchProgress & {
  startedAt: Date
  savedAtMs: number
  rowsRead: number
  /** New, changed and deleted items; `changes` counts those that are sent. */
  counts: { new: number; changed: number; deleted: number }
  problems: number
  /** Warnings of the source. */
  warnings: SourceWarning[]
  /** The position before this poll; null if it reads everything. */
  from: string | null
  cursor: string | null
  fields: FieldWatch
  /** Records with a repeated key and other content. The last one counts; they block nothing else. */
  duplicates: number
  /** The poll reads the source a second time, so its problems are already reported. */
  isAgain: boolean
  /**
   * Batches of a grouped read, kept until the end shows that each group was whole. Undefined if batches are written
   * at once.
   */
  grouped: BufferedGroups | undefined
}

/** `isFull`: too many to keep. The read only checks the groups, and the source is read again. */
type BufferedGroups = { batches: PollBatch[]; size: number; isFull: boolean }

const maxGroupsInMemory = 20_000

/** While one batch waits for the disk the next is written. More would slow down other requests. */
const writesAtOnce = 2

/**
 * Reads the source and writes changes. It reads a second time if the groups did not fit in memory. Returns the keys
 * of the source.
 */
export async function readSource(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  sendRules: SendRules,
  since: string | null,
  progress: Progress,
): Promise<KeySet> {
  const { from, startedAt, fields } = progress
  const { signal } = lease
  const pass = { since, from, startedAt, signal, fields, sendRules, previewOnly: false }
  const writer = createPollWriter(deps, runtime, lease, progress)
  try {
    const { seen, cursor } = await runPass(runtime, pass, writer)
    progress.cursor = cursor
    if (!progress.grouped?.isFull) {
      await writer.end()
      return seen
    }
  } catch (error) {
    // A failed poll must not write anything later.
    await writer.settled()
    throw error
  }
  const unread = {
    ...{ rowsRead: 0, problems: 0, duplicates: 0, mustReadAgain: false, warnings: [] },
    counts: { new: 0, changed: 0, deleted: 0 },
  }
  Object.assign(progress, { ...unread, grouped: undefined, cursor: from, isAgain: true })
  return readSource(deps, runtime, lease, sendRules, since, progress)
}

/**
 * Writes each batch in its own transaction, two in parallel. `settled` waits for those under way, also after
 * failures.
 */
function createPollWriter(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  progress: Progress,
): PassWriter & { end(): Promise<void>; settled(): Promise<void> } {
  const { db } = deps.database
  const { name } = runtime.flow
  /** Writes under way. A failed one stays in the set. */
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
      // An earlier record of these keys may be among them.
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
      if (progress.grouped) bufferGroups(progress.grouped, batch)
      else await begin(batch)
      await noteProgress(deps, name, progress)
    },
    async end() {
      // All groups are known to be whole now.
      for (const batch of progress.grouped?.batches.splice(0) ?? []) await begin(batch)
      await Promise.all(writes)
    },
    settled: async () => void (await Promise.allSettled(writes)),
  }
}

function bufferGroups(buffered: BufferedGroups, batch: PollBatch): void {
  buffered.size += batch.items.length + batch.changes.length
  buffered.isFull ||= buffered.size > maxGroupsInMemory
  if (buffered.isFull) buffered.batches.length = 0
  else buffered.batches.push(batch)
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
  { pk, why }: { pk: string | null; why: Reason },
): Promise<void> {
  progress.problems += 1
  if (progress.problems > problemsKept || progress.isAgain) return
  await insertSourceProblem(deps.database.db, {
    flow: runtime.flow.name,
    pk: pk ?? '',
    why,
    at: deps.now(),
  })
}

/** Records warnings as errors. Those of an incomplete read also stop deletes. */
export async function reportWarnings(
  deps: PollDeps,
  runtime: FlowRuntime,
  progress: Progress,
): Promise<void> {
  const { name } = runtime.flow
  for (const { why, isIncomplete } of progress.warnings) {
    if (isIncomplete) await reportProblem(deps, runtime, progress, { pk: null, why })
    else {
      await insertSourceProblem(deps.database.db, {
        flow: name,
        pk: '',
        why,
        at: deps.now(),
      })
    }
  }
}

/** Whether the read left out records that a later one gives. */
export function isCutOff({ warnings }: Pick<Progress, 'warnings'>): boolean {
  return warnings.some((one) => one.isIncomplete)
}
