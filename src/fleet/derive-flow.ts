import { pollGraceMs, waitingForMs } from './health-limits.ts'
import type { AccessLost, DestinationSeen, FlowSeen } from './observations.ts'
import type { DestinationHealth, FlowHealth, Health } from './states.ts'

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
  const health = (
    state: Health['state'],
    cause: Health['cause'],
    since: Date | null,
    about: Health['about'] = {},
  ): Health => ({ state, cause, since, about })
  if (seen.isPaused) return health('attention', 'flow_paused', seen.pausedAt)
  if (seen.isLimited) return health('attention', 'flow_limited', null)
  if (seen.accessLost !== null) return { state: 'down', ...lostAccess(seen.accessLost) }
  const patienceMs = 2 * seen.pollIntervalMs + pollGraceMs
  if (seen.lastError !== null) {
    const isLong = now - (seen.lastSuccessAt?.getTime() ?? 0) > patienceMs
    const state = isLong ? 'down' : 'attention'
    return health(state, 'source_failing', seen.lastSuccessAt, { code: seen.lastError })
  }
  if (seen.isReadingPaused) return health('attention', 'too_many_waiting', null)
  if (seen.lastPollAt === null) return health('unknown', 'never_polled', null)
  const { dueSince } = seen
  if (dueSince !== null && !seen.isPolling && now - dueSince.getTime() > patienceMs) {
    return health('down', 'not_polled', dueSince)
  }
  return health('ok', null, null)
}

function lostAccess({ since, code, place }: AccessLost): Omit<Health, 'state'> {
  return { cause: 'access_lost', since, about: { place, ...(code !== null && { code }) } }
}

function deriveDestination(seen: DestinationSeen, now: Date): DestinationHealth {
  const { name, sending, pending, oldestWaitingAt, failed, accessLost } = seen
  const base = { name, nextTryAt: sending.nextAttemptAt, pending }
  if (accessLost !== null) return { ...base, state: 'down', ...lostAccess(accessLost) }
  const about = {
    pending,
    ...(sending.cause !== null && { code: sending.cause }),
    ...(sending.nextAttemptAt && { nextTryAt: sending.nextAttemptAt.toISOString() }),
  }
  if (sending.state === 'stopped') {
    const { since } = sending
    return { ...base, state: 'attention', cause: 'sending_stopped', since, about: { pending } }
  }
  if (sending.state === 'open' || sending.state === 'probing') {
    return { ...base, state: 'down', cause: 'destination_failing', since: sending.since, about }
  }
  if (sending.state === 'silent' && pending > 0) {
    return {
      ...base,
      state: 'attention',
      cause: 'destination_asked_to_wait',
      since: sending.since,
      about,
    }
  }
  if (oldestWaitingAt !== null && now.getTime() - oldestWaitingAt.getTime() > waitingForMs) {
    return { ...base, state: 'attention', cause: 'deliveries_late', since: oldestWaitingAt, about }
  }
  if (failed > 0) {
    return {
      ...base,
      state: 'attention',
      cause: 'deliveries_failed',
      since: null,
      about: { ...about, count: failed },
    }
  }
  return { ...base, state: 'ok', cause: null, since: null, about: {} }
}
