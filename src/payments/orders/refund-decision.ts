import type { OrderEvidence } from '../../domain/order.ts'
import { isFailedRefund, isPendingRefund } from '../../domain/provider-states.ts'
import type { OrderOperationRow } from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { fits } from './match-refund.ts'

/** A person's decision on a refund, and what the provider shows against it. */
export type Contradiction = { operation: OrderOperationRow; why: string }

/**
 * What contradicts the decisions of persons on refunds of this order: a refund that may be the one that was not made, or one
 * that was made and is missing, failed or of another amount. `endsRefund` is the provider's id of a refund that ends with this
 * evidence, and so is no other one.
 */
export function contradictionOf(
  order: OrderRow,
  evidence: OrderEvidence,
  operations: readonly OrderOperationRow[],
  endsRefund: string | null = null,
): Contradiction | undefined {
  for (const operation of operations) {
    const why =
      operation.settled_as === 'not_refunded'
        ? againstNotMade(order, evidence, operation, operations, endsRefund)
        : operation.settled_as === 'refunded'
          ? againstMade(order, evidence, operation)
          : undefined
    if (why !== undefined) return { operation, why }
  }
  return undefined
}

function againstNotMade(
  order: OrderRow,
  evidence: OrderEvidence,
  operation: OrderOperationRow,
  operations: readonly OrderOperationRow[],
  endsRefund: string | null,
): string | undefined {
  if (operation.state === 'done') {
    return `the provider made refund ${operation.mp_refund_id}, and a person said that it was not made`
  }
  const others = operations.filter(({ id }) => id !== operation.id)
  const taken = new Set([endsRefund, ...others.map(({ mp_refund_id }) => mp_refund_id)])
  const known = new Map(operation.possible_refunds?.map(({ id, status }) => [id, status]))
  const listed = new Set(evidence.refunds.map(({ id }) => id))
  const all = [...evidence.refunds, ...order.refunds.filter(({ id }) => !listed.has(id))]
  const found = all.find((refund) => {
    const { id, status } = refund
    if (taken.has(id) || operation.refunds_before?.includes(id) || isFailedRefund(status))
      return false
    // One that is being sent now has no id yet.
    const isOpen = ({ kind, state }: OrderOperationRow) =>
      kind === 'refund' && (state === 'intent' || state === 'unknown')
    if (others.some((other) => isOpen(other) && fits(other, refund))) return false
    const before = known.get(id)
    if (before !== undefined) return isPendingRefund(before) && !isPendingRefund(status)
    return id === operation.mp_refund_id || fits(operation, refund)
  })
  return found && `refund ${found.id} may be the one that a person said was not made`
}

function againstMade(
  order: OrderRow,
  evidence: OrderEvidence,
  { state, mp_refund_id: id, amount_cents }: OrderOperationRow,
): string | undefined {
  if (id === null) return undefined
  const shown = evidence.refunds.find((refund) => refund.id === id)
  if (state === 'refused' || (shown && isFailedRefund(shown.status))) {
    return `refund ${id} failed at the provider, and a person said that it was made`
  }
  if (shown && shown.amountCents !== null && shown.amountCents !== amount_cents) {
    return `refund ${id} has another amount at the provider than a person said`
  }
  const isMissing = !shown && evidence.refundedCents < order.refunded_cents
  return isMissing
    ? `the provider does not list refund ${id}, and a person said that it was made`
    : undefined
}
