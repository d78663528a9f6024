import type { FoundFile } from './file-store.ts'

export type StabilityCheck = {
  /** Whether the file has been unchanged for this many milliseconds. */
  wasUnchangedFor(file: FoundFile, ms: number): boolean
}

/** Limit of files that are observed. Above it, all observations are discarded. */
const maxObservedFiles = 10_000

/** Per clock: its first time, and the monotonic time at that moment. */
const firstReadings = new WeakMap<() => Date, { atMs: number; monotonicMs: number }>()

/**
 * Measures how long files have been unchanged, by their change time or by repeated observation.
 *
 * The system clock can be set. A jump forward must not accept a file that is still being written. A jump back must not delay a
 * file. So the expected time is derived from the process's first clock reading and `monotonicMs`, a clock that cannot be set. The
 * first reading is shared, because each change of a definition opens the source again.
 */
export function createStabilityCheck(now: () => Date, monotonicMs: () => number): StabilityCheck {
  const reading = firstReadings.get(now) ?? { atMs: now().getTime(), monotonicMs: monotonicMs() }
  firstReadings.set(now, reading)
  const observations = new Map<string, { mark: string; atMs: number }>()

  const observedFor = ({ path, unchangedSinceMs, mark: text }: FoundFile): number => {
    const mark = `${text} ${unchangedSinceMs}`
    const before = observations.get(path)
    if (before?.mark === mark) return monotonicMs() - before.atMs
    if (observations.size >= maxObservedFiles) observations.clear()
    observations.set(path, { mark, atMs: monotonicMs() })
    return 0
  }

  return {
    wasUnchangedFor(file, ms) {
      const observedMs = observedFor(file)
      // The time the clock would show without adjustments. The earlier of both protects against a jump forward.
      const expectedMs = reading.atMs + (monotonicMs() - reading.monotonicMs)
      const earliestMs = Math.min(now().getTime(), expectedMs)
      return ms === 0 || file.unchangedSinceMs <= earliestMs - ms || observedMs >= ms
    },
  }
}
