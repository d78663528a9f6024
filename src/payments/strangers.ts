/**
 * Orders of the provider that were found to be none of ours: for a while they are not asked for again. `where` is the
 * account that did not know the order; null: it was asked for everywhere, or was read and is somebody else's.
 */
export type Strangers = {
  has(mpOrderId: string, where: number | null, now: Date): boolean
  /** `forMs` from now. */
  add(mpOrderId: string, where: number | null, now: Date, forMs: number): void
}

/** Some hundred bytes each. */
const keptAtMost = 10_000

/** In memory: each process learns for itself, and a restart asks again. */
export function createStrangers(): Strangers {
  const untilMs = new Map<string, number>()
  const keyOf = (mpOrderId: string, where: number | null) => `${mpOrderId} ${where ?? ''}`
  return {
    has: (mpOrderId, where, now) => (untilMs.get(keyOf(mpOrderId, where)) ?? 0) > now.getTime(),
    add(mpOrderId, where, now, forMs) {
      const key = keyOf(mpOrderId, where)
      untilMs.delete(key)
      untilMs.set(key, now.getTime() + forMs)
      if (untilMs.size <= keptAtMost) return
      const [oldest] = untilMs.keys()
      if (oldest !== undefined) untilMs.delete(oldest)
    },
  }
}
