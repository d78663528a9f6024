import { yieldToEventLoop } from '../../jobs/yield-to-event-loop.ts'
import { estimateJsonSize } from '../mapping/json-size.ts'
import { SourceError, type SourceRow } from '../types.ts'

/** Largest batch: the records of one batch are processed, written and queued together. */
const maxBatchRows = 1_000
/** Estimated characters. */
const maxBatchCharacters = 1_048_576

/** Passes batches on. Throws SourceError instead of the batch that exceeds `maxRows` records in total. */
export async function* limitRows(
  batches: AsyncIterable<SourceRow[]>,
  maxRows: number | undefined,
): AsyncGenerator<SourceRow[]> {
  let rows = 0
  for await (const batch of batches) {
    rows += batch.length
    if (maxRows !== undefined && rows > maxRows) {
      throw new SourceError({ code: 'TOO_MANY_RECORDS', data: { most: maxRows } })
    }
    yield batch
  }
}

/**
 * Groups records into batches of `size`. A batch has fewer records when they are long: batches are processed on the thread
 * that serves the tills. The last batch may be shorter. `make` converts each record.
 */
export async function* inBatches<T>(
  records: AsyncIterable<T> | Iterable<T>,
  size: number,
  make: (record: T) => SourceRow,
): AsyncGenerator<SourceRow[]> {
  const most = Math.min(size, maxBatchRows)
  let batch: SourceRow[] = []
  let characters = 0
  for await (const record of records) {
    const made = make(record)
    const added = estimateJsonSize(made, maxBatchCharacters)
    if (batch.length > 0 && characters + added > maxBatchCharacters) {
      yield batch
      batch = []
      characters = 0
    }
    batch.push(made)
    characters += added
    if (batch.length === most) {
      yield batch
      batch = []
      characters = 0
    }
    // Awaiting undefined would cost a microtask for each record.
    const pause = yieldToEventLoop()
    if (pause) await pause
  }
  if (batch.length > 0) yield batch
}

/** Reads all batches and returns the records for which `matches` is true. */
export async function matching(
  batches: AsyncIterable<SourceRow[]>,
  matches: (row: SourceRow) => boolean,
): Promise<SourceRow[]> {
  const found: SourceRow[] = []
  for await (const batch of batches) found.push(...batch.filter(matches))
  return found
}
