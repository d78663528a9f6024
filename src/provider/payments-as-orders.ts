import { z } from 'zod'
import type { OrderEvidence, OrderStatus } from '../domain/order.ts'
import { paymentWords, refundWords } from '../domain/order-state.ts'
import { type ProviderClient, segment } from './client.ts'
import { orderIdOfPayment } from './order-payloads.ts'
import { MpId, MpNote } from './payload-fields.ts'
import { MpMoney } from './payments-api.ts'
import type { CallOptions, Provider, ProviderPayment, RefundAnswer } from './provider-types.ts'

/** The answer to a refund of a payment, from the provider's published description; not tried live. */
const MpPaymentRefund = z.object({
  id: MpId,
  amount: MpMoney,
  status: MpNote,
  currency_id: MpNote,
})

/** A payment without an order as evidence for an order. */
export function evidenceFromPayment(payment: ProviderPayment): OrderEvidence {
  const paidCents = payment.amount.cents ?? 0
  const isGivenBack = payment.status === 'refunded' && payment.refunded.cents === null
  const refundedCents = isGivenBack ? paidCents : (payment.refunded.cents ?? 0)
  return {
    mpOrderId: orderIdOfPayment(payment.paymentId),
    mpUserId: null,
    externalReference: null,
    terminalId: null,
    status: statusOf(payment.status, refundedCents, paidCents),
    providerStatus: payment.status,
    statusDetail: detailOf(payment),
    amountCents: payment.amount.cents,
    currency: payment.currency,
    paidCents,
    refundedCents,
    payments: [
      {
        id: payment.paymentId,
        amountCents: paidCents,
        // The buyer may pay interest to the card issuer on top of it.
        paidCents: payment.paid.cents ?? paidCents,
        ...(payment.paid.cents !== null &&
          payment.paid.cents !== paidCents && { receivedCents: paidCents }),
        refundedCents,
        status: payment.status,
        statusDetail: payment.statusDetail,
        methodType: payment.methodType,
        methodId: payment.methodId,
        installments: payment.installments,
        referenceId: payment.paymentId,
      },
    ],
    refunds: payment.refunds.flatMap(({ id, status, amount }) =>
      id === null ? [] : refundFrom(payment.paymentId, id, status, amount.cents),
    ),
    updatedAt: payment.updatedAt?.toISOString() ?? null,
  }
}

/** For a disputed payment whose money is with the shop, such as `charged_back`, the status is more exact than the detail. */
function detailOf({ status, statusDetail }: ProviderPayment): string | null {
  const word = paymentWords.get(status)
  return word?.money === 'in' && !word.isFinal ? status : statusDetail
}

/** Null for a status that says nothing about the money: the order does not change. */
function statusOf(word: string, refundedCents: number, paidCents: number): OrderStatus | null {
  const money = paymentWords.get(word)?.money
  if (money === 'out') return 'refunded'
  if (money !== 'in') return null
  return refundedCents > 0 && refundedCents < paidCents ? 'partially_refunded' : 'processed'
}

/** A finished refund is `approved` at a payment, `processed` at an order. */
function refundFrom(paymentId: string, id: string, status: string | null, cents: number | null) {
  const isDone = status === null || refundWords.get(status) === 'done'
  const word = isDone ? 'processed' : status
  return { id, transactionId: paymentId, referenceId: id, amountCents: cents, status: word }
}

/** Refunds a payment without an order, under the key of the intent. */
export async function refundPayment(
  client: ProviderClient,
  token: string,
  paymentId: string,
  key: string,
  partial: Parameters<Provider['orders']['refund']>[3],
  options: CallOptions | undefined,
): Promise<RefundAnswer> {
  const made = await client.call({
    operation: 'order.refund',
    method: 'POST',
    path: `/v1/payments/${segment(paymentId)}/refunds`,
    token,
    key,
    ...(partial !== null && { body: { amount: partial.amountCents / 100 } }),
    schema: MpPaymentRefund,
    options,
  })
  return {
    mpOrderId: orderIdOfPayment(paymentId),
    status: null,
    providerStatus: made.status ?? 'approved',
    statusDetail: null,
    currency: made.currency_id ?? null,
    refunds: [refundFrom(paymentId, made.id, made.status ?? null, made.amount?.cents ?? null)],
  }
}
