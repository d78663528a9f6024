/** Work that a stop waits for, since what it has in hand cannot be had again. */
export type BackgroundWork = {
  /** Does `work`; `givenUp` aborts when a stop has waited long enough for what it tries again and again. */
  run<T>(work: (givenUp: AbortSignal) => Promise<T>): Promise<T>
  /** Ends when all of it has; after `withinMs` nothing is tried again. */
  end(withinMs: number): Promise<void>
}

export function createBackgroundWork(): BackgroundWork {
  const running = new Set<Promise<unknown>>()
  const givenUp = new AbortController()
  return {
    run(work) {
      const started = work(givenUp.signal)
      const settled: Promise<unknown> = started
        .catch(() => undefined)
        .then(() => running.delete(settled))
      running.add(settled)
      return started
    },
    async end(withinMs) {
      const timer = setTimeout(() => givenUp.abort(), withinMs)
      while (running.size > 0) await Promise.all(running)
      clearTimeout(timer)
    },
  }
}
