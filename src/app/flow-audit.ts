import { isIP } from 'node:net'
import type { Trx } from '../db/database.ts'
import { nameKey } from '../domain/permissions.ts'
import type { FlowAction } from '../flows/poll/pauses-and-limits.ts'
import type { AccessAudit } from '../flows/routes/control-authentication.ts'
import { type AuditDeps, recordSuccess } from '../payments/audit/activity.ts'
import { createRefusedSignIns } from '../payments/audit/refused-sign-ins.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { serviceActor } from '../payments/request-context.ts'
import { findPersonByName } from '../repositories/people/people-queries.ts'

/** Writes the operators' actions on flows to the audit log of the payment side: `flow.paused`, `flow.limit_removed` and so on. */
export function createFlowAudit(payments: AuditDeps) {
  return async (trx: Trx, { at, flow, action, actor, detail }: FlowAction): Promise<void> => {
    const isAddress = isIP(actor) !== 0
    const person = isAddress ? undefined : await findPersonByName(trx, nameKey(actor))
    return recordSuccess(payments, trx, {
      client: null,
      actor: { ...serviceActor(at), ipAddress: isAddress ? actor : null, person },
      action: `flow.${action.replaceAll(' ', '_')}`,
      resourceId: flow,
      metadata: {
        ...(detail !== null && { detail }),
        ...(!isAddress && !person && { by: actor }),
      },
    })
  }
}

/** As long as a session of the dashboard. */
const acceptedForMs = 12 * 3_600_000
/** More addresses than operators have. The oldest are forgotten, and recorded again. */
const addressesAtMost = 1_000

/**
 * Records who uses the control API, which has a token and no sessions: at the first accepted request of an address, and
 * again after twelve hours. Never fails.
 */
export function createAccessAudit(
  deps: Pick<PaymentDeps, 'database' | 'auditKey' | 'now' | 'log'>,
): AccessAudit {
  const refuse = createRefusedSignIns(deps, 'control.refused')
  const accepted = new Map<string, number>()
  const actor = (address: string) => ({ ...serviceActor(deps.now()), ipAddress: address })
  return {
    refused: (address) => refuse(actor(address)),
    async accepted(address) {
      const now = deps.now().getTime()
      if (Math.abs(now - (accepted.get(address) ?? Number.NEGATIVE_INFINITY)) < acceptedForMs)
        return
      accepted.delete(address)
      accepted.set(address, now)
      const [oldest] = accepted.keys()
      if (accepted.size > addressesAtMost && oldest !== undefined) accepted.delete(oldest)
      const entry = {
        client: null,
        actor: actor(address),
        action: 'control.entered',
        resourceId: null,
      }
      await deps.database
        .transaction((trx) => recordSuccess(deps, trx, entry))
        .catch((error) => {
          accepted.delete(address)
          deps.log.error({ err: error }, 'audit entry of a control API request not written')
        })
    },
  }
}
