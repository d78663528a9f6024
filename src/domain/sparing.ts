/** What a count answered, and what it had to read for that. */
export type Counted<T> = { value: T; rows: number }

/** So few rows are counted in milliseconds, so the answer may as well be exact. */
const cheapRows = 10_000
/** Of the database's time, what counting may take: pages look on every few seconds, and tills come first. */
const share = 1 / 50

/**
 * Spares the database a count that has become dear. Few rows are counted anew each time; more of them only after fifty
 * times as long as the last count took, and until then its answer stands. Who asks while a dear count runs shares it.
 */
export function createSparing<T>(
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
