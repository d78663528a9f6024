import type { Reason } from '../../domain/flow-reasons.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { invalidRecordReason, SourceError, type SourceRow, type SourceWarning } from '../types.ts'
import { type Ahead, followPosition } from './cursor.ts'
import { changesOf, type FoundChange, type Renewed, type SendRules } from './item-changes.ts'
import { createKeySet, type KeySet } from './key-set.ts'
import type { FieldWatch } from './missing-fields.ts'
import {
  createReadState,
  type ReadBatch,
  type ReadState,
  readBatch,
  recordsOf,
  rememberRepeated,
  repeatedItems,
} from './read-items.ts'

/** A batch of records, compared with the stored items. `isLater`: the last records of repeated keys. */
export type ComparedBatch = ReadBatch & {
  changes: FoundChange[]
  renewed: Renewed[]
  isLater: boolean
}

/** Receives the results of a pass. A poll writes them; a dry run counts them. */
export type PassWriter = {
  /** Counts the records as they come. It may end them by throwing. */
  receive(batches: AsyncIterable<SourceRow[]>): AsyncIterable<SourceRow[]>
  warn(warning: SourceWarning): void
  /** The stored hashes of these items. */
  hashesOf(pks: readonly string[], isLater: boolean): Promise<Map<string, string>>
  /** Takes a batch while the next one is read. */
  take(batch: ComparedBatch): Promise<void>
}

export type Pass = {
  /** Where the read begins; null for the beginning. */
  since: string | null
  /** The position at the start. */
  from: string | null
  startedAt: Date
  signal: AbortSignal
  fields: FieldWatch
  sendRules: SendRules
  /** The source must not be changed; see Source. */
  previewOnly: boolean
}

/** Items with repeated keys wait in memory for the end of a read, up to this number. */
const maxRepeatedInMemory = 20_000

/**
 * One pass over the source of a flow. It reads records in batches, makes items with key and hash, and compares them
 * with the stored ones. Returns the keys of the source and the cursor of the next read. Rejects with SourceError if
 * nothing may be written.
 */
export async function runPass(
  runtime: FlowRuntime,
  pass: Pass,
  writer: PassWriter,
): Promise<{ seen: KeySet; cursor: string | null }> {
  const { since, signal, fields, sendRules, previewOnly } = pass
  const seen = createKeySet()
  const readState = createReadState(runtime, seen)
  const take = async (batch: ReadBatch, isLater: boolean) => {
    const pks = batch.items.map(({ pk }) => pk)
    const stored = await writer.hashesOf(pks, isLater)
    await writer.take({ ...batch, ...changesOf(runtime, batch.items, stored, sendRules), isLater })
  }
  const takeRepeated = async () => {
    if (readState.repeated.size === 0) return
    const batch = repeatedItems(runtime, readState, { isFull: since === null })
    readState.repeated.clear()
    await take(batch, true)
  }
  let taking: Promise<void> = Promise.resolve()
  const position = followPosition(pass.from, pass.startedAt)
  try {
    const batches = positioned(runtime, pass, position, readState, writer)
    for await (const rows of recordsOf(runtime, batches, { since, signal })) {
      fields.check(rows)
      const batch = await readBatch(runtime, rows, readState, signal)
      await taking
      if (readState.repeated.size > maxRepeatedInMemory) await takeRepeated()
      taking = take(batch, false)
      // An error is thrown where the result is awaited.
      taking.catch(() => undefined)
    }
    await taking
    if (!previewOnly) rememberRepeated(runtime, readState)
    await takeRepeated()
  } catch (error) {
    await taking.catch(() => undefined)
    throw error
  }
  const { cursor, ahead } = position.end()
  if (ahead) {
    const why = aheadReason(runtime.cursor?.field, ahead)
    writer.warn({ why, isIncomplete: false })
  }
  return { seen, cursor }
}

/** The records of the source; the position follows them. */
async function* positioned(
  runtime: FlowRuntime,
  { since, signal, previewOnly }: Pass,
  position: ReturnType<typeof followPosition>,
  readState: ReadState,
  writer: PassWriter,
): AsyncGenerator<SourceRow[]> {
  const field = runtime.cursor?.field
  const { warn } = writer
  const onFileStart = (name: string, before: number) => void readState.files.push({ name, before })
  const records = runtime.source.scan({ since, signal, warn, onFileStart, previewOnly })
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

function aheadReason(field = '', { count, example }: Ahead): Reason {
  const data = { field: JSON.stringify(field), count, example: JSON.stringify(example) }
  return { code: 'CURSOR_AHEAD', data }
}

/** Without its field the cursor would never move, and each poll would read everything since. Throws SourceError. */
function checkCursorField(field: string, rows: readonly SourceRow[]): void {
  const records = rows.filter((row) => invalidRecordReason(row) === undefined)
  const [first] = records
  if (!first || records.some((row) => Object.hasOwn(row, field))) return
  const found = Object.keys(first).slice(0, 20).join(', ')
  throw new SourceError({ code: 'CURSOR_MISSING', data: { field: JSON.stringify(field), found } })
}
