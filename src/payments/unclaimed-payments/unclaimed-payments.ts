import { randomUUID } from 'node:crypto'
import type { Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { isWholeCurrency, pointFromCents } from '../../domain/money.ts'
import { longestOrderMs } from '../../domain/order.ts'
import { receivedStatuses } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import { isRefundUnderWay } from '../../errors/money-outcome.ts'
import { asAppError, orderIdOfPayment, ProviderError } from '../../provider/provider.ts'
import { compareAgain } from '../../repositories/closings/closing-queries.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import {
  findPayment,
  type ProviderPaymentRow,
} from '../../repositories/provider-payments/provider-payments.ts'
import { insertUnclaimedEvent } from '../../repositories/unclaimed-payments/unclaimed-events.ts'
import {
  findOrphan,
  insertOrphan,
  isNamedByOrder,
  linkPayment,
  listOrphanPayments,
  listPaymentsWithoutOrder,
  listRefundedOrphans,
  listUnsettledOrders,
  lockOrphan,
  type OrphanRow,
  settleOrphan,
} from '../../repositories/unclaimed-payments/unclaimed-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import { whoIs } from '../audit/entry-author.ts'
import { callForShop, type Shop } from '../connection/account-calls.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { adoptOfPayment, insertAdopted } from '../orders/adopt-orders.ts'
import { refreshOrder, requireOrder } from '../orders/read.ts'
import { refundOrder } from '../orders/refund.ts'
import { notifyOrderChanged } from '../process/order-changes.ts'
import {
  endSurplus,
  openSurplus,
  readLatePayments,
  separateLateSurplus,
} from '../provider-payments/further-payments.ts'
import { readPayment } from '../provider-payments/read-payments.ts'
import { orderAfterMs } from '../provider-payments/save-payments.ts'
import { type RequestContext, serviceActor, serviceContext } from '../request-context.ts'
import { updateNetAmounts } from '../settlements/update-net-amounts.ts'

/** Only closings find older ones. */
const reachMs = 32 * 24 * 3_600_000
const readWithinMs = 10_000

/**
 * Finds charges of a shop's boxes without an order of ours, and reports each once, in the audit log and the service's log. First
 * it adopts their orders that are ours, which a restored backup lacks, and it reads the payment again, and the orders of that amount whose outcome is unknown here. While one of them may still match,
 * nothing is reported. The caller must have the account's lease.
 */
export async function findOrphans(
  deps: PaymentDeps,
  shop: Shop,
  signal: AbortSignal,
): Promise<void> {
  const { db } = deps.database
  await settleRefundedOrphans(deps, shop.client)
  const since = new Date(deps.now().getTime() - reachMs)
  await readLatePayments(deps, shop.client, signal)
  await separateLateSurplus(deps, shop.client)
  for (const payment of await listPaymentsWithoutOrder(db, shop.client, since)) {
    if (signal.aborted) return
    await adoptReadable(deps, payment)
    if (await isPerhapsOurs(deps, payment)) continue
    await readPayment(deps, shop, payment.payment_id, signal)
    const now = await findPayment(db, shop.client, payment.payment_id)
    if (now && isUnclaimed(now)) await note(deps, now)
  }
}

/** An order that was read but cannot be understood does not hold back its payment, which is then reported without it. */
async function adoptReadable(deps: PaymentDeps, payment: ProviderPaymentRow): Promise<void> {
  await adoptOfPayment(deps, payment).catch((error: unknown) => {
    if (!(error instanceof ProviderError) || error.kind !== 'invalid_answer') throw error
    const { client, payment_id: paymentId } = payment
    deps.log.warn({ client, paymentId, err: error }, 'order of a payment not readable')
  })
}

/** Read by its number a payment may be refunded or canceled, while the list still shows it as paid. */
function isUnclaimed({ order_id, amount_cents, status }: ProviderPaymentRow): boolean {
  return order_id === null && amount_cents !== null && receivedStatuses.includes(status)
}

