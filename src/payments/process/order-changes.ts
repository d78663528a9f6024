import type { Database } from '../../db/database.ts'
import type { OrderStatus } from '../../domain/order.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'

const orderChangedChannel = 'order_changed'

/** A changed order: enough to know which client it concerns, without reading the row. */
export type ChangedOrder = {
  order_id: string
  client: string
  caja_id: string
  status: OrderStatus
  version: number
}

/** Delivers order changes in this process, whichever process made them. */
export type OrderChanges = {
  /** Resolves when the order may have changed, after `timeoutMs`, or when `signal` aborts. */
  wait(orderId: string, timeoutMs: number, signal?: AbortSignal): Promise<void>
  /** Calls `onChange` with every change, and `onGap` when some may have been missed, until the returned function is called. */
  subscribe(onChange: (change: ChangedOrder) => void, onGap: () => void): () => void
  /** How many waiters there are now. */
  waiting(): number
  /** Wakes all waiters and stops listening. */
  close(): Promise<void>
}

/** Notifies every process of a change, once it is committed. */
export function notifyOrderChanged(database: Database, order: OrderRow): void {
  const change: ChangedOrder = {
    order_id: order.id,
    client: order.client,
    caja_id: order.caja_id,
    status: order.status,
    version: order.version,
  }
  database.announce(orderChangedChannel, JSON.stringify(change))
}

/**
 * Listens for changes with one subscription for all waiters. A database notification is only a hint: waiters read the row again
 * after it, and also at intervals. So a lost one only costs a moment.
 */
export async function createOrderChanges(database: Database): Promise<OrderChanges> {
  const waiters = new Map<string, Set<() => void>>()
  const subscribers = new Set<{ onChange: (change: ChangedOrder) => void; onGap: () => void }>()
  let closed = false

  const wake = (orderId: string) => {
    for (const call of [...(waiters.get(orderId) ?? [])]) call()
  }
  const wakeAll = () => {
    for (const orderId of [...waiters.keys()]) wake(orderId)
  }
  const unlisten = await database.listen(
    orderChangedChannel,
    (payload) => {
      if (waiters.size === 0 && subscribers.size === 0) return
      const change = JSON.parse(payload) as ChangedOrder
      wake(change.order_id)
      for (const { onChange } of [...subscribers]) onChange(change)
    },
    () => {
      wakeAll()
      for (const { onGap } of [...subscribers]) onGap()
    },
  )

  return {
    wait(orderId, timeoutMs, signal) {
      if (closed || signal?.aborted) return Promise.resolve()
      return new Promise((resolve) => {
        const done = () => {
          clearTimeout(timer)
          signal?.removeEventListener('abort', done)
          group.delete(done)
          if (group.size === 0 && waiters.get(orderId) === group) waiters.delete(orderId)
          resolve()
        }
        const timer = setTimeout(done, timeoutMs)
        signal?.addEventListener('abort', done)
        const group = waiters.get(orderId) ?? new Set()
        waiters.set(orderId, group.add(done))
      })
    },
    subscribe(onChange, onGap) {
      const subscriber = { onChange, onGap }
      subscribers.add(subscriber)
      return () => subscribers.delete(subscriber)
    },
    waiting: () => [...waiters.values()].reduce((sum, group) => sum + group.size, 0),
    async close() {
      closed = true
      wakeAll()
      await unlisten()
    },
  }
}
