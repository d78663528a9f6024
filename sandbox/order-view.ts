import { formatCents } from './amounts.ts'
import { paymentsOfOrder } from './order-payments.ts'
import type { Order, Payment, Refund } from './rows.ts'
import { applicationOf, type Context } from './sandbox-context.ts'
import { siteOf } from './sites.ts'

const cards = new Set(['credit_card', 'debit_card', 'prepaid_card', 'voucher_card'])
const cardNumbers: Record<string, { first_digits: string; last_digits: string }> = {
  visa: { first_digits: '450995', last_digits: '3704' },
  master: { first_digits: '503175', last_digits: '0604' },
  amex: { first_digits: '371180', last_digits: '8431' },
  debvisa: { first_digits: '400276', last_digits: '0008' },
  debmaster: { first_digits: '528733', last_digits: '0002' },
}

/** The whole order as POST and GET /v1/orders answer it (provider facts 2.1, 2.2). */
export function showOrder(ctx: Context, order: Order): Record<string, unknown> {
  const method = order.paymentMethodConfig
  const { platformId, integratorId, sponsorId } = order.integrationData
  const site = siteOf(ctx, order.userId)
  return {
    id: order.id,
    type: 'point',
    user_id: String(order.userId),
    external_reference: order.externalReference,
    ...(order.description !== null && { description: order.description }),
    ...(order.expirationTime !== null && { expiration_time: order.expirationTime }),
    processing_mode: 'automatic',
    country_code: site.code,
    currency: site.currency,
    integration_data: {
      application_id: applicationOf(ctx).clientId,
      ...(platformId !== null && { platform_id: platformId }),
      ...(integratorId !== null && { integrator_id: integratorId }),
      ...(sponsorId !== null && { sponsor: { id: sponsorId } }),
    },
    status: order.status,
    status_detail: order.statusDetail,
    created_date: order.createdDate,
    last_updated_date: order.lastUpdatedDate,
    config: {
      point: {
        terminal_id: order.terminalId,
        print_on_terminal: order.printOnTerminal,
        ...(order.ticketNumber !== null && { ticket_number: order.ticketNumber }),
      },
      ...(method !== null && {
        payment_method: {
          ...(method.defaultType !== null && { default_type: method.defaultType }),
          // The provider takes an integer and answers a text (provider facts 2.1).
          ...(method.defaultInstallments !== null && {
            default_installments: String(method.defaultInstallments),
          }),
          ...(method.installmentsCost !== null && { installments_cost: method.installmentsCost }),
        },
      }),
    },
    ...(order.taxes.length > 0 && {
      taxes: order.taxes.map(({ payerCondition }) => ({ payer_condition: payerCondition })),
    }),
    transactions: {
      payments: paymentsOfOrder(order)
        .filter(({ isHidden }) => !isHidden)
        .map((payment) => showPayment(payment, site.hasCents)),
      ...(order.refunds.length > 0 && {
        refunds: order.refunds.map((refund) => showRefund(refund, site.hasCents)),
      }),
      ...(order.status === 'charged_back' && { chargebacks: showChargebacksOf(ctx, order) }),
    },
    ...order.shown,
  }
}

/** The charge-backs of an order as the order and its webhook show them: without an amount. */
export function showChargebacksOf(ctx: Context, order: Order): object[] {
  return [...ctx.state.tables.chargebacks.values()]
    .filter(({ orderId }) => orderId === order.id)
    .map(({ id, orderCaseId, coverageApplied, paymentId }) => ({
      id: orderCaseId,
      transaction_id: paymentsOfOrder(order).find(
        ({ referenceId }) => referenceId === String(paymentId),
      )?.id,
      case_id: id,
      status: chargebackDetail(coverageApplied),
    }))
}

/** The detail of a charged-back payment: `settled` is lost, `reimbursed` is won. */
export function chargebackDetail(coverageApplied: boolean | null): string {
  if (coverageApplied === null) return 'in_process'
  return coverageApplied ? 'reimbursed' : 'settled'
}

export function showPayment(payment: Payment, hasCents: boolean): Record<string, unknown> {
  const { method } = payment
  return {
    id: payment.id,
    amount: formatCents(payment.amountCents, hasCents),
    ...(payment.paidCents !== null && { paid_amount: formatCents(payment.paidCents, hasCents) }),
    ...(payment.tipCents > 0 && { tip_amount: formatCents(payment.tipCents, hasCents) }),
    ...(payment.refundedCents > 0 && {
      refunded_amount: formatCents(payment.refundedCents, hasCents),
    }),
    ...(payment.referenceId !== null && { reference_id: payment.referenceId }),
    status: payment.status,
    ...(payment.statusDetail !== null && { status_detail: payment.statusDetail }),
    ...(method !== null && { payment_method: showMethod(method) }),
    ...(method !== null &&
      cards.has(method.type) && { card: cardNumbers[method.id] ?? cardNumbers.visa }),
    ...(method?.type === 'qr' && {
      provider: method.id === 'account_money' ? 'mercadopago' : 'external',
    }),
  }
}

export function showMethod(method: NonNullable<Payment['method']>): object {
  return { type: method.type, installments: method.installments, id: method.id }
}

export function showRefund(refund: Refund, hasCents: boolean) {
  return {
    id: refund.id,
    transaction_id: refund.transactionId,
    reference_id: refund.referenceId,
    amount: formatCents(refund.amountCents, hasCents),
    status: refund.status,
  }
}

/** The short form of the 202 to a cancel request at the terminal (provider facts 2.3). */
export function showCancelRequested(order: Order): object {
  const { id, status, statusDetail } = order.payment
  return {
    id: order.id,
    status: order.status,
    status_detail: order.statusDetail,
    transactions: { payments: [{ id, status, status_detail: statusDetail }] },
  }
}

/** The short form of a refund's answer: only the refunds made by that call (provider facts 2.4). */
export function showRefundAnswer(ctx: Context, order: Order, refundIds: string[]): object {
  const { hasCents } = siteOf(ctx, order.userId)
  const made = order.refunds.filter(({ id }) => refundIds.includes(id))
  return {
    id: order.id,
    status: order.status,
    status_detail: order.statusDetail,
    transactions: { refunds: made.map((refund) => showRefund(refund, hasCents)) },
  }
}