async function isPerhapsOurs(deps: PaymentDeps, payment: ProviderPaymentRow): Promise<boolean> {
  const open = await listUnsettledOrders(deps.database.db, payment.client, {
    amountCents: payment.amount_cents as number,
    ...timeOfOrder(payment),
  })
  let isUnsettled = false
  for (const order of open) {
    const { order: after, stale } = await refreshOrder(deps, order, serviceContext(deps, 'search'))
    const isKnown = after.creation === 'confirmed' || after.creation === 'refused'
    isUnsettled ||= after.paid_cents === 0 && (stale || !isKnown)
  }
  return isUnsettled
}

/** When the order of a payment can have been made. */
function timeOfOrder({ sold_at: soldAt }: Pick<ProviderPaymentRow, 'sold_at'>) {
  const soldMs = soldAt.getTime()
  return { from: new Date(soldMs - longestOrderMs), to: new Date(soldMs + orderAfterMs) }
}

async function note(deps: PaymentDeps, payment: ProviderPaymentRow): Promise<void> {
  const orphan: OrphanRow = {
    id: randomUUID(),
    client: payment.client,
    payment_id: payment.payment_id,
    caja_id: payment.caja_id,
    sucursal_id: payment.sucursal_id,
    amount_cents: payment.amount_cents as number,
    sold_at: payment.sold_at,
    state: 'open',
    reason: null,
    order_id: null,
    surplus_of: payment.surplus_of,
    found_at: deps.now(),
    settled_at: null,
    told_at: null,
    end_told_at: null,
    settled_by: null,
    refund_asked: false,
  }
  const kept = await deps.database.transaction(async (trx) => {
    if (!(await insertOrphan(trx, orphan))) return undefined
    await insertUnclaimedEvent(trx, 'payment.unclaimed', null, orphan, orphan.found_at)
    const similar = (await listOrphanPayments(trx, orphan.client, [orphan.payment_id])).get(
      orphan.payment_id,
    )?.similar_order_ids
    const entry = entryOf(orphan, 'orphan.found', serviceActor(deps.now()), null)
    const metadata = {
      ...entry.metadata,
      ...(payment.mp_order_id !== null && { mp_order_id: payment.mp_order_id }),
      ...(similar && similar.length > 0 && { similar_order_ids: similar }),
    }
    await recordSuccess(deps, trx, { ...entry, metadata })
    return { order: await openSurplus(deps, trx, orphan) }
  })
  if (!kept) return
  if (kept.order) notifyOrderChanged(deps.database, kept.order)
  const { client, id, payment_id: paymentId, caja_id: cajaId } = orphan
  deps.log.warn(
    { client, orphanId: id, paymentId, cajaId },
    'unclaimed payment found: no order matches it',
  )
}

function entryOf(orphan: OrphanRow, action: string, actor: Actor, reason: string | null) {
  return {
    client: orphan.client,
    actor,
    action,
    resourceId: orphan.id,
    metadata: {
      payment_id: orphan.payment_id,
      caja_id: orphan.caja_id,
      amount: pointFromCents(orphan.amount_cents),
      ...(orphan.surplus_of !== null && { surplus_of: orphan.surplus_of }),
      ...(reason !== null && { reason }),
    },
  }
}

async function requireOrphan(
  { database: { db } }: PaymentDeps,
  client: ClientName,
  id: string,
): Promise<OrphanRow> {
  const orphan = await findOrphan(db, client, id)
  if (!orphan) throw new AppError('NOT_FOUND', { message: 'There is no such charge' })
  return orphan
}

/**
 * Marks a charge as needing no action.
 *
 * @throws NOT_FOUND, ORPHAN_SETTLED
 */
