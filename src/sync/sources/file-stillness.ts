import type { FoundFile } from './file-store.ts'

export type Stillness = {
  /** Whether nothing about a file has changed for so many milliseconds. */
  wasStillFor(file: FoundFile, ms: number): boolean
}

/** Files of a source that are looked at again and again; more would be none of its own any longer. */
const mostSeen = 10_000

/** By clock, what it showed at first and what the steady one did then. */
const firstShown = new WeakMap<() => Date, { atMs: number; steadyMs: number }>()

/**
 * Tells how long files have been still: by the time of their last change, as far as it is known, and where that tells nothing
 * by having looked at them. For clocks are set: one that jumps ahead must not have a file taken
 * that is being written, nor one that is set back keep a file waiting for as long as it was wrong. `steadyMs` is a clock that
 * nobody can set. What the clock showed when the process first asked is its measure: a source is opened anew with each change of its
 * definition, and the clock may have been set by then.
 */
export function createStillness(now: () => Date, steadyMs: () => number): Stillness {
  const first = firstShown.get(now) ?? { atMs: now().getTime(), steadyMs: steadyMs() }
  firstShown.set(now, first)
  const seen = new Map<string, { mark: string; atMs: number }>()

  const seenFor = ({ path, stillSinceMs, mark: text }: FoundFile): number => {
    const mark = `${text} ${stillSinceMs}`
    const before = seen.get(path)
    if (before?.mark === mark) return steadyMs() - before.atMs
    if (seen.size >= mostSeen) seen.clear()
    seen.set(path, { mark, atMs: steadyMs() })
    return 0
  }

  return {
    wasStillFor(file, ms) {
      const seenMs = seenFor(file)
      // What the clock would show had nobody set it since; a jump ahead counts as little as one back.
      const unset = first.atMs + (steadyMs() - first.steadyMs)
      const last = Math.min(now().getTime(), unset)
      return ms === 0 || file.stillSinceMs <= last - ms || seenMs >= ms
    },
  }
}
