import { boxOf } from './order-moves.ts'
import { paymentsOfOrder, receivedCents } from './order-payments.ts'
import { endDueRefunds, paymentRefundOf } from './payment-refunds.ts'
import type { Order, Payment, PaymentMethod, PaymentRefund } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { siteOf } from './sites.ts'

/** A payment of the Payments API: of an order, or without one. Times are milliseconds. */
export type PaymentEntry = {
  id: number
  userId: number
  posId: number | null
  storeId: number | null
  orderId: string | null
  externalReference: string | null
  /** What the seller receives, before fees. */
  amountCents: number
  /** What the buyer paid; absent when it is the same. */
  paidCents?: number
  status: string
  statusDetail: string | null
  method: PaymentMethod
  createdAt: number
  updatedAt: number
  refunds: PaymentRefund[]
}

/** All payments of a seller. An order has one after the first attempt of its buyer, and more when it was paid again. */
export function paymentsOf(ctx: Context, userId: number): PaymentEntry[] {
  const entries: PaymentEntry[] = []
  for (const order of ctx.state.tables.orders.values()) {
    if (order.userId !== userId) continue
    for (const payment of paymentsOfOrder(order)) {
      const entry = behindOrder(ctx, order, payment)
      if (entry) entries.push(entry)
    }
  }
  for (const payment of ctx.state.tables.payments.values()) {
    if (payment.userId === userId) {
      entries.push({ ...endDueRefunds(payment, ctx.nowMs()), orderId: null })
    }
  }
  return entries
}

const statusOf: Partial<Record<Order['status'], string>> = {
  processed: 'approved',
  refunded: 'refunded',
  failed: 'rejected',
  processing: 'in_process',
  in_process: 'in_process',
  charged_back: 'charged_back',
}

function behindOrder(ctx: Context, order: Order, payment: Payment): PaymentEntry | undefined {
  const status = statusOf[payment.status]
  if (payment.referenceId === null || payment.method === null || status === undefined) return
  const updatedAt = Date.parse(order.lastUpdatedDate)
  const own = order.refunds.filter(({ transactionId }) => transactionId === payment.id)
  const amountCents = payment.paidCents === null ? payment.amountCents : receivedCents(payment)
  // These refunds are of the payment's amount, without the interest.
  let left = amountCents
  const refunds = own.map(paymentRefundOf).map((refund) => {
    const cents = Math.min(left, refund.amountCents)
    if (refund.status !== 'rejected') left -= cents
    return { ...refund, amountCents: cents }
  })
  const isPart = refunds.some((refund) => refund.status === 'approved') && status === 'approved'
  return {
    id: Number(payment.referenceId),
    userId: order.userId,
    ...(payment.box ?? boxOf(ctx, order)),
    orderId: order.id,
    externalReference: order.externalReference,
    amountCents,
    paidCents: payment.paidCents ?? payment.amountCents,
    status,
    statusDetail: isPart ? 'partially_refunded' : payment.statusDetail,
    method: payment.method,
    createdAt: payment.paidAt ?? updatedAt,
    updatedAt,
    refunds,
  }
}

/** Whether the money of a payment came in, refunded or not. */
export function isPaidEntry({ status }: PaymentEntry): boolean {
  return status === 'approved' || status === 'refunded' || status === 'charged_back'
}

