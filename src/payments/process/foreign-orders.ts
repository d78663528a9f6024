import { hasCome } from '../../repositories/due-work.ts'

/**
 * Orders of the provider that proved to be foreign. For a while they are not read again. `where` is the account that does not
 * have the order; null: all accounts were asked, or it was read and is foreign.
 */
export type ForeignOrders = {
  has(mpOrderId: string, where: number | null, now: Date): boolean
  /** `forMs` from now. */
  add(mpOrderId: string, where: number | null, now: Date, forMs: number): void
}

/** Some hundred bytes each. */
const keptAtMost = 10_000

/** In memory: each process has its own list, and a restart reads again. */
export function createForeignOrders(): ForeignOrders {
  const known = new Map<string, { until: Date; forMs: number }>()
  const keyOf = (mpOrderId: string, where: number | null) => `${mpOrderId} ${where ?? ''}`
  return {
    has(mpOrderId, where, now) {
      const foreign = known.get(keyOf(mpOrderId, where))
      return foreign !== undefined && !hasCome(foreign.until, now, foreign.forMs)
    },
    add(mpOrderId, where, now, forMs) {
      const key = keyOf(mpOrderId, where)
      known.delete(key)
      known.set(key, { until: new Date(now.getTime() + forMs), forMs })
      if (known.size <= keptAtMost) return
      const [oldest] = known.keys()
      if (oldest !== undefined) known.delete(oldest)
    },
  }
}
