import { z } from 'zod'
import {
  asShopRefunds,
  centsFromPoint,
  isOwn,
  markSurplus,
  receivedApart,
  receivedCents,
} from '../domain/money.ts'
import {
  type OrderEvidence,
  type OrderStatus,
  type Payment,
  type PaymentMethod,
  type ProviderRefund,
  paymentMethods,
} from '../domain/order.ts'
import {
  cancelRequested,
  isFailedRefund,
  isUnpaidPayment,
  orderWords,
  paymentStatusFrom,
  wentThrough,
} from '../domain/order-state.ts'
import { dateFrom, MpId, MpNote, MpNumber } from './payload-fields.ts'
import type { FoundOrder, RefundAnswer } from './provider-types.ts'

/** An amount of money as integer cents. */
const MpAmount = z.union([z.string(), z.number()]).transform((amount, context) => {
  const cents = centsFromPoint(String(amount))
  if (cents !== undefined) return cents
  context.addIssue({ code: 'custom', message: 'not an amount' })
  return z.NEVER
})

const MpReference = z.union([z.string(), z.number()]).transform(String).nullish()

const MpInstallments = z
  .union([z.number(), z.string().regex(/^[0-9]{1,3}$/)])
  .transform(Number)
  .nullish()
  .catch(null)

const MpPayment = z.object({
  id: MpId,
  amount: MpAmount.nullish(),
  paid_amount: MpAmount.nullish(),
  tip_amount: MpAmount.nullish(),
  refunded_amount: MpAmount.nullish(),
  status: z.string(),
  status_detail: MpNote,
  reference_id: MpNote,
  reference: z.object({ id: MpNote }).nullish().catch(null),
  payment_method: z
    .object({ type: MpNote, id: MpNote, installments: MpInstallments })
    .nullish()
    .catch(null),
})

const MpRefund = z.object({
  id: MpId,
  transaction_id: MpNote,
  reference_id: MpNote,
  amount: MpAmount.nullish(),
  status: z.string().nullish(),
})

export const MpOrder = z.object({
  id: z.string().min(1),
  type: MpNote,
  user_id: MpId.nullish(),
  external_reference: MpReference,
  status: z.string(),
  status_detail: MpNote,
  total_amount: MpAmount.nullish(),
  currency: MpNote,
  total_paid_amount: MpAmount.nullish(),
  created_date: MpNote,
  last_updated_date: MpNote,
  description: MpNote,
  expiration_time: MpNote,
  integration_data: z.object({ application_id: MpNote }).nullish().catch(null),
  config: z
    .object({
      point: z
        .object({
          terminal_id: z.string().nullish(),
          print_on_terminal: MpNote,
          ticket_number: MpNote,
        })
        .nullish(),
      payment_method: z.object({ default_type: MpNote }).nullish().catch(null),
    })
    .nullish(),
  transactions: z
    .object({
      payments: z.array(MpPayment).nullish(),
      refunds: z.array(MpRefund).nullish(),
      chargebacks: z
        .array(z.object({ case_id: MpNote }))
        .nullish()
        .catch(null),
    })
    .nullish(),
})

export type MpOrder = z.infer<typeof MpOrder>
type MpPayment = z.infer<typeof MpPayment>
type MpRefund = z.infer<typeof MpRefund>

/** What is read of an order that cannot be read. */
export const MpOrderName = z.object({ id: MpNote, external_reference: MpNote }).catch({})

/** `data` is the official SDK's name; nothing is confirmed for Point. */
export const MpOrderSearch = z.object({
  data: z.array(z.unknown()),
  paging: z
    .object({ total_pages: MpNumber.nullish().catch(null) })
    .nullish()
    .catch(null),
})