/** The payment as both payment calls answer it. Its fees are invented, by rates like those of real statements. */
export function showPaymentEntry(ctx: Context, entry: PaymentEntry): Record<string, unknown> {
  const { method, createdAt } = entry
  const isPaid = isPaidEntry(entry)
  const areShown = ctx.nowMs() - createdAt >= ctx.index.charges_after_ms
  const charges = isPaid && areShown ? chargesOf(entry) : []
  const kept = charges.reduce((sum, { cents, payer }) => sum + (payer ? 0 : cents), 0)
  const refunded = entry.refunds
    .filter(({ status }) => status === 'approved')
    .reduce((sum, { amountCents }) => sum + amountCents, 0)
  const releaseAt = releaseAtOf(entry)
  const isReleased = releaseAt <= ctx.nowMs()
  return {
    id: entry.id,
    date_created: stamp(createdAt),
    date_approved: isPaid ? stamp(createdAt) : null,
    date_last_updated: stamp(entry.updatedAt),
    money_release_date: isPaid ? stamp(releaseAt) : null,
    money_release_status: isPaid ? (isReleased ? 'released' : 'pending') : null,
    operation_type: entry.posId === null ? 'regular_payment' : 'pos_payment',
    payment_method_id: method.id,
    payment_type_id: method.type,
    status: entry.status,
    status_detail: entry.statusDetail,
    currency_id: siteOf(ctx, entry.userId).currency,
    collector_id: entry.userId,
    external_reference: entry.externalReference,
    transaction_amount: entry.amountCents / 100,
    transaction_amount_refunded: refunded / 100,
    transaction_details: {
      net_received_amount: isPaid && areShown ? (entry.amountCents - kept) / 100 : 0,
      total_paid_amount: (entry.paidCents ?? entry.amountCents) / 100,
    },
    fee_details: charges
      .filter(({ type }) => type === 'fee')
      .map(({ name, cents }) => ({ type: name, amount: cents / 100, fee_payer: 'collector' })),
    charges_details: charges.map(showCharge),
    installments: method.installments,
    card: { last_four_digits: '3704' },
    authorization_code: isPaid ? String(entry.id).slice(-6) : null,
    refunds: entry.refunds.map(({ id, amountCents, at, status }) => ({
      id,
      payment_id: entry.id,
      amount: amountCents / 100,
      status,
      date_created: stamp(at),
    })),
    point_of_interaction: { type: entry.posId === null ? 'CHECKOUT' : 'POINT' },
    order: entry.orderId === null ? {} : { id: entry.orderId, type: 'mercadopago' },
    pos_id: entry.posId === null ? null : String(entry.posId),
    store_id: entry.storeId === null ? null : String(entry.storeId),
    live_mode: ctx.state.tables.sellers.get(String(entry.userId))?.liveMode ?? false,
  }
}

export type Charge = {
  name: string
  type: string
  cents: number
  payer: boolean
  entity: string | null
}

/** Names as in real statements (provider facts: names in `charges_details`). One is charged to the buyer. */
export function chargesOf({ amountCents, method }: PaymentEntry): Charge[] {
  const part = (rate: number) => Math.round((amountCents * rate) / 100)
  const isCredit = method.type === 'credit_card'
  const charge = (name: string, type: string, cents: number, entity: string | null = null) => ({
    name,
    type,
    cents,
    payer: name.includes('payer'),
    entity,
  })
  const all = [
    charge('mp_processing_fee', 'fee', part(isCredit ? 4.39 : 2.15)),
    ...(method.installments > 1
      ? [charge('mp_financing_fee', 'fee', part(3 * method.installments))]
      : []),
    charge('tax_withholding_sirtac-caba', 'tax', part(1), 'caba'),
    charge('tax_withholding_collector-debitos_creditos', 'tax', part(0.6), 'debitos_creditos'),
    charge('tax_withholding_payer-iva', 'tax', part(0.5)),
  ]
  return all.filter(({ cents }) => cents > 0)
}

function showCharge({ name, type, cents, payer, entity }: Charge): object {
  return {
    id: `${name}-001`,
    name,
    type,
    accounts: { from: payer ? 'payer' : 'collector', to: 'mp' },
    amounts: { original: cents / 100, refunded: 0 },
    metadata: entity === null ? {} : { mov_detail: name, mov_financial_entity: entity },
  }
}

/** When the money of a payment becomes available. */
export function releaseAtOf({ createdAt, method }: PaymentEntry): number {
  return createdAt + releaseDays(method) * 86_400_000
}

/** The delay depends on the payment method. */
function releaseDays({ type }: PaymentMethod): number {
  if (type === 'credit_card') return 10
  return type === 'debit_card' ? 3 : 1
}

/** Payments and their charge-backs have times in GMT-4 in every country; a report has its own zone. */
export function stamp(ms: number, zone = 'GMT-04'): string {
  const minutes = zoneMinutes(zone)
  const sign = minutes < 0 ? '-' : '+'
  const hours = String(Math.abs(minutes) / 60).padStart(2, '0')
  return `${new Date(ms + minutes * 60_000).toISOString().slice(0, -1)}${sign}${hours}:00`
}

/** Minutes of `GMT-03`; the provider's own zone is GMT-4. */
export function zoneMinutes(zone: string): number {
  const [, sign, hours] = /^GMT([+-])(\d{1,2})$/.exec(zone) ?? []
  return (sign === '+' ? 1 : -1) * Number(hours ?? 4) * 60
}
