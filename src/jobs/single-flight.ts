/** Runs `work`, or shares the outcome of running work with the same key. */
export type SingleFlight = <T>(key: string, work: () => Promise<T>) => Promise<T>

/** Joins equal work inside this process. Work of one key must always have one result type; between processes the database decides. */
export function createSingleFlight(): SingleFlight {
  const running = new Map<string, Promise<unknown>>()
  return <T>(key: string, work: () => Promise<T>): Promise<T> => {
    const current = running.get(key)
    if (current) return current as Promise<T>
    const started = work().finally(() => running.delete(key))
    running.set(key, started)
    return started
  }
}
