import type { Database } from '../../db/database.ts'
import { activityChannel, type ToldActivity } from '../../repositories/audit/activity-queries.ts'
import { type ToldWebhook, webhookChannel } from '../../repositories/webhooks/webhook-log.ts'
import type { ChangedOrder, OrderChanges } from '../orders/order-changes.ts'

/** An event. `key` is equal for two events about the same thing, of which the later one is enough. */
export type NewsItem = { key: string; client: string | null } & (
  | { kind: 'order'; data: ChangedOrder }
  | { kind: 'webhook'; data: ToldWebhook }
  | { kind: 'activity'; data: ToldActivity }
)

/** The events of all processes. Each is a hint: the subscriber then reads the state itself. */
export type EventSource = {
  /** Calls `onItem` with each item, and `onGap` when some may have been missed, until the returned function is called. */
  follow(onItem: (item: NewsItem) => void, onGap: () => void): () => void
  close(): Promise<void>
}

export async function createEventSource(
  database: Database,
  changes: OrderChanges,
): Promise<EventSource> {
  const followers = new Set<{ onItem: (item: NewsItem) => void; onGap: () => void }>()
  const tell = (item: NewsItem) => {
    for (const { onItem } of [...followers]) onItem(item)
  }
  const miss = () => {
    for (const { onGap } of [...followers]) onGap()
  }
  const forget = changes.follow(
    (data) => tell({ kind: 'order', key: `order ${data.order_id}`, client: data.client, data }),
    miss,
  )
  const unlisten = await Promise.all([
    database.listen(
      webhookChannel,
      (payload) => {
        const data = JSON.parse(payload) as ToldWebhook
        tell({ kind: 'webhook', key: `webhook ${data.id}`, client: data.client, data })
      },
      miss,
    ),
    database.listen(
      activityChannel,
      (payload) => {
        const data = JSON.parse(payload) as ToldActivity
        tell({ kind: 'activity', key: `activity ${data.id}`, client: data.client, data })
      },
      miss,
    ),
  ])
  return {
    follow(onItem, onGap) {
      const follower = { onItem, onGap }
      followers.add(follower)
      return () => followers.delete(follower)
    },
    async close() {
      forget()
      for (const end of unlisten) await end()
    },
  }
}

export type NewsReader = {
  watch(wake: () => void): () => void
  /** The events since the last call. `missed` when some were lost or there are too many: then everything must be read again. */
  take(): { missed: boolean; items: NewsItem[] }
}

/** More than a page would process one by one. The waiting events of a slow reader must not grow without limit. */
const itemsAtMost = 20

/**
 * Events for one subscriber: of one client or, when `client` is undefined, of all; only orders unless `isAdmin`. Its first result
 * is `missed`.
 */
export function createEventReader(
  news: EventSource,
  { isAdmin, client }: { isAdmin: boolean; client: string | undefined },
): NewsReader {
  const items = new Map<string, NewsItem>()
  let missed = true

  const miss = () => {
    missed = true
    items.clear()
  }
  const concerns = (item: NewsItem) =>
    (isAdmin || item.kind === 'order') && (client === undefined || item.client === client)

  return {
    watch: (wake) =>
      news.follow(
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
      ),
    take() {
      const taken = { missed, items: [...items.values()] }
      missed = false
      items.clear()
      return taken
    },
  }
}
