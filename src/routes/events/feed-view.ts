import type { z } from 'zod'
import { feedCursorText } from '../../domain/event-cursor.ts'
import type { FeedPage } from '../../payments/events/feed.ts'
import { viewEvent } from '../../payments/events/view-event.ts'
import type { FeedResponse } from './feed-schemas.ts'

/** A page of the feed in the form of the API. */
export function viewFeed({ events, next, hasMore }: FeedPage): z.input<typeof FeedResponse> {
  return { events: events.map(viewEvent), next: feedCursorText(next), has_more: hasMore }
}
