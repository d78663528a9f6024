import { isOwn } from '../../domain/money.ts'
import { decisionOf, endedUnpaid, isClosedUnpaid, standingAt } from '../../domain/order-state.ts'
import { isRefundUnderWay, outcomeOf } from '../../errors/money-outcome.ts'
import { type ChargesQuery, readCharges } from '../../repositories/closings/closing-charges.ts'
import type { ClosingRow } from '../../repositories/closings/closing-queries.ts'
import { findChargedInstead } from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { listDismissals } from '../../repositories/unclaimed-payments/unclaimed-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import { type ClosingComparison, compareCharges, type OurCharge } from './compare-charges.ts'

/** The charges that a closing compares. */
export function queryOf(closing: ClosingRow): ChargesQuery {
  return {
    client: closing.client,
    place:
      closing.caja_id === null
        ? { column: 'sucursal_id', id: closing.sucursal_id }
        : { column: 'caja_id', id: closing.caja_id },
    from: closing.from_at,
    to: closing.to_at,
  }
}

/** The prefix of the names of a closing's `payment_reads`. */
export function readsOf({ id }: ClosingRow): string {
  return `closing ${id} `
}

/**
 * Compares a closing's span by the records of both sides at this moment. `isOfOneAccount`: all charges of the span were made at the
 * account of the closing.
 */
export async function compareClosing(
  { database: { db }, now }: Pick<PaymentDeps, 'database' | 'now'>,
  closing: ClosingRow,
): Promise<ClosingComparison & { isOfOneAccount: boolean }> {
  const { payments, orders } = await readCharges(db, queryOf(closing))
  const late = orders.filter((order) => decisionOf(order) === 'paid_late')
  const instead = await findChargedInstead(
    db,
    late.map(({ id }) => id),
  )
  const isNow = (at: Date) => at >= closing.from_at && at < closing.to_at
  const made = [
    ...orders.filter((order) => isNow(order.created_at) && hasMoney(order)),
    ...payments.filter(({ sold_at, status }) => isNow(sold_at) && !endedUnpaid(status)),
  ]
  const isOfOneAccount = made.every(({ mp_user_id }) => mp_user_id === closing.mp_user_id)
  const comparison = await compareCharges({
    theirs: payments,
    ours: orders.map((order) => ({
      ...ourChargeOf(order),
      isInDoubt: standingAt(order, now()) === 'in_doubt',
      insteadOrderId: instead.get(order.id)?.id ?? null,
    })),
    span: { from: closing.from_at, to: closing.to_at },
    cajaId: closing.caja_id,
    sucursalId: closing.sucursal_id,
    declared: closing.declared,
    dismissed: await listDismissals(
      db,
      closing.client,
      payments.flatMap(({ order_id, payment_id }) => (order_id === null ? [payment_id] : [])),
    ),
  })
  return { ...comparison, isOfOneAccount }
}

/** Whether money came in by an order, or still may. */
function hasMoney({ status, paid_after_close }: OrderRow): boolean {
  return !isClosedUnpaid(status) || paid_after_close
}

function ourChargeOf(order: OrderRow): Omit<OurCharge, 'isInDoubt' | 'insteadOrderId'> {
  const decision = decisionOf(order)
  const own = order.payments.filter(isOwn)
  const paid = own.find(({ paidCents }) => paidCents !== null) ?? own.at(-1)
  return {
    orderId: order.id,
    reference: order.external_reference,
    cajaId: order.caja_id,
    sucursalId: order.sucursal_id,
    status: order.status,
    outcome: outcomeOf(order),
    settledAs: order.settled_as,
    hasConflict: order.conflict !== null,
    isRefundOpen: isRefundUnderWay(order),
    amountCents: order.amount_cents,
    paidCents: order.paid_cents,
    refundedCents: order.refunded_cents,
    method: paid?.methodType ?? null,
    installments: paid?.installments ?? null,
    paymentIds: own.flatMap(({ referenceId }) => referenceId ?? []),
    // A further payment has a line of its own.
    undecided: decision === 'paid_twice' ? null : decision,
    createdAt: order.created_at,
  }
}
