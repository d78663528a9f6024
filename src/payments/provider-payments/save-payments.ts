import { createHash } from 'node:crypto'
import type { Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import { canonicalJson } from '../../domain/json.ts'
import { longestOrderMs } from '../../domain/order.ts'
import { isEncodedReference } from '../../domain/provider-names.ts'
import {
  type ProviderAmount,
  type ProviderPayment,
  rowWithoutId,
  type UnreadablePayment,
  unreadableStatus,
} from '../../domain/provider-payment.ts'
import { checkRefundedOrders } from '../../repositories/orders/order-queries.ts'
import type { PaymentReadRow } from '../../repositories/provider-payments/payment-reads.ts'
import {
  type BoxOfTerminal,
  deleteRowsWithoutId,
  findBoxesBySerial,
  findPayableOrders,
  listPlaces,
  type NewProviderPayment,
  type PayableOrder,
  savePayments,
} from '../../repositories/provider-payments/provider-payments.ts'
import { followLinks } from '../../repositories/unclaimed-payments/further-payment-queries.ts'
import type { Shop } from '../connection/account-calls.ts'
import type { PaymentDeps } from '../deps.ts'
import { clockMarginMs } from '../orders/find-at-provider.ts'
import { updateNetAmounts } from '../settlements/update-net-amounts.ts'
import { separateFurtherPayments } from './further-payments.ts'

/** Clocks differ, and an adopted order may have a later creation time here. */
export const orderAfterMs = 3_600_000

/**
 * Stores the account's payments that belong to this client: made at one of its boxes or stores, or for one of its orders. Online
 * sales of the same account, and sales of its other clients, are dropped here.
 */
export async function saveOwnPayments(
  deps: PaymentDeps,
  trx: Trx,
  { client, mpUserId }: Shop,
  shown: readonly ProviderPayment[],
): Promise<void> {
  const now = deps.now()
  const named = shown.filter(({ paymentId }) => !paymentId.startsWith(rowWithoutId))
  await deleteRowsWithoutId(trx, client, named)
  const dated = newestOfEach(shown.filter((payment) => soldAt(payment) !== null))
  if (dated.length === 0) return
  const places = await listPlaces(trx, client)
  const boxOf = new Map(places.boxes.map((box) => [box.mp_pos_id, box]))
  const storeOf = new Map(places.stores.map((store) => [store.mp_store_id, store.sucursal_id]))
  const times = dated.map((payment) => (soldAt(payment) as Date).getTime())
  const orders = await findPayableOrders(trx, client, {
    mpUserId,
    references: dated.flatMap(({ externalReference }) => externalReference ?? []),
    paymentIds: dated.map(({ paymentId }) => paymentId),
    boxes: [...new Set(dated.flatMap(({ mpPosId }) => boxOf.get(mpPosId ?? '')?.caja_id ?? []))],
    from: new Date(Math.min(...times) - longestOrderMs),
    to: new Date(Math.max(...times) + orderAfterMs),
  })
  const boxOfTerminal = await boxesOfTerminals(trx, { client, mpUserId }, dated)
  const rows = dated.flatMap((payment) => {
    const box = boxOf.get(payment.mpPosId ?? '') ?? boxOfTerminal(payment)
    const store = box?.sucursal_id ?? storeOf.get(payment.mpStoreId ?? '')
    const order = orderOf(deps, payment, orders, box?.caja_id)
    if (store === undefined && order === undefined) return []
    return {
      ...rowOf(payment, now),
      client,
      mp_user_id: mpUserId,
      // The box that the provider names; without one, the order's box.
      caja_id: box?.caja_id ?? (payment.mpPosId === null ? (order?.caja_id ?? null) : null),
      sucursal_id: store ?? order?.sucursal_id ?? null,
      order_id: order?.id ?? null,
    }
  })
  const orderIds = await savePayments(trx, rows)
  await checkRefundedOrders(trx, client, orderIds, now)
  await separateFurtherPayments(deps, trx, client, orderIds)
  const linked = rows.filter(({ order_id }) => order_id !== null)
  await followLinks(
    trx,
    client,
    linked.map(({ payment_id }) => payment_id),
    now,
  )
  await updateNetAmounts(trx, orderIds)
}

/**
 * The box of a payment that names neither box nor store, by the serial number of its terminal: that of our last charge on it.
 * Answers a function, since few payments need it and one query serves all of a page.
 */
async function boxesOfTerminals(
  trx: Trx,
  { client, mpUserId }: Shop,
  payments: readonly ProviderPayment[],
): Promise<(payment: ProviderPayment) => BoxOfTerminal | undefined> {
  const serialOf = ({ mpPosId, mpStoreId, terminalSerial }: ProviderPayment) =>
    mpPosId === null && mpStoreId === null ? terminalSerial : null
  const serials = [...new Set(payments.flatMap((payment) => serialOf(payment) ?? []))]
  if (serials.length === 0) return () => undefined
  const boxes = await findBoxesBySerial(trx, client, mpUserId, serials)
  return (payment) => boxes.find(({ serial }) => serial === serialOf(payment))
}

/** A page may show a payment twice. The last one counts, unless an earlier one has a later change time. */
function newestOfEach(payments: readonly ProviderPayment[]): ProviderPayment[] {
  const newest = new Map<string, ProviderPayment>()
  for (const payment of payments) {
    const before = newest.get(payment.paymentId)
    const isOlder = (payment.updatedAt ?? Infinity) < (before?.updatedAt ?? -Infinity)
    if (!isOlder) newest.set(payment.paymentId, payment)
  }
  return [...newest.values()]
}

/**
 * A result that cannot be read, as a payment of unknown outcome: closings count it as pending. The search was for a span and
 * mostly for a box, so a row without time or place is counted there.
 */
export function unreadableAsPayment(
  row: UnreadablePayment,
  read: Pick<PaymentReadRow, 'ends_at' | 'mp_pos_id' | 'mp_store_id'>,
): ProviderPayment {
  const none: ProviderAmount = { text: null, cents: null }
  const isPlaced = row.mpPosId !== null || row.mpStoreId !== null
  return {
    paymentId: row.paymentId ?? `${rowWithoutId}${row.digest.slice(0, 32)}`,
    status: unreadableStatus,
    statusDetail: row.why,
    operationType: null,
    channel: null,
    terminalSerial: null,
    currency: null,
    externalReference: row.externalReference,
    mpOrderId: row.mpOrderId,
    mpPosId: isPlaced ? row.mpPosId : read.mp_pos_id,
    mpStoreId: isPlaced ? row.mpStoreId : read.mp_store_id,
    amount: none,
    refunded: none,
    paid: none,
    net: none,
    methodType: null,
    methodId: null,
    installments: null,
    createdAt: row.at ?? new Date(read.ends_at.getTime() - 1),
    approvedAt: null,
    updatedAt: row.updatedAt,
    releaseAt: null,
    releaseStatus: null,
    fees: [],
    charges: [],
    refunds: [],
  }
}

/**
 * The order that a payment is proven to belong to: the order names the payment by its number, or the payment names the order. A
 * payment with only the reference belongs to the order under the rules of `fitsByReference`; any other stays an unclaimed
 * payment.
 */
function orderOf(
  deps: Pick<PaymentDeps, 'providerClock'>,
  payment: ProviderPayment,
  orders: readonly PayableOrder[],
  cajaId: string | undefined,
): PayableOrder | undefined {
  const named = orders.find(({ payment_ids }) => payment_ids.includes(payment.paymentId))
  if (named) return named
  const alike = orders.filter(
    ({ mp_external_reference: reference }) => reference === payment.externalReference,
  )
  const same = alike.find(({ mp_order_id: id }) => id !== null && id === payment.mpOrderId)
  if (same) return same
  const fitting = alike.filter((order) => fitsByReference(deps, payment, order, cajaId))
  return fitting.length === 1 ? fitting[0] : undefined
}

/** An order of the Orders API. The Payments API may use a number for another kind of order. */
const orderId = /^ORD/

/**
 * Whether a payment that names no order belongs to this one: paid at its box and while it was open. Another program may use the
 * same reference. So the order must be known to be paid, or the reference must have this service's encoding. A further payment of
 * an order that names its own may have another amount.
 */
function fitsByReference(
  { providerClock }: Pick<PaymentDeps, 'providerClock'>,
  { mpOrderId, amount, createdAt }: ProviderPayment,
  order: PayableOrder,
  cajaId: string | undefined,
): boolean {
  if (mpOrderId !== null && orderId.test(mpOrderId)) return false
  if (cajaId !== order.caja_id || createdAt === null) return false
  const firstMs = Math.min(
    order.created_at.getTime(),
    (order.sent_at ?? order.created_at).getTime(),
  )
  const createdMs = providerClock.toOurs(createdAt).getTime()
  const isOfItsTime =
    createdMs >= firstMs - clockMarginMs && createdMs <= order.expires_at.getTime() + clockMarginMs
  if (!isOfItsTime) return false
  if (order.paid_cents > 0 && order.payment_ids.length > 0) return true
  const isSure = order.paid_cents > 0 || isEncodedReference(order.mp_external_reference)
  return isSure && amount.cents === order.amount_cents
}

/** When the shop got the money. Null for a row without any date, which belongs to no day. */
export function soldAt({ approvedAt, createdAt }: ProviderPayment): Date | null {
  return approvedAt ?? createdAt
}

function rowOf(
  payment: ProviderPayment,
  now: Date,
): Omit<NewProviderPayment, 'client' | 'mp_user_id' | 'caja_id' | 'sucursal_id' | 'order_id'> {
  return {
    payment_id: payment.paymentId,
    status: payment.status,
    status_detail: payment.statusDetail,
    operation_type: payment.operationType,
    channel: payment.channel,
    currency: payment.currency,
    external_reference: payment.externalReference,
    mp_order_id: payment.mpOrderId,
    mp_pos_id: payment.mpPosId,
    mp_store_id: payment.mpStoreId,
    amount_cents: payment.amount.cents,
    amount_text: payment.amount.text,
    refunded_cents: payment.refunded.cents ?? 0,
    paid_cents: payment.paid.cents,
    net_cents: payment.net.cents,
    net_text: payment.net.text,
    method_type: payment.methodType,
    method_id: payment.methodId,
    installments: payment.installments,
    fees: json(payment.fees),
    charges: json(payment.charges),
    refunds: json(payment.refunds),
    sold_at: soldAt(payment) as Date,
    made_at: payment.createdAt,
    updated_at: payment.updatedAt,
    release_at: payment.releaseAt,
    release_status: payment.releaseStatus,
    fingerprint: createHash('sha256')
      .update(canonicalJson(JSON.parse(JSON.stringify(payment))))
      .digest('hex'),
    first_read_at: now,
    changed_at: now,
  }
}
