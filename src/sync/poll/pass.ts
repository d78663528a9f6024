import type { FlowRuntime } from '../flow-runtime.ts'
import { SourceError, type SourceRow, type SourceWarning, whyNoRecord } from '../types.ts'
import { type Ahead, followPosition } from './cursor.ts'
import { changesOf, type FoundChange, type Renewed, type Telling } from './item-changes.ts'
import { createKeySet, type KeySet } from './key-set.ts'
import type { FieldWatch } from './missing-fields.ts'
import {
  createMet,
  type Met,
  type ReadBatch,
  readBatch,
  recordsOf,
  rememberRepeated,
  repeatedItems,
} from './read-items.ts'

/** What a batch of records shows, compared with what is stored. `isLater`: the last records of keys that came more than once. */
export type ComparedBatch = ReadBatch & {
  changes: FoundChange[]
  renewed: Renewed[]
  isLater: boolean
}

/** Where a pass leaves what it finds: a poll writes it down, a dry run counts it. */
export type PassWriter = {
  /** Counts the records as they come, and may end them by throwing. */
  receive(batches: AsyncIterable<SourceRow[]>): AsyncIterable<SourceRow[]>
  warn(warning: SourceWarning): void
  /** The stored hashes of these items. */
  hashesOf(pks: readonly string[], isLater: boolean): Promise<Map<string, string>>
  /** The next batch is read meanwhile. */
  take(batch: ComparedBatch): Promise<void>
}

export type Pass = {
  /** Where the read begins; null for the beginning. */
  since: string | null
  /** The position that moves along. */
  from: string | null
  startedAt: Date
  signal: AbortSignal
  fields: FieldWatch
  telling: Telling
  /** Nothing may be left behind; see Source. */
  lookOnly: boolean
}

/** Whole items wait for the end of a read because their key came again. */
const mostRepeatedHeld = 20_000

/**
 * One pass over the source of a flow: records in batches, items of them with key and hash, compared with what is stored. Answers the
 * keys that the source has, and where the next read goes on. Rejects with SourceError for what nobody may write of.
 */
export async function passOver(
  runtime: FlowRuntime,
  pass: Pass,
  writer: PassWriter,
): Promise<{ seen: KeySet; cursor: string | null }> {
  const { since, signal, fields, telling, lookOnly } = pass
  const seen = createKeySet()
  const met = createMet(runtime, seen)
  const take = async (batch: ReadBatch, isLater: boolean) => {
    const pks = batch.items.map(({ pk }) => pk)
    const stored = await writer.hashesOf(pks, isLater)
    await writer.take({ ...batch, ...changesOf(runtime, batch.items, stored, telling), isLater })
  }
  const takeRepeated = async () => {
    if (met.repeated.size === 0) return
    const batch = repeatedItems(runtime, met, { isFull: since === null })
    met.repeated.clear()
    await take(batch, true)
  }
  let taking: Promise<void> = Promise.resolve()
  const position = followPosition(pass.from, pass.startedAt)
  try {
    const batches = positioned(runtime, pass, position, met, writer)
    for await (const rows of recordsOf(runtime, batches, { since, signal })) {
      fields.check(rows)
      const batch = await readBatch(runtime, rows, met, signal)
      await taking
      if (met.repeated.size > mostRepeatedHeld) await takeRepeated()
      taking = take(batch, false)
      // A failure shows where it is waited for.
      taking.catch(() => undefined)
    }
    await taking
    if (!lookOnly) rememberRepeated(runtime, met)
    await takeRepeated()
  } catch (error) {
    await taking.catch(() => undefined)
    throw error
  }
  const { cursor, ahead } = position.end()
  if (ahead) {
    const message = aheadText(runtime.cursor?.field, ahead)
    writer.warn({ message, isIncomplete: false })
  }
  return { seen, cursor }
}

/** The records of the source, with the position moving along. */
async function* positioned(
  runtime: FlowRuntime,
  { since, signal, lookOnly }: Pass,
  position: ReturnType<typeof followPosition>,
  met: Met,
  writer: PassWriter,
): AsyncGenerator<SourceRow[]> {
  const field = runtime.cursor?.field
  const { warn } = writer
  const begins = (name: string, before: number) => void met.files.push({ name, before })
  const records = runtime.source.scan({ since, signal, warn, begins, lookOnly })
  let isFirst = true
  for await (const rows of writer.receive(records)) {
    if (field !== undefined) {
      if (isFirst) checkCursorField(field, rows)
      for (const row of rows) position.take(row[field])
    }
    isFirst &&= rows.length === 0
    yield rows
  }
}

function aheadText(field: string | undefined, { count, example }: Ahead): string {
  return `the cursor field ${JSON.stringify(field)} of ${count} records lies ahead of the time of the read, such as ${JSON.stringify(example)}; they do not move the cursor. Correct them at the source`
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
