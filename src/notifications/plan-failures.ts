import type { FailureGroupRow } from '../repositories/notifications/failure-queries.ts'

/** How messages about failed deliveries are grouped. */
export type Group = {
  /** Before the first message. */
  waitMs: number
  /** Between messages on new failures. */
  intervalMs: number
  /** Between reminders while it lasts. */
  repeatMs: number
  /** One message when all is well again. */
  resolved: boolean
}

type State = Pick<
  FailureGroupRow,
  'pending' | 'first_pending_at' | 'firing' | 'last_sent_at' | 'message_id'
>

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
  // A message is on its way.
  if (row.message_id !== null) return 'nothing'
  const now = facts.now.getTime()
  const isSilent = isWithin(row.last_sent_at, group.intervalMs, now)
  if (row.pending > 0) {
    const isGrouping = isWithin(row.first_pending_at, group.waitMs, now)
    return isSilent || isGrouping ? 'nothing' : 'failed'
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

function isWithin(since: Date | null, ms: number, now: number): boolean {
  return since !== null && now < since.getTime() + ms
}