/** The evidence in an order body, of any call. */
export function evidenceFrom(order: MpOrder): OrderEvidence {
  const allRefunds = order.transactions?.refunds ?? []
  const listed = (order.transactions?.payments ?? []).flatMap((payment, _, all) =>
    paymentFrom(payment, refundsOf(payment, allRefunds, all.length)),
  )
  const caseIds = (order.transactions?.chargebacks ?? []).flatMap(({ case_id: id }) => id ?? [])
  const payments = markSurplus(listed, order.total_amount ?? null)
  const own = payments.filter(isOwn)
  // Refunds of a further payment are not refunds of the order's own.
  const mpRefunds = allRefunds.filter(
    ({ transaction_id: id }) => id == null || own.length === 0 || own.some((one) => one.id === id),
  )
  const hasOthers = own.length < payments.length || mpRefunds.length < allRefunds.length
  const refunds = asShopRefunds(payments, mpRefunds.map(refundFrom))
  const paidCents = payments.length > 0 ? sum(own, paidThrough) : (order.total_paid_amount ?? 0)
  const hasFailed = mpRefunds.some(({ status }) => isFailedRefund(status ?? ''))
  // After a failed refund only the list is right: the sum may not have been lowered yet.
  const returnedCents =
    payments.length > 0 && !hasFailed
      ? sum(own, (payment) => payment.refundedCents)
      : refundedSum(refunds)
  // A full refund without amounts in the answer returned the paid amount.
  const refundedCents =
    order.status === 'refunded' && returnedCents === 0 && !hasFailed ? paidCents : returnedCents
  return {
    mpOrderId: order.id,
    mpUserId: order.user_id ?? null,
    externalReference: order.external_reference ?? null,
    terminalId: order.config?.point?.terminal_id ?? null,
    status: deriveStatus(order, paidCents, refundedCents, hasOthers),
    providerStatus: order.status,
    statusDetail: detailOf(order),
    amountCents: order.total_amount ?? amountOf(payments),
    currency: order.currency ?? null,
    paidCents,
    refundedCents,
    payments,
    refunds,
    updatedAt: order.last_updated_date ?? null,
    ...(caseIds.length > 0 && { caseIds }),
    ...(paidCents === 0 && hasNoPayment(order) && { hasNoPayment: true as const }),
  }
}

/** Whether the order counts as paid, but none of its listed payments took money. A body without a list proves nothing. */
function hasNoPayment({ status, transactions }: MpOrder): boolean {
  const money = orderWords.get(status)?.money
  if (money !== 'in' && money !== 'out') return false
  return transactions?.payments?.every((payment) => isUnpaidPayment(payment.status)) ?? false
}

/** The evidence in the answer to a cancel. If the order is still at the terminal (202), the cancel was passed on to the terminal. */
export function cancelEvidenceFrom(order: MpOrder): OrderEvidence {
  const evidence = evidenceFrom(order)
  return evidence.status === 'at_terminal'
    ? { ...evidence, statusDetail: cancelRequested }
    : evidence
}

/** Only the payment shows that the cancel of an order at the terminal is requested. */
function detailOf(order: MpOrder): string | null {
  if (orderWords.get(order.status)?.isDetail) return order.status
  const isRequested = (order.transactions?.payments ?? []).some(
    ({ status, status_detail }) => status === cancelRequested || status_detail === cancelRequested,
  )
  return order.status === 'at_terminal' && isRequested
    ? cancelRequested
    : (order.status_detail ?? null)
}

/** An order with its application and what was requested; `applicationId` is that of this service. */
export function foundOrderFrom(order: MpOrder, applicationId: string): FoundOrder {
  const madeBy = order.integration_data?.application_id
  const method = order.config?.payment_method?.default_type
  return {
    evidence: evidenceFrom(order),
    isOurs: madeBy == null ? null : madeBy === applicationId,
    isPoint: order.type == null || order.type === 'point',
    createdAt: dateFrom(order.created_date),
    expirationMinutes: minutesFrom(order.expiration_time),
    description: order.description ?? null,
    ticketNumber: order.config?.point?.ticket_number ?? null,
    printTicket: order.config?.point?.print_on_terminal !== 'no_ticket',
    paymentMethod: isPaymentMethod(method) ? method : 'all',
  }
}

function isPaymentMethod(method: string | null | undefined): method is PaymentMethod {
  return paymentMethods.some((known) => known === method)
}

/** Reads the form of a duration that this service sends; null for other forms. */
function minutesFrom(duration: string | null | undefined): number | null {
  const minutes = /^PT(\d{1,3})M$/.exec(duration ?? '')?.[1]
  return minutes === undefined ? null : Number(minutes)
}

/** The evidence in the short body of a refund. */
export function refundAnswerFrom(order: MpOrder): RefundAnswer {
  return {
    mpOrderId: order.id,
    status: deriveStatus(order, 0, 0),
    providerStatus: order.status,
    statusDetail: order.status_detail ?? null,
    currency: order.currency ?? null,
    refunds: (order.transactions?.refunds ?? []).map(refundFrom),
  }
}

