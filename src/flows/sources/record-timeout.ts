/**
 * Passes records on and calls `onTimeout` once when none arrives for `timeoutMs`. The time that the reader needs for a record
 * does not count, because a slow reader is not the source's fault.
 */
export async function* withRecordTimeout<T>(
  records: AsyncIterable<T>,
  timeoutMs: number,
  onTimeout: () => void,
): AsyncGenerator<T> {
  let waitingSince: number | undefined
  const watch = setInterval(
    () => {
      if (waitingSince === undefined || performance.now() - waitingSince < timeoutMs) return
      clearInterval(watch)
      onTimeout()
    },
    Math.min(1_000, Math.max(10, timeoutMs / 4)),
  )
  try {
    waitingSince = performance.now()
    for await (const record of records) {
      waitingSince = undefined
      yield record
      waitingSince = performance.now()
    }
  } finally {
    clearInterval(watch)
  }
}
