import { randomUUID } from 'node:crypto'
import { formatCents } from './amounts.ts'
import { faultsOf, webhookFaults } from './faults.ts'
import { nanoStamp, newNumber } from './ids.ts'
import { showChargebacksOf, showMethod } from './order-view.ts'
import type { Order, Seller, Webhook } from './rows.ts'
import { applicationOf, type Context } from './sandbox-context.ts'
import { siteOf } from './sites.ts'

export type OrderAction =
  | 'processed'
  | 'canceled'
  | 'refunded'
  | 'action_required'
  | 'failed'
  | 'expired'
  | 'charged_back'

/** The body of an `order` webhook; each action has its own shape (provider facts 6.2). */
export function orderWebhookBody(ctx: Context, order: Order, action: OrderAction) {
  const { payment } = order
  const { hasCents } = siteOf(ctx, order.userId)
  const method = payment.method === null ? {} : { payment_method: showMethod(payment.method) }
  const reference = payment.referenceId === null ? {} : { reference: { id: payment.referenceId } }
  const long = action === 'processed' || action === 'failed'
  const withTotal = (action === 'processed' || action === 'refunded') && payment.paidCents !== null
  return {
    action: `order.${action}`,
    api_version: 'v1',
    application_id: applicationOf(ctx).clientId,
    data: {
      external_reference: order.externalReference,
      id: order.id,
      status: order.status,
      // The samples of this webhook and the status page disagree; each place keeps its own word (provider facts 2.6).
      status_detail: action === 'action_required' ? 'check_on_terminal' : order.statusDetail,
      ...(withTotal && { total_paid_amount: formatCents(payment.paidCents ?? 0, hasCents) }),
      ...(action === 'charged_back' && {
        transactions: { chargebacks: showChargebacksOf(ctx, order) },
      }),
      ...(action !== 'refunded' &&
        action !== 'charged_back' &&
        action !== 'action_required' && {
          transactions: {
            payments: [
              {
                amount: formatCents(payment.amountCents, hasCents),
                id: payment.id,
                ...(action === 'processed' && {
                  paid_amount: formatCents(payment.paidCents ?? 0, hasCents),
                }),
                ...(long && method),
                ...(long && reference),
                status: payment.status,
                status_detail: payment.statusDetail,
              },
            ],
          },
        }),
      type: 'point',
      version: order.version,
    },
    date_created: nanoStamp(ctx.nowMs()),
    live_mode: order.id.startsWith('ORDTST') === false,
    type: 'order',
    user_id: String(order.userId),
  }
}

/** The webhooks of a change of an order, for the same ledger line as the change. */
export function orderWebhooks(ctx: Context, order: Order, action: OrderAction) {
  return webhookRows(ctx, 'order', order.id, orderWebhookBody(ctx, order, action))
}

/** `mp-connect`: the seller linked or unlinked the application (provider facts 6.3). */
export function connectWebhooks(
  ctx: Context,
  seller: Seller,
  action: 'authorized' | 'deauthorized',
) {
  const body = {
    action: `application.${action}`,
    api_version: 'v1',
    data: { id: String(seller.id) },
    date_created: new Date(ctx.nowMs()).toISOString(),
    id: newNumber(12),
    live_mode: seller.liveMode,
    type: 'mp-connect',
    user_id: seller.id,
  }
  return webhookRows(ctx, 'mp-connect', String(seller.id), body)
}

/**
 * The rows of one notification after the webhook faults: none, one or two. Without a configured address the provider
 * sends nothing, also not later.
 */
export function webhookRows(
  ctx: Context,
  type: string,
  dataId: string,
  body: Record<string, unknown>,
): Record<string, Webhook> {
  if (ctx.webhooks.url === null) return {}
  const action = typeof body.action === 'string' ? body.action : type
  const now = ctx.nowMs()
  const row = (): Webhook => ({
    id: randomUUID(),
    type,
    action,
    dataId,
    body,
    requestId: randomUUID(),
    attempts: 0,
    nextAt: now,
    badSignature: false,
  })
  const first = row()
  const rows = [first]
  for (const waiting of ctx.waitingForNext.values()) waiting.after ??= first.id
  const userId = body.user_id === undefined ? null : Number(body.user_id)
  const about = { method: null, path: action, userId }
  for (const { kind, rule } of faultsOf(ctx, webhookFaults, about)) {
    if (kind === 'missing') return {}
    if (kind === 'duplicate') rows.push(row())
    if (kind === 'bad_signature') first.badSignature = true
    if (kind === 'late') first.nextAt = now + (rule.delay_ms ?? 5000)
    if (kind === 'reorder') {
      // Sent after the next notification, or after this time without one.
      first.nextAt = now + (rule.delay_ms ?? 2000)
      ctx.waitingForNext.set(first.id, { after: null })
    }
  }
  return Object.fromEntries(rows.map((each) => [each.id, each]))
}
