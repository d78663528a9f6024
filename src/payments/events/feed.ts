import type { Database } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import {
  cursorAt,
  type FeedCursor,
  feedCursorText,
  isOfThisFeed,
} from '../../domain/event-cursor.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import {
  type EventFilter,
  type EventPage,
  findIdAt,
  hasUnnumbered,
  numberEvents,
  positionBefore,
  readEnds,
  readEvents,
} from '../../repositories/events/event-log.ts'
import type { PaymentDeps } from '../deps.ts'
import type { EventSource } from '../process/event-source.ts'

/** Some 20 ms of an idle database. */
const numberedAtOnce = 1_000
/** The feed is read at this interval even without a notification: only moves of orders have one. */
const readAgainMs = 1_000

/**
 * Gives committed events their positions. Only readers call it, so a charge does not wait for it.
 *
 * No event is skipped: a position is given after the commit, so an event that is committed late comes later in the feed. The
 * events of one resource keep their order: a later one can be written only after the earlier one is committed. A snapshot with the
 * later one has both, and they are numbered in the order of writing.
 */
export async function numberCommitted(database: Database): Promise<void> {
  for (let numbered = numberedAtOnce; numbered === numberedAtOnce; ) {
    if (!(await hasUnnumbered(database.db))) return
    numbered = await database.transaction((trx) => numberEvents(trx, numberedAtOnce))
  }
}

export type FeedRead = EventFilter & {
  /** The last event that the reader has; undefined: from the oldest event on. */
  after: FeedCursor | undefined
  limit: number
}

export type FeedWait = {
  seconds: number
  signal: AbortSignal
  /** @throws when the caller may no longer read */
  checkAccess: () => Promise<void>
}

/** Events in order. `next` is the cursor to read on from, also after a page without events. */
export type FeedPage = { events: EventPage['events']; next: FeedCursor; hasMore: boolean }

/**
 * Reads the events after a position. With `wait` an empty answer waits until there is an event, the time is up, or the client
 * disconnects.
 *
 * @throws CURSOR_EXPIRED when events after the cursor were deleted, or it is of a database from before a restored backup
 */
export async function readFeed(
  deps: Pick<PaymentDeps, 'database' | 'events' | 'stopwatch'>,
  query: FeedRead,
  wait?: FeedWait | undefined,
): Promise<FeedPage> {
  if (!wait) return readPage(deps.database, query)
  const news = watchEvents(deps.events, query.client)
  try {
    const until = deps.stopwatch() + wait.seconds * 1_000
    for (;;) {
      const page = await readPage(deps.database, query)
      const leftMs = until - deps.stopwatch()
      if (page.events.length > 0 || leftMs <= 0 || wait.signal.aborted) return page
      await news.next(Math.min(leftMs, readAgainMs), wait.signal)
      await wait.checkAccess()
    }
  } finally {
    news.end()
  }
}

async function readPage(database: Database, { after, limit, ...filter }: FeedRead) {
  await numberCommitted(database)
  const page = await readEvents(database.db, filter, after?.position ?? 0, limit + 1)
  if (after !== undefined && !isReadable(after, page)) {
    throw new AppError('CURSOR_EXPIRED', {
      extra: { beginAfter: feedCursorText({ position: page.deleted }) },
    })
  }
  const events = page.events.slice(0, limit)
  const last = page.events.length > limit ? events.at(-1) : undefined
  const next = last ? cursorAt(last.position, last.id) : cursorAt(page.head, page.headId)
  return { events, next, hasMore: last !== undefined }
}

function isReadable(after: FeedCursor, { head, deleted, afterId }: EventPage): boolean {
  const isKept = after.position >= deleted && after.position <= head
  return isKept && isOfThisFeed(after, afterId)
}

/** Notices that there may be events of a client. An event between two calls of `next` ends the second one at once. */
function watchEvents(source: EventSource, client: string | undefined) {
  let isNew = false
  let wake = () => {}
  const notice = () => {
    isNew = true
    wake()
  }
  const end = source.subscribe(
    (item) => {
      if (client === undefined || item.client === client) notice()
    },
    notice,
    ['order'],
  )
  return {
    end,
    async next(timeoutMs: number, signal: AbortSignal): Promise<void> {
      if (!isNew) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(() => wake(), timeoutMs)
          wake = () => {
            clearTimeout(timer)
            signal.removeEventListener('abort', wake)
            resolve()
          }
          signal.addEventListener('abort', wake)
        })
      }
      isNew = false
      wake = () => {}
    },
  }
}

/** A place in the feed: its ends, the first event from a time on, or a cursor. */
export type Place = 'beginning' | 'now' | Date | FeedCursor

/**
 * The position of a place.
 *
 * @throws VALIDATION_ERROR for a cursor that this feed has not given
 */
export async function positionOfPlace(
  { database }: Pick<PaymentDeps, 'database'>,
  client: ClientName,
  place: Place,
): Promise<number> {
  await numberCommitted(database)
  if (place instanceof Date) return positionBefore(database.db, place)
  const { head, deleted } = await readEnds(database.db, client)
  if (place === 'beginning') return deleted
  if (place === 'now') return head
  const { position } = place
  const isKnown = position <= head && isOfThisFeed(place, await findIdAt(database.db, position))
  if (!isKnown) throw invalid('after', { code: 'CURSOR_UNKNOWN' })
  return position
}
