import { AppError } from '../errors/app-error.ts'
import { addressGroup } from './connections.ts'

type FailureLimit = {
  /**
   * Counts a failed or anonymous try.
   *
   * @throws RATE_LIMITED, with the seconds until the address may try again.
   */
  count(address: string): void
  /** How many addresses are stored. */
  size(): number
}

type FailureLimitOptions = {
  perMinute: number
  /** How many addresses are stored at most; some 200 bytes each. */
  capacity?: number
  /** Monotonic, in milliseconds. */
  now?: () => number
}

type Entry = { count: number; until: number }

const windowMs = 60_000

/**
 * Limits failed tries by address. A store of the addresses seen last would not do: an attacker with more addresses makes
 * it forget the one that guesses. Here an address at its limit stays until its minute is over. When memory is full the address with the fewest tries is removed; if all are at the limit, new
 * addresses wait. To fill the memory takes `capacity` times the limit in tries within a minute.
 */
export function createFailureLimit({
  perMinute,
  capacity = 100_000,
  now = () => performance.now(),
}: FailureLimitOptions): FailureLimit {
  /** In the order in which their minutes end, since all minutes are equally long. */
  const entries = new Map<string, Entry>()
  /** Those below the limit, by their number of tries. */
  const below = new Map<number, Set<string>>()
  /** No minute ends before. */
  let nothingEndsBefore = Number.POSITIVE_INFINITY

  const unrank = (key: string, count: number) => {
    const rank = below.get(count)
    rank?.delete(key)
    if (rank?.size === 0) below.delete(count)
  }
  const rank = (key: string, count: number) => {
    if (count >= perMinute) return
    const ranked = below.get(count)
    if (ranked) ranked.add(key)
    else below.set(count, new Set([key]))
  }
  const forget = (key: string, { count }: Entry) => {
    entries.delete(key)
    unrank(key, count)
  }
  const forgetEnded = (at: number) => {
    if (at < nothingEndsBefore) return
    nothingEndsBefore = Number.POSITIVE_INFINITY
    for (const [key, entry] of entries) {
      if (entry.until > at) {
        nothingEndsBefore = entry.until
        return
      }
      forget(key, entry)
    }
  }
  /**
   * Makes room; false when all stored addresses are at their limit. For many new addresses at once, since finding the
   * first of a set is slow after many removals from its front.
   */
  const makeRoom = (): boolean => {
    if (entries.size < capacity) return true
    let left = Math.ceil(capacity / 100)
    for (const key of below.get(Math.min(...below.keys())) ?? []) {
      const entry = entries.get(key)
      if (entry) forget(key, entry)
      left -= 1
      if (left === 0) break
    }
    return entries.size < capacity
  }
  const refuse = (until: number, at: number): never => {
    throw new AppError('RATE_LIMITED', {
      extra: { retryAfterSeconds: Math.ceil((until - at) / 1000) },
    })
  }

  return {
    size: () => entries.size,
    count(address) {
      const at = now()
      forgetEnded(at)
      const key = addressGroup(address)
      let entry = entries.get(key)
      if (!entry) {
        if (!makeRoom()) {
          refuse(nothingEndsBefore, at)
        }
        entry = { count: 0, until: at + windowMs }
        entries.set(key, entry)
        nothingEndsBefore = Math.min(nothingEndsBefore, entry.until)
      }
      if (entry.count >= perMinute) refuse(entry.until, at)
      unrank(key, entry.count)
      entry.count += 1
      rank(key, entry.count)
    },
  }
}
