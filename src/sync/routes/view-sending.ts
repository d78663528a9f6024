import type { Sending } from '../flow-service.ts'

export function viewSending({ state, cause, since, nextAttemptAt }: Sending) {
  return {
    state,
    cause,
    since: since?.toISOString() ?? null,
    next_attempt_at: nextAttemptAt?.toISOString() ?? null,
  }
}
