import type { Actor, PaymentDeps } from '../deps.ts'
import { recordFailure } from './activity.ts'

const perMinute = 10
const minuteMs = 60_000

/**
 * Writes tries to sign in with a token that is not valid into the audit log: as many as people make. Whoever tries in a flood
 * must not fill the log, so beyond ten a minute they are counted, and told with the next one. Never fails: the refusal stands.
 */
export function createRefusedSignIns(
  deps: Pick<PaymentDeps, 'database' | 'sealer' | 'now' | 'log'>,
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
      .catch((error) => deps.log.error({ err: error }, 'a refused sign-in could not be audited'))
  }
}
