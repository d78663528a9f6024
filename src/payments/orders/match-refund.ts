import type { OrderEvidence, ProviderRefund } from '../../domain/order.ts'
import { isFailedRefund, isPendingRefund, isResultUnknown } from '../../domain/order-state.ts'
import type { OrderOperationRow } from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'

/** A person's decision on a refund that the provider contradicts. */
type Contradiction = { operation: OrderOperationRow; why: string }

/**
 * What contradicts the persons' decisions on refunds of this order. Either a refund appears that may be the one decided as not
 * made, or one decided as made is missing, failed or has another amount. `endsRefund` is the provider's id of a refund that ends
 * with this evidence; it contradicts nothing.
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
    // A refund that is being sent now has no id yet.
    const isOpen = ({ kind, state }: OrderOperationRow) =>
      kind === 'refund' && isResultUnknown(state)
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

export type RefundMatch =
  | { kind: 'ours'; refund: ProviderRefund }
  /** The provider shows no refund that could be it. */
  | { kind: 'none' }
  /** One or more refunds may be it, and nothing proves which. `named` is the id that the provider itself gave it. */
  | { kind: 'unclear'; named: string | null; ids: string[] }

/**
 * Which of the refunds that the provider shows is the one of an operation. Its id decides, or the answer to the operation's own
 * key (`isAnswer`). The amount alone proves it only when exactly one refund has it, was not there before the intent, and belongs
 * to no other operation (`operations`).
 */
export function matchRefund(
  operation: OrderOperationRow,
  shown: readonly ProviderRefund[],
  operations: readonly OrderOperationRow[],
  { isAnswer = false } = {},
): RefundMatch {
  const others = operations.filter(({ id }) => id !== operation.id)
  const taken = new Set(others.map(({ mp_refund_id }) => mp_refund_id))
  const free = shown.filter(({ id }) => !taken.has(id))
  const before = operation.refunds_before
  const fresh = free.filter(({ id }) => !before?.includes(id))
  const answered = fresh.length === 1 || shown.length > 1 ? fresh : free
  const only = isAnswer && answered.length === 1 ? answered[0] : undefined
  const named = free.find(({ id }) => id === operation.mp_refund_id) ?? only
  if (named) {
    if (fits(operation, named)) return { kind: 'ours', refund: named }
    return { kind: 'unclear', named: named.id, ids: [named.id] }
  }
  const known = operation.mp_refund_id
  if (known !== null) return { kind: 'unclear', named: known, ids: [known] }
  const possible = fresh.filter(
    (refund) => !isFailedRefund(refund.status) && fits(operation, refund),
  )
  const [first] = possible
  if (!first && !(isAnswer && shown.length > 0)) return { kind: 'none' }
  const isProven =
    possible.length === 1 && before !== null && first?.amountCents === operation.amount_cents
  if (first && isProven) return { kind: 'ours', refund: first }
  return { kind: 'unclear', named: null, ids: (first ? possible : shown).map(({ id }) => id) }
}

/** The refunds that a person must choose from, as far as the provider has shown them. */
export function possibleRefunds(
  match: RefundMatch,
  shown: readonly ProviderRefund[],
): ProviderRefund[] {
  if (match.kind !== 'unclear') return []
  return match.ids.map(
    (id) =>
      shown.find((refund) => refund.id === id) ?? {
        id,
        transactionId: null,
        referenceId: null,
        amountCents: null,
        status: 'unknown',
      },
  )
}

/** The text for the person who must decide how the refund ended. */
export function whyUnclear(match: RefundMatch): string {
  if (match.kind !== 'unclear') return 'the provider contradicts what is known of this order'
  const ids = match.ids.slice(0, 3).join(', ')
  if (match.named !== null) return `refund ${ids} of the provider does not fit what was asked for`
  return match.ids.length === 1
    ? `refund ${ids} of the provider may be this one, and nothing proves it`
    : `${match.ids.length} refunds of the provider may be this one (${ids})`
}

/** Whether a refund of this amount can be the operation's. A total refund may return less than was expected here. */
function fits(operation: OrderOperationRow, { amountCents }: ProviderRefund): boolean {
  const asked = operation.amount_cents as number
  if (amountCents === null || amountCents === asked) return true
  return operation.refund_type === 'total' && amountCents > 0 && amountCents < asked
}
