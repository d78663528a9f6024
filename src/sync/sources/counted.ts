import { weightOf } from '../mapping/weight.ts'
import { breathe } from '../poll/breather.ts'
import { SourceError, type SourceRow } from '../types.ts'

/** Of one batch: what is made of it, written and queued goes to the database at once. */
const maxBatchRows = 1_000
/** In characters, counted roughly. */
const maxBatchWeight = 1_048_576

/** Hands records through; more of them than `maxRows` fail the read before the batch that holds the first of them. */
export async function* atMost(
  batches: AsyncIterable<SourceRow[]>,
  maxRows: number | undefined,
): AsyncGenerator<SourceRow[]> {
  let rows = 0
  for await (const batch of batches) {
    rows += batch.length
    if (maxRows !== undefined && rows > maxRows) {
      throw new SourceError(`the source has more than ${maxRows} records (limits.maxRows)`)
    }
    yield batch
  }
}

/**
 * The same records in batches of `size` that are not too large for the thread that serves the tills: fewer where records are
 * long. The last may be shorter. `make` turns each into what is handed on.
 */
export async function* inBatches<T>(
  records: AsyncIterable<T> | Iterable<T>,
  size: number,
  make: (record: T) => SourceRow,
): AsyncGenerator<SourceRow[]> {
  const most = Math.min(size, maxBatchRows)
  let batch: SourceRow[] = []
  let weight = 0
  for await (const record of records) {
    const made = make(record)
    const more = weightOf(made, maxBatchWeight)
    if (batch.length > 0 && weight + more > maxBatchWeight) {
      yield batch
      batch = []
      weight = 0
    }
    batch.push(made)
    weight += more
    if (batch.length === most) {
      yield batch
      batch = []
      weight = 0
    }
    // To await nothing would cost each record a turn of the microtasks.
    const others = breathe()
    if (others) await others
  }
  if (batch.length > 0) yield batch
}

/** The records of a whole read for which `matches` holds. */
export async function matching(
  batches: AsyncIterable<SourceRow[]>,
  matches: (row: SourceRow) => boolean,
): Promise<SourceRow[]> {
  const found: SourceRow[] = []
  for await (const batch of batches) found.push(...batch.filter(matches))
  return found
}
