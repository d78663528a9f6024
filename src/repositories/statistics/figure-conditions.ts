import { sql } from 'kysely'

/** Conditions that several figures share. Columns are those of the counted table. */

/** Not ended at the provider, and not settled by a person. */
export const isOpenOrder = sql<boolean>`(status in ('created', 'at_terminal', 'action_required') and settled_as is null)`

/** The provider may or may not have the charge. */
export const isUnconfirmedCharge = sql<boolean>`(creation in ('intent', 'unknown'))`

/** The money came in, whether or not it was refunded later. */
export const wasPaid = sql<boolean>`(status in ('processed', 'partially_refunded', 'refunded') or paid_after_close)`

/** It ended without money, after a payment was tried. */
export const isDeclined = sql<boolean>`(status = 'failed' and not paid_after_close and jsonb_array_length(payments) > 0)`

/**
 * Paid late or in part, not refunded in full, and no person has decided: `paid_late` and `paid_less` of `decisionOf`. The first
 * line is the condition of the index.
 */
export const isUndecidedMoney = sql<boolean>`((paid_after_close or (paid_cents > 0 and paid_cents < amount_cents))
  and settled_as is distinct from 'paid' and refunded_cents < paid_cents
  and (paid_after_close or status in ('processed', 'partially_refunded')))`

/** A person settled it as paid and it ended without a payment: `settled_unpaid` of `decisionOf`. */
export const isSettledUnpaid = sql<boolean>`(settled_as = 'paid' and status in ('canceled', 'failed', 'expired')
  and not paid_after_close)`

/** Unknown whether the customer has paid, and not settled: `chargeDoubtOf` for charges that were begun until `before`. */
export const isChargeInDoubt = (before: Date) =>
  sql<boolean>`(settled_as is null and (${isUnconfirmedCharge} and created_at <= ${before}::timestamptz or conflict is not null))`

/** A person must decide how a refund of the order ended. */
export const isRefundInDoubt = sql<boolean>`(refund_unclear is not null or refund_contradicted is not null)`

/** The provider has not decided the charge-back. */
export const isUndecidedChargeback = sql<boolean>`(state in ('open', 'unknown'))`

/** No person has decided about the unclaimed payment. */
export const isOpenUnclaimed = sql<boolean>`(state = 'open')`
