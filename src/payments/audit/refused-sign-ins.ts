import type { Actor, PaymentDeps } from '../deps.ts'
import { recordFailure } from './activity.ts'

const perMinute = 10
const minuteMs = 60_000

/**
 * Writes failed sign-ins (invalid token) into the audit log. A flood of attempts must not fill the log: beyond ten a minute they
 * are only counted, and the next entry has the count. Never fails, since the sign-in is refused anyway.
 */
export function createRefusedSignIns(
  deps: Pick<PaymentDeps, 'database' | 'auditKey' | 'now' | 'log'>,
  action: 'session.refused' | 'control.refused' = 'session.refused',
): (actor: Actor) => Promise<void> {
  let since = Number.NEGATIVE_INFINITY
  let written = 0
  let unwritten = 0
  return async (actor) => {
    const now = deps.now().getTime()
    // Also when the clock was set back.
    if (Math.abs(now - since) >= minuteMs) {
      since = now
      written = 0
    }
    if (written >= perMinute) {
      unwritten += 1
      return
    }
    written += 1
    const before = unwritten
    unwritten = 0
    const entry = {
      client: null,
      actor,
      action,
      resourceId: null,
      metadata: before > 0 ? { unrecorded_before: before } : {},
    }
    await deps.database
      .transaction((trx) => recordFailure(deps, trx, entry, 'UNAUTHORIZED: The token is not valid'))
      .catch((error) =>
        deps.log.error({ err: error }, 'audit entry of a refused sign-in not written'),
      )
  }
}
