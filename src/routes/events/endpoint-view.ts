import { eventIdOf } from '../../domain/event-id.ts'
import { isTaken } from '../../payments/events/record-attempts.ts'
import type { AttemptRow } from '../../repositories/events/event-attempts.ts'
import type { EndpointWithWaiting } from '../../repositories/events/event-endpoints.ts'

/** An endpoint in the form of the API, without its secret. */
export function viewEndpoint({
  secret: _secret,
  former_secret: _former,
  former_until: until,
  ...endpoint
}: EndpointWithWaiting) {
  const state = endpoint.stopped_at === null ? ('active' as const) : ('stopped' as const)
  return { ...endpoint, state, former_secret_until: until }
}

/** An attempt in the form of the API. */
export function viewAttempt(attempt: AttemptRow) {
  return {
    ...attempt,
    event_id: attempt.event_id === null ? null : eventIdOf(attempt.event_id),
    success: isTaken(attempt),
  }
}