type Refunded = { transactions?: { refunds?: MpRefund[] | null | undefined } | null | undefined }

function isListed(order: Refunded): boolean {
  return (order.transactions?.refunds ?? []).some(({ status }) => isFailedRefund(status ?? ''))
}

function deriveStatus(
  order: { status: string; status_detail?: string | null | undefined } & Refunded,
  paidCents: number,
  refundedCents: number,
  hasOthers = false,
): OrderStatus | null {
  const status = orderWords.get(order.status)?.status ?? null
  // After a failed refund the shop keeps the money, even if the order does not show it yet.
  const isKept = status === 'refunded' && refundedCents < paidCents && isListed(order)
  if (status !== 'processed' && !isKept) return status
  if (isKept) return refundedCents > 0 ? 'partially_refunded' : 'processed'
  // The provider may return everything and leave the order `processed`.
  const isAll = paidCents > 0 && refundedCents >= paidCents
  if (isAll && (hasOthers || order.status_detail === 'refunded')) return 'refunded'
  const partly = refundedCents > 0 && refundedCents < paidCents
  // With a further payment the detail may be about that payment.
  if (hasOthers) return partly ? 'partially_refunded' : status
  return partly || order.status_detail === 'partially_refunded' ? 'partially_refunded' : status
}

/** A payment without any amount (short form of a cancel) is left out. */
function paymentFrom(payment: MpPayment, refunds: MpRefund[]): Payment[] {
  const amountCents = payment.amount ?? payment.paid_amount
  if (amountCents == null) return []
  const tipCents = payment.tip_amount ?? 0
  const translated: Payment = {
    id: payment.id,
    amountCents,
    paidCents: payment.paid_amount ?? null,
    ...(tipCents > 0 && { tipCents }),
    refundedCents: payment.refunded_amount ?? refundedSum(refunds.map(refundFrom)),
    status: paymentStatusFrom(payment.status),
    statusDetail: payment.status_detail ?? null,
    methodType: payment.payment_method?.type ?? null,
    methodId: payment.payment_method?.id ?? null,
    installments: payment.payment_method?.installments ?? null,
    referenceId: payment.reference_id ?? payment.reference?.id ?? null,
  }
  const received = receivedApart(translated)
  if (received === undefined) return [translated]
  const refundedCents = Math.min(translated.refundedCents, received)
  return [{ ...translated, receivedCents: received, refundedCents }]
}

function refundsOf(payment: MpPayment, refunds: MpRefund[], paymentCount: number): MpRefund[] {
  return refunds.filter((refund) =>
    refund.transaction_id == null ? paymentCount === 1 : refund.transaction_id === payment.id,
  )
}

function refundFrom(refund: MpRefund): ProviderRefund {
  return {
    id: refund.id,
    transactionId: refund.transaction_id ?? null,
    referenceId: refund.reference_id ?? null,
    amountCents: refund.amount ?? null,
    status: refund.status ?? 'unknown',
  }
}

function refundedSum(refunds: readonly ProviderRefund[]): number {
  return sum(refunds, ({ status, amountCents }) =>
    isFailedRefund(status) ? 0 : (amountCents ?? 0),
  )
}

function paidThrough(payment: Payment): number {
  return wentThrough(payment.status) ? receivedCents(payment) : 0
}

/** With several payments it is unknown which ones were tried and which count, so there is no amount. */
function amountOf(payments: Payment[]): number | null {
  return payments.length === 1 ? (payments[0]?.amountCents ?? null) : null
}

function sum<Item>(items: readonly Item[], cents: (item: Item) => number): number {
  return items.reduce((total, item) => total + cents(item), 0)
}

const prefix = 'PAYMENT-'

/**
 * The order id of a payment without a provider's order, such as one typed into the terminal. With it, such a payment is
 * handled like an order, above all refunded.
 */
export function orderIdOfPayment(paymentId: string): string {
  return prefix + paymentId
}

/** The payment number in such an id; undefined for an order's own id. */
export function paymentOfOrderId(mpOrderId: string): string | undefined {
  return mpOrderId.startsWith(prefix) ? mpOrderId.slice(prefix.length) : undefined
}
