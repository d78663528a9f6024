import type { Trx } from '../../db/database.ts'
import { pauseAfterMs } from '../../domain/endpoint-schedule.ts'
import { retryAfterMs } from '../../outbound/retry-after.ts'
import { insertAttempts, type NewAttempt } from '../../repositories/events/event-attempts.ts'
import {
  deleteDeliveries,
  type EventDelivery,
  hurryDeliveries,
  postponeDelivery,
} from '../../repositories/events/event-deliveries.ts'
import {
  type EndpointKey,
  type EndpointRow,
  lockEndpoint,
  type StopReason,
  updateEndpoint,
} from '../../repositories/events/event-endpoints.ts'
import { insertEvent } from '../../repositories/events/event-log.ts'
import type { SentMessage } from '../process/endpoint-client.ts'

/** So many failed attempts in a row are an outage of the endpoint: one request at a time shows when it ends. */
export const outageAfter = 5

/** An attempt of an event that has ended. */
export type EndedAttempt = { delivery: EventDelivery; sent: SentMessage }

type Next = { kind: 'done' } | { kind: 'again'; at: Date } | { kind: 'stop'; reason: StopReason }

/** Whether an endpoint has the message. A redirect is a failure, since the message may be meant for no other receiver. */
export function isTaken({ status }: Pick<SentMessage, 'status'>): boolean {
  return status !== null && status >= 200 && status <= 299
}

/** What follows from an attempt: 410 stops the endpoint at once, and so does the end of the schedule. */
function decideNext({ delivery, sent }: EndedAttempt, now: Date): Next {
  if (isTaken(sent)) return { kind: 'done' }
  if (sent.status === 410) return { kind: 'stop', reason: 'gone' }
  const pauseMs = pauseAfterMs(delivery.attempts + 1)
  if (pauseMs === undefined) return { kind: 'stop', reason: 'exhausted' }
  const waitMs = Math.max(pauseMs, retryAfterMs(sent.retryAfterSeconds))
  return { kind: 'again', at: new Date(now.getTime() + waitMs) }
}

/**
 * Stores attempts in the order in which they ended, and what follows from them. An endpoint that was deleted meanwhile, or from which a
 * person took an event away, is no failure.
 */
export async function recordAttempts(
  trx: Trx,
  key: EndpointKey,
  ended: readonly EndedAttempt[],
  now: Date,
): Promise<void> {
  const endpoint = await lockEndpoint(trx, key)
  if (!endpoint) return
  await insertAttempts(
    trx,
    ended.map(({ delivery, sent }) => attemptOf(key.id, delivery, sent)),
  )
  const lastSuccess = ended.findLastIndex(({ sent }) => isTaken(sent))
  const hasSuccess = lastSuccess !== -1
  // What failed during an outage does not wait for the rest of its pause.
  if (hasSuccess && endpoint.failures >= outageAfter) {
    await hurryDeliveries(trx, key.id, now, 'kept')
  }
  const stop = await planNext(trx, key.id, ended, now)
  const restMs = Math.max(...ended.map(({ sent }) => restAfterMs(sent)))
  const failures = ended.length - 1 - lastSuccess
  await updateEndpoint(trx, key, {
    failures: hasSuccess ? failures : endpoint.failures + ended.length,
    ...(hasSuccess && { last_success_at: ended[lastSuccess]?.sent.at ?? now }),
    ...(restMs > 0 && { resting_until: new Date(now.getTime() + restMs) }),
  })
  if (stop) await stopEndpoint(trx, endpoint, stop, now)
}

/** A `Retry-After` of a refusal is meant for the endpoint, and not for one event. */
function restAfterMs(sent: SentMessage): number {
  return isTaken(sent) ? 0 : retryAfterMs(sent.retryAfterSeconds)
}

/** Returns why the endpoint must stop, if it must. */
async function planNext(
  trx: Trx,
  id: string,
  ended: readonly EndedAttempt[],
  now: Date,
): Promise<StopReason | undefined> {
  const done: number[] = []
  let stop: StopReason | undefined
  for (const attempt of ended) {
    const { position, attempts } = attempt.delivery
    const next = decideNext(attempt, now)
    if (next.kind === 'done') {
      done.push(position)
      continue
    }
    if (next.kind === 'stop') stop ??= next.reason
    const nextAt = next.kind === 'again' ? next.at : now
    await postponeDelivery(trx, id, position, { attempts: attempts + 1, next_at: nextAt })
  }
  await deleteDeliveries(trx, id, done)
  return stop
}

/** Stops an endpoint, with an event. Its row is locked by then. One that is stopped stays as it is. */
export async function stopEndpoint(
  trx: Trx,
  endpoint: EndpointRow,
  reason: StopReason,
  now: Date,
): Promise<void> {
  if (endpoint.stopped_at !== null) return
  await updateEndpoint(trx, endpoint, { stopped_at: now, stop_reason: reason, notified_at: null })
  await insertEvent(trx, {
    client: endpoint.client,
    sucursalId: null,
    cajaId: null,
    type: 'endpoint.stopped',
    at: now,
    resource: { type: 'endpoint', id: endpoint.id, version: null },
    orderId: null,
    changes: {
      state: { from: 'active', to: 'stopped' },
      stop_reason: { from: null, to: reason },
    },
    data: null,
  })
}

/** An attempt as it is stored; without a delivery it was a ping. */
export function attemptOf(
  endpointId: string,
  delivery: EventDelivery | undefined,
  { at, durationMs, status, failure, answer }: SentMessage,
): NewAttempt {
  return {
    endpoint_id: endpointId,
    position: delivery?.position ?? null,
    event_id: delivery?.id ?? null,
    type: delivery?.type ?? 'ping',
    at,
    duration_ms: durationMs,
    status,
    failure,
    answer,
  }
}
