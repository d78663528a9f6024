import { pollGraceMs, waitingForMs } from './health-limits.ts'
import { type DestinationHealth, type FlowHealth, type Health, healthOf } from './health-states.ts'
import type { AccessLost, DestinationSeen, FlowSeen } from './observations.ts'

/**
 * Whether a flow reads its source, and whether each destination receives its deliveries. A flow is shown no better than
 * the worst of its destinations.
 */
export function deriveFlow(seen: FlowSeen, now: Date): FlowHealth {
  const destinations = seen.destinations.map((one) => deriveDestination(one, now))
  const own = ownHealth(seen, now.getTime())
  const worst =
    destinations.find(({ state }) => state === 'down') ??
    destinations.find(({ state }) => state === 'attention')
  const isWorse = worst !== undefined && rank[worst.state] > rank[own.state]
  const { state, cause, since, about } = isWorse ? worst : own
  return {
    flow: seen.flow,
    // The other destinations still work.
    state: isWorse ? 'attention' : state,
    cause,
    since,
    about: isWorse ? { ...about, destination: worst.name } : about,
    destinations,
  }
}

const rank = { ok: 0, unknown: 0, attention: 1, down: 2 } as const

function ownHealth(seen: FlowSeen, now: number): Health {
  if (seen.isPaused) return healthOf('attention', 'flow_paused', seen.pausedAt)
  if (seen.isLimited) return healthOf('attention', 'flow_limited')
  if (seen.accessLost !== null) return lostAccess(seen.accessLost)
  const patienceMs = 2 * seen.pollIntervalMs + pollGraceMs
  if (seen.lastError !== null) {
    const isLong = now - (seen.lastSuccessAt?.getTime() ?? 0) > patienceMs
    const state = isLong ? 'down' : 'attention'
    return healthOf(state, 'source_failing', seen.lastSuccessAt, { code: seen.lastError })
  }
  if (seen.askedAt !== null) return healthOf('attention', 'question_open', seen.askedAt)
  if (seen.lastPollAt === null) return healthOf('unknown', 'never_polled')
  const { dueSince } = seen
  if (dueSince !== null && !seen.isPolling && now - dueSince.getTime() > patienceMs) {
    return healthOf('down', 'not_polled', dueSince)
  }
  return healthOf('ok', null)
}

function lostAccess({ since, code, place }: AccessLost): Health {
  return healthOf('down', 'access_lost', since, { place, ...(code !== null && { code }) })
}

function deriveDestination(seen: DestinationSeen, now: Date): DestinationHealth {
  const { name, pending, sending } = seen
  return { name, nextTryAt: sending.nextAttemptAt, pending, ...destinationHealth(seen, now) }
}

function destinationHealth(seen: DestinationSeen, now: Date): Health {
  const { sending, pending, oldestWaitingAt, failed, accessLost } = seen
  const { since } = sending
  if (accessLost !== null) return lostAccess(accessLost)
  if (sending.state === 'stopped') {
    return healthOf('attention', 'sending_stopped', since, { pending })
  }
  const about = {
    pending,
    ...(sending.cause !== null && { code: sending.cause }),
    ...(sending.nextAttemptAt && { nextTryAt: sending.nextAttemptAt.toISOString() }),
  }
  if (sending.state === 'open' || sending.state === 'probing') {
    return healthOf('down', 'destination_failing', since, about)
  }
  if (sending.state === 'silent' && pending > 0) {
    return healthOf('attention', 'destination_asked_to_wait', since, about)
  }
  if (oldestWaitingAt !== null && now.getTime() - oldestWaitingAt.getTime() > waitingForMs) {
    return healthOf('attention', 'deliveries_late', oldestWaitingAt, about)
  }
  if (failed > 0)
    return healthOf('attention', 'deliveries_failed', null, { ...about, count: failed })
  return healthOf('ok', null)
}
