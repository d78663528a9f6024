import type { Db } from '../../db/database.ts'
import { isOwn } from '../../domain/money.ts'
import { decisionOf } from '../../domain/order-state.ts'
import { isRefundUnderWay, outcomeOf } from '../../errors/money-outcome.ts'
import { type ChargesQuery, readCharges } from '../../repositories/closings/closing-charges.ts'
import type { ClosingRow } from '../../repositories/closings/closing-queries.ts'
import { findChargedInstead } from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { type Comparison, compareCharges, type OurCharge } from './compare-charges.ts'

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

/** Compares a closing's span by the records of both sides at this moment. */
export async function compareClosing(db: Db, closing: ClosingRow): Promise<Comparison> {
  const { payments, orders } = await readCharges(db, queryOf(closing))
  const late = orders.filter((order) => decisionOf(order) === 'paid_late')
  const instead = await findChargedInstead(
    db,
    late.map(({ id }) => id),
  )
  return compareCharges({
    theirs: payments,
    ours: orders.map((order) => ourChargeOf(order, instead.get(order.id)?.id ?? null)),
    span: { from: closing.from_at, to: closing.to_at },
    cajaId: closing.caja_id,
    sucursalId: closing.sucursal_id,
    declared: closing.declared,
  })
}

function ourChargeOf(order: OrderRow, insteadOrderId: string | null): OurCharge {
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
    insteadOrderId,
    createdAt: order.created_at,
  }
}
