import { formatCents } from './amounts.ts'
import { paymentsOfOrder } from './order-payments.ts'
import { showPayment, showRefund } from './order-view.ts'
import type { Order, Payment } from './rows.ts'
import type { Context } from './sandbox-context.ts'

export type LedgerOrder = ReturnType<typeof showLedgerOrder>
export type SandboxLedger = ReturnType<typeof readLedger>

/** All orders of the provider, oldest first, and the sequence of effects. Amounts are decimal text with two places. */
export function readLedger(ctx: Context) {
  const orders = [...ctx.state.tables.orders.values()]
  const payments = orders.flatMap(paymentsOfOrder)
  const sum = (cents: (payment: Payment) => number) => {
    return formatCents(payments.reduce((total, payment) => total + cents(payment), 0))
  }
  return {
    orders: orders.map(showLedgerOrder),
    // Payments that buyers made, refunded or not.
    charges: payments.filter(({ paidCents }) => paidCents !== null).length,
    charged_total: sum(({ paidCents }) => paidCents ?? 0),
    refunds: orders.reduce((total, { refunds }) => total + refunds.length, 0),
    refunded_total: sum(({ refundedCents }) => refundedCents),
    webhooks_pending: ctx.state.tables.webhooks.size,
    seq: ctx.state.effects.at(-1)?.seq ?? 0,
    effects: [...ctx.state.effects],
  }
}

function showLedgerOrder(order: Order) {
  const { payment } = order
  return {
    id: order.id,
    external_reference: order.externalReference,
    user_id: order.userId,
    terminal_id: order.terminalId,
    amount: formatCents(payment.amountCents),
    status: order.status,
    status_detail: order.statusDetail,
    paid_amount: payment.paidCents === null ? null : formatCents(payment.paidCents),
    refunded_amount: formatCents(payment.refundedCents),
    payments: paymentsOfOrder(order).map((one) => showPayment(one, true)),
    refunds: order.refunds.map((refund) => ({
      ...showRefund(refund, true),
      created_date: refund.createdDate,
    })),
    idempotency_key: order.idempotencyKey,
    version: order.version,
    created_date: order.createdDate,
    last_updated_date: order.lastUpdatedDate,
  }
}
