/**
 * Hands records through and calls `onSilence` once when the other side gives none for `timeoutMs`. Only the wait for the
 * next record counts, not what the reader does with one: a slow reader is no fault of the source.
 */
export async function* watchSilence<T>(
  records: AsyncIterable<T>,
  timeoutMs: number,
  onSilence: () => void,
): AsyncGenerator<T> {
  let waitingSince: number | undefined
  const watch = setInterval(
    () => {
      if (waitingSince === undefined || performance.now() - waitingSince < timeoutMs) return
      clearInterval(watch)
      onSilence()
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
