/** The result of a count, and how many rows it read. */
export type Counted<T> = { value: T; rows: number }

/** So few rows are counted in milliseconds, so the answer is exact. */
const cheapRows = 10_000
/** The share of the database's time for counting: pages ask every few seconds, and tills have priority. */
const share = 1 / 50

/**
 * Limits the cost of a count for the database. Few rows are counted each time. More rows are counted again only after
 * fifty times the duration of the last count; until then its result is returned. Callers during an expensive count
 * share it.
 */
export function createCachedCount<T>(
  count: () => Promise<Counted<T>>,
  clockMs: () => number = () => performance.now(),
): () => Promise<T> {
  let last: { value: T; until: number } | undefined
  let running: Promise<T> | undefined

  const read = async () => {
    const from = clockMs()
    const { value, rows } = await count()
    const to = clockMs()
    last = rows > cheapRows ? { value, until: to + (to - from) / share } : undefined
    return value
  }

  return async () => {
    if (last === undefined) return read()
    if (clockMs() < last.until) return last.value
    running ??= read().finally(() => {
      running = undefined
    })
    return running
  }
}
