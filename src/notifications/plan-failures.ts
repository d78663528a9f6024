import type { AlertRow } from '../repositories/notifications/failure-queries.ts'
import type { Flow } from '../sync/definition/schema.ts'

export type Group = Flow['alerts']['group']

type State = Pick<AlertRow, 'pending' | 'first_pending_at' | 'firing' | 'last_sent_at' | 'message'>

/** What to do about a row now. `forget`: all is well, and nobody wants to know. */
export type Step = 'nothing' | 'failed' | 'reminder' | 'recovered' | 'forget'

/**
 * The next message about failed deliveries. A failure waits `wait` for others to join it; after any message there is
 * silence for `interval`, whatever happens, so that a receiver which comes and goes is not a stream of messages.
 */
export function planFailures(
  row: State,
  facts: { now: Date; isUnresolved: boolean; isPaused: boolean },
  group: Group,
): Step {
  if (row.message !== null) return 'nothing'
  const now = facts.now.getTime()
  const isSilent = isWithin(row.last_sent_at, group.intervalMs, now)
  if (row.pending > 0) {
    const isGathering = isWithin(row.first_pending_at, group.waitMs, now)
    return isSilent || isGathering ? 'nothing' : 'failed'
  }
  if (!row.firing) return 'nothing'
  if (facts.isUnresolved) {
    // Somebody who paused the flow knows.
    return facts.isPaused || isWithin(row.last_sent_at, group.repeatMs, now)
      ? 'nothing'
      : 'reminder'
  }
  if (!group.resolved) return 'forget'
  return isSilent ? 'nothing' : 'recovered'
}

export type Verdict = { state: 'bad'; value: number | null } | { state: 'good' | 'unknown' }

/** The next message about a condition of the flow: one when it begins, one when it ends. */
export function planCondition(
  row: State,
  facts: { now: Date; verdict: Verdict },
  group: Group,
): 'nothing' | 'degraded' | 'restored' | 'forget' {
  const { state } = facts.verdict
  if (row.message !== null || state === 'unknown' || row.firing === (state === 'bad')) {
    return 'nothing'
  }
  if (state === 'good' && !group.resolved) return 'forget'
  if (isWithin(row.last_sent_at, group.intervalMs, facts.now.getTime())) return 'nothing'
  return state === 'bad' ? 'degraded' : 'restored'
}

/** The next message about a flow that is held, since `heldSince`: one when that begins, one when it ends. */
export function planHeld(
  row: State & Pick<AlertRow, 'firing_since'>,
  { now, heldSince }: { now: Date; heldSince: Date | null },
  group: Group,
): 'nothing' | 'held' | 'released' | 'forget' {
  // What it is held for now may be another thing than what was told.
  const isTold = row.firing && (heldSince === null || heldSince <= (row.firing_since ?? now))
  if (row.message !== null || isTold === (heldSince !== null)) return 'nothing'
  if (heldSince === null && !group.resolved) return 'forget'
  if (isWithin(row.last_sent_at, group.intervalMs, now.getTime())) return 'nothing'
  return heldSince === null ? 'released' : 'held'
}

function isWithin(since: Date | null, ms: number, now: number): boolean {
  return since !== null && now < since.getTime() + ms
}
