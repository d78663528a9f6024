import { SourceError, type SourceRow } from '../types.ts'

/** Hands batches through; more records than `maxRows` fail the read before the batch that holds the first of them. */
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
    if (batch.length > 0) yield batch
  }
}

/** The same records in batches of `size`; the last may be shorter. */
export async function* inBatches<T>(
  records: AsyncIterable<T> | Iterable<T>,
  size: number,
): AsyncGenerator<T[]> {
  let batch: T[] = []
  for await (const record of records) {
    batch.push(record)
    if (batch.length < size) continue
    yield batch
    batch = []
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
