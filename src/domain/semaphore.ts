/** Limits how many hold a slot at a time. */
export type Semaphore = {
  /**
   * Waits for a slot: the lowest `rank` first, equal ones in order of request. Call the result when the slot is free again.
   * Rejects with the signal's reason when it aborts first.
   */
  acquire(signal?: AbortSignal, rank?: number): Promise<() => void>
  /** Raises the number of slots. A lower value changes nothing. */
  raise(slots: number): void
  /** How many wait for a slot. */
  waiting(): number
}

/** A semaphore with `initial` slots that serves waiting callers by rank. */
export function createSemaphore(initial: number): Semaphore {
  let slots = initial
  const waiting = new Map<() => void, number>()
  let used = 0

  const startNext = () => {
    let next: (() => void) | undefined
    let lowest = Number.POSITIVE_INFINITY
    for (const [start, rank] of waiting) {
      if (next && rank >= lowest) continue
      next = start
      lowest = rank
    }
    next?.()
  }

  const createRelease = () => {
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      used -= 1
      startNext()
    }
  }

  return {
    waiting: () => waiting.size,
    raise: (more) => {
      slots = Math.max(slots, more)
    },
    acquire: async (signal, rank = 0) => {
      signal?.throwIfAborted()
      if (used < slots) {
        used += 1
        return createRelease()
      }
      const given = Promise.withResolvers<() => void>()
      const start = () => {
        waiting.delete(start)
        used += 1
        given.resolve(createRelease())
      }
      const abort = () => {
        waiting.delete(start)
        given.reject(signal?.reason)
      }
      waiting.set(start, rank)
      signal?.addEventListener('abort', abort, { once: true })
      try {
        return await given.promise
      } finally {
        signal?.removeEventListener('abort', abort)
      }
    },
  }
}
