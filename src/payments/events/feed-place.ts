import type { ClientName } from '../../domain/client-name.ts'
import { type FeedCursor, isOfThisFeed } from '../../domain/event-cursor.ts'
import { invalid } from '../../errors/app-error.ts'
import { findIdAt, positionBefore, readEnds } from '../../repositories/events/event-log.ts'
import type { PaymentDeps } from '../deps.ts'
import { numberCommitted } from './feed.ts'

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
