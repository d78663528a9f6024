import { uuidOfEvent } from '../../domain/event-id.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import {
  type AttemptRow,
  findSentEvent,
  listAttempts,
} from '../../repositories/events/event-attempts.ts'
import {
  countFailed,
  countReplayed,
  hurryDeliveries,
  queueReplayed,
  type ReplayedSpan,
} from '../../repositories/events/event-deliveries.ts'
import type { EndpointKey, EndpointRow } from '../../repositories/events/event-endpoints.ts'
import type { EventRow } from '../../repositories/events/event-log.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { changing, requireEndpoint } from './endpoints.ts'

/** Some minutes of work of an endpoint that answers in 50 ms. */
export const replayedAtMost = 10_000

/** What is sent again: one event that the endpoint was sent, those of a time, or all that failed and wait. */
export type Replayed = { eventId: string } | { from: Date; to: Date } | 'failed'

/** How many events a replay would send. @throws NOT_FOUND, and VALIDATION_ERROR for too many */
export async function countReplay(
  deps: PaymentDeps,
  key: EndpointKey,
  what: Replayed,
): Promise<number> {
  const endpoint = await requireEndpoint(deps, key)
  if (what === 'failed') return countFailed(deps.database.db, key.id)
  return countSpan(deps, endpoint, await spanOfReplay(deps, key, what))
}

/**
 * Sends events again, under their ids and in the order of each resource. Later events of a resource wait for them.
 *
 * @throws NOT_FOUND, and VALIDATION_ERROR for too many
 */
export async function replay(
  deps: PaymentDeps,
  key: EndpointKey,
  what: Replayed,
  actor: Actor,
): Promise<number> {
  const now = deps.now()
  const span = what === 'failed' ? undefined : await spanOfReplay(deps, key, what)
  let queued = 0
  await changing(deps, key, actor, 'replayed', async (trx, endpoint) => {
    if (!span) {
      queued = await hurryDeliveries(trx, key.id, now, 'kept')
      return
    }
    queued = await countReplayed(trx, endpoint, span, replayedAtMost + 1)
    requireFew(queued)
    await queueReplayed(trx, endpoint, span, now)
  })
  return queued
}

async function countSpan(deps: PaymentDeps, endpoint: EndpointRow, span: ReplayedSpan) {
  const count = await countReplayed(deps.database.db, endpoint, span, replayedAtMost + 1)
  requireFew(count)
  return count
}

function requireFew(count: number): void {
  if (count <= replayedAtMost) return
  throw invalid('from', { code: 'REPLAY_TOO_MANY', data: { most: replayedAtMost } })
}

async function spanOfReplay(
  deps: PaymentDeps,
  key: EndpointKey,
  what: Exclude<Replayed, 'failed'>,
): Promise<ReplayedSpan> {
  if ('from' in what) return what
  const { position } = await requireSentEvent(deps, key, what.eventId)
  return { position }
}

async function requireSentEvent(deps: PaymentDeps, key: EndpointKey, eventId: string) {
  const uuid = uuidOfEvent(eventId)
  const event = uuid && (await findSentEvent(deps.database.db, key, uuid))
  if (event) return event
  throw new AppError('NOT_FOUND', {
    message: 'This endpoint was not sent such an event within 7 days; replay a time instead',
  })
}

/** Enough for the schedule, and for a few replays. */
const attemptsShown = 50

/** An event that an endpoint was sent, with its attempts, newest first. @throws NOT_FOUND */
export async function readSentEvent(
  deps: PaymentDeps,
  key: EndpointKey,
  eventId: string,
): Promise<{ event: EventRow; attempts: AttemptRow[] }> {
  await requireEndpoint(deps, key)
  const event = await requireSentEvent(deps, key, eventId)
  const filter = { eventId: event.id, outcome: undefined }
  const page = { limit: attemptsShown, offset: 0 }
  const { rows } = await listAttempts(deps.database.db, key, filter, page)
  return { event, attempts: rows }
}