export async function dismissOrphan(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  reason: string,
  actor: Actor,
): Promise<OrphanRow> {
  const orphan = await requireOrphan(deps, client, id)
  const entry = entryOf(orphan, 'orphan.dismissed', actor, reason)
  return auditFailure(deps, entry, async () => {
    const dismissed = await deps.database.transaction(async (trx) => {
      const now = (await lockOrphan(trx, client, id)) as OrphanRow
      if (now.state === 'dismissed') return { orphan: now, order: undefined }
      if (now.state !== 'open') throw new AppError('ORPHAN_SETTLED')
      const end = {
        state: 'dismissed' as const,
        reason,
        order_id: null,
        settled_at: deps.now(),
        settled_by: await whoIs(trx, actor),
      }
      const ended = { ...now, ...end }
      await settleOrphan(trx, now, end)
      await insertUnclaimedEvent(trx, 'payment.dismissed', now.state, ended, end.settled_at)
      await compareAgain(trx, now, end.settled_at)
      await recordSuccess(deps, trx, entry)
      return { orphan: ended, order: await endSurplus(deps, trx, now) }
    })
    if (dismissed.order) notifyOrderChanged(deps.database, dismissed.order)
    return dismissed.orphan
  })
}

/**
 * Adopts a charge as an order of its box, so that it counts and can be refunded like any other. A repeat returns the same order. One
 * that a person has decided to refund is not adopted as a sale, and the other way round (`refundAsked`).
 *
 * @throws NOT_FOUND, ORPHAN_SETTLED, and the failure of reading the payment
 */
export async function adoptOrphan(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  {
    reason,
    reference,
    refundAsked = false,
  }: { reason: string; reference: string | undefined; refundAsked?: boolean },
  actor: Actor,
): Promise<{ orphan: OrphanRow; order: OrderRow | undefined }> {
  const orphan = await requireOrphan(deps, client, id)
  const entry = entryOf(orphan, 'orphan.adopted', actor, reason)
  return auditFailure(deps, entry, async () => {
    if (isAdopted(orphan, refundAsked)) return { orphan, order: undefined }
    const payment = await findPayment(deps.database.db, client, orphan.payment_id)
    if (!payment || orphan.caja_id === null || orphan.sucursal_id === null) {
      throw new AppError('ORPHAN_SETTLED', { message: 'The box of this payment is unknown' })
    }
    const shop = { client, mpUserId: payment.mp_user_id }
    const readNow = async () => {
      // An order here may name it by now: that ends the unclaimed payment.
      await readPayment(deps, shop, payment.payment_id)
      return callForShop(deps, shop, (token) =>
        deps.provider.orders.get(token, orderIdOfPayment(payment.payment_id), {
          untilMs: deps.stopwatch() + readWithinMs,
        }),
      )
    }
    const evidence = await readNow().catch((error: unknown) => {
      throw asAppError(error, 'order.read')
    })
    const adopted = await deps.database.transaction(async (trx) => {
      const now = (await lockOrphan(trx, client, id)) as OrphanRow
      if (isAdopted(now, refundAsked)) return { orphan: now, order: undefined }
      // Its order may have been found since the payment was read.
      if (await isNamedByOrder(trx, now, timeOfOrder(now))) throw new AppError('ORPHAN_SETTLED')
      const order = await insertAdopted(deps, trx, orderOf(now, payment, reference), {
        source: 'api',
        note: 'an unclaimed payment was recorded as an order',
        evidence,
      })
      const asked = { reason, refundAsked }
      return { orphan: await endAdopted(deps, trx, now, order, asked, entry), order }
    })
    if (adopted.order) notifyOrderChanged(deps.database, adopted.order)
    return adopted
  })
}

/**
 * Whether the same was decided before; false for one that is open.
 *
 * @throws ORPHAN_SETTLED when another decision was made
 */
function isAdopted({ state, refund_asked }: OrphanRow, refundAsked: boolean): boolean {
  if (state === 'open') return false
  if (state !== 'adopted') throw new AppError('ORPHAN_SETTLED')
  if (refund_asked === refundAsked) return true
  throw new AppError('ORPHAN_SETTLED', {
    message: refund_asked
      ? 'A person has decided to refund this payment'
      : 'This payment was adopted as a sale already: refund its order',
  })
}

