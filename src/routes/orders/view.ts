import type { z } from 'zod'
import type { Language } from '../../domain/language.ts'
import { pointFromCents } from '../../domain/money.ts'
import { adviseCashier } from '../../payments/cashier.ts'
import { outcomeOf } from '../../payments/outcome.ts'
import type { OrderOperationRow } from '../../repositories/order-operations.ts'
import type { OrderRow } from '../../repositories/orders.ts'
import { iso, isoOrNull } from '../fields.ts'
import type { OrderResponse } from './schemas.ts'

export type OrderView = z.input<typeof OrderResponse>

/** An order on the wire. `operations` are the cancels and refunds of this order, for what only we know of a refund. */
export function viewOrder(
  order: OrderRow,
  operations: readonly OrderOperationRow[],
  language: Language,
  stale = false,
): OrderView {
  const advice = viewAdvice(order, language)
  return {
    order_id: order.id,
    external_reference: order.external_reference,
    caja_id: order.caja_id,
    sucursal_id: order.sucursal_id,
    amount: pointFromCents(order.amount_cents),
    description: order.description,
    ticket_number: order.ticket_number,
    status: order.status,
    status_detail: order.status_detail,
    payments: order.payments.filter(hasMethod).map((payment) => ({
      id: payment.id,
      amount: pointFromCents(payment.amountCents),
      paid_amount: payment.paidCents === null ? null : pointFromCents(payment.paidCents),
      status: payment.status,
      status_detail: payment.statusDetail,
      payment_method: {
        type: payment.methodType,
        installments: payment.installments,
        id: payment.methodId,
      },
    })),
    refunds: order.refunds.map((refund) => {
      const ours = operations.find((operation) => operation.mp_refund_id === refund.id)
      const isAll = refund.amountCents !== null && refund.amountCents >= order.paid_cents
      return {
        id: refund.id,
        transaction_id: refund.transactionId,
        reference_id: refund.referenceId,
        amount: refund.amountCents === null ? null : pointFromCents(refund.amountCents),
        status: refund.status,
        type: ours?.refund_type ?? (isAll ? 'total' : 'partial'),
        created_at: isoOrNull(ours?.created_at ?? null),
      }
    }),
    created_at: iso(order.created_at),
    last_updated_at: iso(order.last_updated_at),
    version: order.version,
    ...viewOutcome(order),
    cashier: advice,
    terminal_id: order.terminal_id,
    payment_method: order.payment_method,
    expires_at: iso(order.expires_at),
    mp_order_id: order.mp_order_id,
    paid_after_close: order.paid_after_close,
    client: order.client,
    stale,
  }
}

/** Until somebody has chosen how to pay there is nothing to tell. */
function hasMethod({ methodType }: OrderRow['payments'][number]): boolean {
  return methodType !== null
}

export function viewAdvice(order: OrderRow, language: Language) {
  const { message, action, retrySafe } = adviseCashier(order, language)
  return { message, action, retry_safe: retrySafe }
}

/** Whether money moved, and whether a new charge for the same sale is safe. */
export function viewOutcome(order: OrderRow) {
  return { outcome: outcomeOf(order), retry_safe: adviseCashier(order, 'en').retrySafe }
}
