import { findHashes, renewHashes } from '../../repositories/flows/flow-items.ts'
import { insertSourceProblem } from '../../repositories/flows/flow-problems.ts'
import { saveProgress } from '../../repositories/flows/flow-state.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { SourceError, type SourceRow, type SourceWarning, whyNoRecord } from '../types.ts'
import { followPosition } from './cursor.ts'
import {
  type BatchProgress,
  changesOf,
  type PollBatch,
  type Telling,
  writeBatch,
} from './item-changes.ts'
import { createKeySet, type KeySet } from './key-set.ts'
import type { FieldWatch } from './missing-fields.ts'
import { LeaseLostError, type PollDeps, type PollLease } from './poll-lease.ts'
import {
  createMet,
  type Met,
  type ReadBatch,
  readBatch,
  recordsOf,
  rememberRepeated,
  repeatedItems,
} from './read-items.ts'

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

/** Takes what the source has, by a second reading where the first could not be kept. Answers the keys that it has. */
export async function readSource(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  telling: Telling,
  since: string | null,
  progress: Progress,
): Promise<KeySet> {
  const seen = createKeySet()
  const met = createMet(runtime, seen)
  await takeAll(deps, runtime, lease, { telling, since, met, progress })
  if (progress.grouped?.isFull) {
    const unread = {
      ...{ rowsRead: 0, problems: 0, duplicates: 0, mustReadAgain: false, warnings: [] },
      counts: { new: 0, changed: 0, deleted: 0 },
    }
    Object.assign(progress, { ...unread, grouped: undefined, cursor: progress.from, isAgain: true })
    return readSource(deps, runtime, lease, telling, since, progress)
  }
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
      progress.fields.check(rows)
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
      await beginWrite(deps, runtime, lease, held, progress, writes)
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
  const { changes, renewed } = changesOf(runtime, items, stored, telling)
  await renewHashes(deps.database.db, flow.name, renewed)
  for (const { kind } of changes) progress.counts[kind] += 1
  const batch = { items: progress.fills.length > 0 ? items : [], changes, isLater }
  if (progress.grouped) holdGroups(progress.grouped, batch)
  else await beginWrite(deps, runtime, lease, batch, progress, writes)
  await noteProgress(deps, flow.name, progress)
}

function holdGroups(held: HeldGroups, batch: PollBatch): void {
  held.size += batch.items.length + batch.changes.length
  held.isFull ||= held.size > mostGroupsHeld
  if (held.isFull) held.batches.length = 0
  else held.batches.push(batch)
}

/** Begins to write a batch. */
async function beginWrite(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  batch: PollBatch,
  progress: Progress,
  writes: Writes,
): Promise<void> {
  if (writes.size >= writesAtOnce) await Promise.race(writes)
  const write = writeBatch(deps, runtime, lease, batch, progress)
  writes.add(write)
  write.then(
    () => writes.delete(write),
    () => undefined,
  )
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
