import type { Database } from '../db/database.ts'

export const orderChangedChannel = 'order_changed'

/** Wakes whoever waits for a change of an order, in this process, whichever process made the change. */
export type OrderChanges = {
  /** Resolves when the order may have changed, after `timeoutMs`, or when `signal` aborts. */
  wait(orderId: string, timeoutMs: number, signal?: AbortSignal): Promise<void>
  /** How many waiters there are now. */
  waiting(): number
  /** Wakes everybody and stops listening. */
  close(): Promise<void>
}

/**
 * Listens for changes with one subscription for all waiters. A notification is only a hint: waiters look at the row
 * again after it, and at least every second, so a lost one costs a second and nothing else.
 */
export async function createOrderChanges(database: Database): Promise<OrderChanges> {
  const waiters = new Map<string, Set<() => void>>()
  let count = 0
  let closed = false

  const wake = (orderId: string) => {
    for (const resolve of [...(waiters.get(orderId) ?? [])]) resolve()
  }
  const unlisten = await database.listen(orderChangedChannel, wake)

  return {
    wait(orderId, timeoutMs, signal) {
      if (closed || signal?.aborted) return Promise.resolve()
      return new Promise((resolve) => {
        const group = waiters.get(orderId) ?? new Set()
        waiters.set(orderId, group)
        const done = () => {
          clearTimeout(timer)
          signal?.removeEventListener('abort', done)
          if (group.delete(done)) count -= 1
          if (group.size === 0) waiters.delete(orderId)
          resolve()
        }
        const timer = setTimeout(done, timeoutMs)
        signal?.addEventListener('abort', done)
        group.add(done)
        count += 1
      })
    },
    waiting: () => count,
    async close() {
      closed = true
      for (const orderId of [...waiters.keys()]) wake(orderId)
      await unlisten()
    },
  }
}
