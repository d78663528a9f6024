import { sql } from 'kysely'

/** The conditions that several figures count by, each in one place; every column is one of the table that is counted. */

/** An order that waits for its end: not ended at the provider, and nobody has said how it ended. */
export const isOpenOrder = sql<boolean>`(status in ('created', 'at_terminal', 'action_required') and settled_as is null)`

/** A charge of which nobody knows whether the provider has it. */
export const isUnconfirmedCharge = sql<boolean>`(creation in ('intent', 'unknown'))`

/** An order whose money came in, be it given back later or not. */
export const wasPaid = sql<boolean>`(status in ('processed', 'partially_refunded', 'refunded') or paid_after_close)`

/** Money of a charge or a part of it that nobody has decided about and that is not all given back. */
export const isUndecidedMoney = sql<boolean>`(settled_as is distinct from 'paid' and refunded_cents < paid_cents)`

/** An order of which nobody knows whether a refund was made. */
export const isRefundInDoubt = sql<boolean>`(refund_unclear is not null or refund_contradicted is not null)`

/** A charge-back that the provider has not decided. */
export const isUndecidedChargeback = sql<boolean>`(state in ('open', 'unknown'))`

/** An unclaimed payment that nobody has done anything about. */
export const isOpenUnclaimed = sql<boolean>`(state = 'open')`
