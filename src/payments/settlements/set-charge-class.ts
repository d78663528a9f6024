import type { ChargeClass } from '../../domain/net-amount.ts'
import {
  type ChargeClassRow,
  putChargeClass,
} from '../../repositories/settlements/net-amount-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { applyChargeClasses } from './update-net-amounts.ts'

/** How long the request waits for every net to follow a new rule; the rest is computed later. */
const waitMs = 5_000

/** Sets the class of the provider's charges of a name, for every client, and computes the nets again. */
export async function setChargeClass(
  deps: PaymentDeps,
  rule: { name: string; entity: string; class: ChargeClass },
  actor: Actor,
): Promise<{ rule: ChargeClassRow; isApplied: boolean }> {
  const entry = {
    client: null,
    actor,
    action: 'charge_class.set',
    resourceId: rule.name,
    metadata: { entity: rule.entity || null, class: rule.class },
  }
  const row = await auditFailure(deps, entry, () =>
    deps.database.transaction(async (trx) => {
      const put = await putChargeClass(trx, rule, deps.now())
      await recordSuccess(deps, trx, entry)
      return put
    }),
  )
  return { rule: row, isApplied: await applyChargeClasses(deps, deps.stopwatch() + waitMs) }
}
