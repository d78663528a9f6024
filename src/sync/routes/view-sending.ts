import type { Sending } from '../flow-service.ts'

export function viewSending({ state, cause, since, nextAttemptAt, perSecond }: Sending) {
  return {
    state,
    cause,
    since: since?.toISOString() ?? null,
    next_attempt_at: nextAttemptAt?.toISOString() ?? null,
    per_second: perSecond,
  }
}
