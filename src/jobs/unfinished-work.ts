/** Work that a shutdown waits for, because its result cannot be obtained again. */
export type UnfinishedWork = {
  /** Runs `work`; `givenUp` aborts when a shutdown has waited long enough for its retries. */
  run<T>(work: (givenUp: AbortSignal) => Promise<T>): Promise<T>
  /** Resolves when all work has ended; after `withinMs` nothing is retried. */
  end(withinMs: number): Promise<void>
}

export function createUnfinishedWork(): UnfinishedWork {
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
