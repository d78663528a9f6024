/** Runs works of one key one after the other, in the order of their requests. Works of different keys do not wait for each other. */
export type KeyedQueue = {
  /** A failure of a work before it does not matter. */
  run<T>(key: string, work: () => Promise<T>): Promise<T>
  /** Resolves when no work is left. */
  idle(): Promise<void>
}

export function createKeyedQueue(): KeyedQueue {
  const last = new Map<string, Promise<unknown>>()
  return {
    run<T>(key: string, work: () => Promise<T>): Promise<T> {
      const result = (last.get(key) ?? Promise.resolve()).then(work)
      const ended: Promise<unknown> = result
        .catch(() => undefined)
        .then(() => {
          if (last.get(key) === ended) last.delete(key)
        })
      last.set(key, ended)
      return result
    },
    async idle() {
      while (last.size > 0) await Promise.all(last.values())
    },
  }
}