async function endAdopted(
  deps: PaymentDeps,
  trx: Trx,
  orphan: OrphanRow,
  order: OrderRow,
  { reason, refundAsked }: { reason: string; refundAsked: boolean },
  entry: ReturnType<typeof entryOf>,
): Promise<OrphanRow> {
  const end = {
    state: 'adopted' as const,
    refund_asked: refundAsked,
    reason,
    order_id: order.id,
    settled_at: deps.now(),
    settled_by: await whoIs(trx, entry.actor),
  }
  const ended = { ...orphan, ...end }
  await settleOrphan(trx, orphan, end)
  await insertUnclaimedEvent(trx, 'payment.matched', orphan.state, ended, end.settled_at)
  await compareAgain(trx, orphan, end.settled_at)
  await linkPayment(trx, orphan, order.id, end.settled_at)
  await updateNetAmounts(trx, [order.id])
  await endSurplus(deps, trx, orphan)
  await recordSuccess(deps, trx, { ...entry, metadata: { ...entry.metadata, order_id: order.id } })
  return ended
}

function orderOf(
  orphan: OrphanRow,
  payment: ProviderPaymentRow,
  reference: string | undefined,
): Parameters<typeof insertAdopted>[2] {
  const loose = orderIdOfPayment(orphan.payment_id)
  return {
    id: randomUUID(),
    client: orphan.client,
    caja_id: orphan.caja_id as string,
    sucursal_id: orphan.sucursal_id as string,
    terminal_id: loose,
    mp_user_id: payment.mp_user_id,
    external_reference: reference ?? loose,
    mp_external_reference: loose,
    reference_attempt: 1,
    amount_cents: orphan.amount_cents,
    whole_amount: isWholeCurrency(payment.currency),
    send_ticket_number: false,
    print_ticket: false,
    payment_method: 'all',
    expiration_minutes: 1,
    mp_order_id: loose,
    created_at: orphan.sold_at,
  }
}

/**
 * Refunds an unclaimed payment: it is adopted as an order first, and refunded like any other. A repeat is the same refund. While
 * the provider processes the refund it stays `adopted`; `settleRefundedOrphans` ends it. `order` is null for one that was
 * refunded before.
 *
 * @throws NOT_FOUND, ORPHAN_SETTLED, and the errors of a refund
 */
export async function refundOrphan(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  reason: string,
  context: RequestContext,
): Promise<{ orphan: OrphanRow; order: OrderRow }> {
  const before = await requireOrphan(deps, client, id)
  if (before.state === 'refunded') {
    return { orphan: before, order: await requireOrder(deps, client, before.order_id as string) }
  }
  const because = { reason, reference: undefined, refundAsked: true }
  const { orphan } = await adoptOrphan(deps, client, id, because, context.actor)
  const { order } = await refundOrder(
    deps,
    client,
    { orderId: orphan.order_id as string, amountCents: undefined },
    refundKey(id),
    context,
  )
  if (isRefundUnderWay(order)) return { orphan, order }
  return { orphan: await endRefunded(deps, orphan, reason, context.actor), order }
}

/** Each unclaimed payment has one refund, however often it is requested. */
function refundKey(id: string): string {
  return `orphan-${id}`
}

async function endRefunded(
  deps: PaymentDeps,
  { client, id }: OrphanRow,
  reason: string | null,
  actor: Actor,
): Promise<OrphanRow> {
  return deps.database.transaction(async (trx) => {
    const now = (await lockOrphan(trx, client, id)) as OrphanRow
    if (now.state !== 'adopted') return now
    const settled_at = deps.now()
    const { order_id, settled_by } = now
    const end = { state: 'refunded' as const, reason, order_id, settled_at, settled_by }
    await settleOrphan(trx, now, end)
    await recordSuccess(deps, trx, entryOf(now, 'orphan.refunded', actor, reason))
    return { ...now, ...end }
  })
}

/**
 * Ends unclaimed payments whose refund was under way or of unknown outcome, and is complete now. After a failed refund they stay
 * adopted.
 */
async function settleRefundedOrphans(deps: PaymentDeps, client: ClientName): Promise<void> {
  for (const orphan of await listRefundedOrphans(deps.database.db, client)) {
    await endRefunded(deps, orphan, orphan.reason, serviceActor(deps.now()))
  }
}
