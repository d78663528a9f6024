import type { Database } from '../../db/database.ts'
import { type ActivityNotice, activityChannel } from '../../repositories/audit/activity-queries.ts'
import { type WebhookNotice, webhookChannel } from '../../repositories/webhooks/webhook-log.ts'
import type { ChangedOrder, OrderChanges } from './order-changes.ts'

/** An event. `key` is equal for two events about the same thing, of which the later one is enough. */
export type EventItem = { key: string; client: string | null } & (
  | { kind: 'order'; data: ChangedOrder }
  | { kind: 'webhook'; data: WebhookNotice }
  | { kind: 'activity'; data: ActivityNotice }
)

type EventKind = EventItem['kind']

/** The events of all processes. Each is a hint: the subscriber then reads the state itself. */
export type EventSource = {
  /**
   * Calls `onItem` with each item of these kinds, and `onGap` when some may have been missed, until the returned function is
   * called.
   */
  subscribe(
    onItem: (item: EventItem) => void,
    onGap: () => void,
    kinds: readonly EventKind[],
  ): () => void
  close(): Promise<void>
}

type Subscriber = { onItem: (item: EventItem) => void; onGap: () => void }

/** What pages are sent. */
const kindsOfPages: readonly EventKind[] = ['order', 'webhook', 'activity']

/** An event without subscribers is not read. */
export async function createEventSource(
  database: Database,
  changes: OrderChanges,
): Promise<EventSource> {
  const subscribers: Readonly<Record<EventKind, Set<Subscriber>>> = {
    order: new Set(),
    webhook: new Set(),
    activity: new Set(),
  }
  let forgetOrders: (() => void) | undefined
  const publish = (item: EventItem) => {
    for (const { onItem } of [...subscribers[item.kind]]) onItem(item)
  }
  const missOf = (kind: EventKind) => () => {
    for (const { onGap } of [...subscribers[kind]]) onGap()
  }
  const watchOrders = () => {
    forgetOrders ??= changes.subscribe(
      (data) =>
        publish({ kind: 'order', key: `order ${data.order_id}`, client: data.client, data }),
      missOf('order'),
    )
  }
  const listen = (kind: 'webhook' | 'activity', channel: string) =>
    database.listen(
      channel,
      (payload) => {
        if (subscribers[kind].size === 0) return
        const data = JSON.parse(payload) as WebhookNotice & ActivityNotice
        publish({ kind, key: `${kind} ${data.id}`, client: data.client, data })
      },
      missOf(kind),
    )
  const unlisten = await Promise.all([
    listen('webhook', webhookChannel),
    listen('activity', activityChannel),
  ])
  const unwatchOrders = () => {
    forgetOrders?.()
    forgetOrders = undefined
  }
  return {
    subscribe(onItem, onGap, kinds) {
      const subscriber = { onItem, onGap }
      for (const kind of kinds) subscribers[kind].add(subscriber)
      if (subscribers.order.size > 0) watchOrders()
      return () => {
        for (const kind of kinds) subscribers[kind].delete(subscriber)
        if (subscribers.order.size === 0) unwatchOrders()
      }
    },
    async close() {
      unwatchOrders()
      for (const end of unlisten) await end()
    },
  }
}

type EventReader = {
  watch(wake: () => void): () => void
  /** The events since the last call. `missed` when some were lost or there are too many: then everything must be read again. */
  take(): { missed: boolean; items: EventItem[] }
}

/** More than a page would process one by one. The waiting events of a slow reader must not grow without limit. */
const itemsAtMost = 20

/**
 * Events for one subscriber: of one client or, when `client` is undefined, of all; only orders unless `isAdmin`, and of these boxes
 * only if there are `boxes`. Its first result
 * is `missed`.
 */
export function createEventReader(
  source: EventSource,
  {
    isAdmin,
    client,
    boxes,
  }: { isAdmin: boolean; client: string | undefined; boxes?: ReadonlySet<string> | undefined },
): EventReader {
  const items = new Map<string, EventItem>()
  let missed = true

  const miss = () => {
    missed = true
    items.clear()
  }
  const concerns = (item: EventItem) =>
    (isAdmin || item.kind === 'order') &&
    (client === undefined || item.client === client) &&
    (boxes === undefined || (item.kind === 'order' && boxes.has(item.data.caja_id)))

  return {
    watch: (wake) =>
      source.subscribe(
        (item) => {
          if (!concerns(item)) return
          // After `missed` the reader reads everything, this event included.
          if (!missed) items.set(item.key, item)
          if (items.size > itemsAtMost) miss()
          wake()
        },
        () => {
          miss()
          wake()
        },
        isAdmin ? kindsOfPages : ['order'],
      ),
    take() {
      const taken = { missed, items: [...items.values()] }
      missed = false
      items.clear()
      return taken
    },
  }
}
