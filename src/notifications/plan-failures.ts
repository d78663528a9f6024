import type { FailureGroupRow } from '../repositories/notifications/failure-queries.ts'

/** How messages about failed deliveries are grouped. */
export type Group = {
  /** Before the first message. */
  waitMs: number
  /** Between messages on new failures. */
  intervalMs: number
  /** Between reminders while it lasts. */
  repeatMs: number
  /** One message when all deliveries have arrived. */
  resolved: boolean
}

type State = Pick<
  FailureGroupRow,
  'pending' | 'first_pending_at' | 'firing' | 'last_sent_at' | 'message_id'
>

/** The next step for a row. `forget`: all deliveries arrived, and no message is wanted. */
export type Step = 'nothing' | 'failed' | 'reminder' | 'recovered' | 'forget'

/**
 * The next message about failed deliveries. A failure waits `wait` for others. After any message none follows for
 * `interval`, so that an unstable receiver does not cause a stream of messages.
 */
export function planFailures(
  row: State,
  facts: { now: Date; isUnresolved: boolean; isPaused: boolean },
  group: Group,
): Step {
  // A message is being sent.
  if (row.message_id !== null) return 'nothing'
  const now = facts.now.getTime()
  const isSilent = isWithin(row.last_sent_at, group.intervalMs, now)
  if (row.pending > 0) {
    const isGrouping = isWithin(row.first_pending_at, group.waitMs, now)
    return isSilent || isGrouping ? 'nothing' : 'failed'
  }
  if (!row.firing) return 'nothing'
  if (facts.isUnresolved) {
    // The operator who paused the flow needs no reminder.
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
