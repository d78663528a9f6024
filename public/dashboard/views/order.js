import { ApiError } from '../../shared/api.js'
import { copyButton } from '../../shared/copy.js'
import { code, fullTime, name, relative, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import { badge, facts, note } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { boxLink } from '../box-link.js'
import { askCancel, askRefund, canCancel, canRefund } from '../order-actions.js'
import { doubtNote } from '../order-doubt.js'
import { finalStates, openStates } from '../order-states.js'
import { declineOf, orderBadges } from './order-columns.js'
import { moneyPanel } from './order-money.js'
import { timeline } from './timeline.js'

/** How often an order is read that nothing changes any more, or only a refund. */
const paidEveryMs = 15_000

/** One order with everything about it, and what can be done to it. */
export function createOrder(app) {
  let order
  let history
  let readAt = 0

  return {
    title: () => (order ? `${t('order.one')} ${order.external_reference}` : t('order.one')),
    heading: () => order && [t('order.one'), ' ', name(order.external_reference)],
    async load(signal) {
      // Reading a paid order asks the provider each time.
      const isQuiet = order && (finalStates.includes(order.status) || canRefund(order))
      if (isQuiet && Date.now() - readAt < paidEveryMs && !app.isForced) return
      const path = `/orders/${encodeURIComponent(app.id)}`
      const query = app.clientQuery(app.query.of ?? app.client ?? (await clientOf(app, signal)))
      order = await app.api.get(path, query, signal)
      // After the order, whose reading may have added to it.
      history = await app.api.get(`${path}/timeline`, query, signal)
      readAt = Date.now()
    },
    head: () =>
      html`<a class="back" href=${app.link('orders', undefined, app.ordersQuery)}>← ${t('order.back')}</a>`,
    body() {
      if (!order || !history) return app.placeholder()
      return html`<div class="order-page">
        <div class="order-main">${summary(app, order)}${timeline(history, declineOf(order))}</div>
        <div class="order-side">${moneyPanel(order)}${details(app, order)}</div>
      </div>`
    },
  }
}

/** Whose order an address without a client means, which only the administrator may ask. */
async function clientOf(app, signal) {
  const { orders } = await app.api.get('/admin/orders', { order_id: app.id, limit: 1 }, signal)
  if (orders.length === 0)
    throw new ApiError(404, { code: 'NOT_FOUND', error: 'There is no such order' })
  return orders[0].client
}

function summary(app, order) {
  const tone = { charged: 'good', not_charged: 'quiet', unknown: 'warn' }[order.outcome]
  return html`<section class="panel summary">
    <div class="summary-top">
      <p class="value">${money(order.amount)}</p>
      <p>${orderBadges(order)} ${badge(tone, word('outcome', order.outcome))}</p>
    </div>
    ${order.stale ? note('warn', html`<p>${t('order.stale')}</p>`) : nothing}
    ${doubtNote(app, order)}
    ${note(
      order.paid_after_close ? 'bad' : 'plain',
      html`<p class="soft small">${t('order.advice')}</p>
        <p class="strong">${order.cashier.message}</p>
        <p class="small">${order.retry_safe ? t('order.retrySafe') : t('order.retryUnsafe')}</p>`,
    )}
    <div class="buttons">
      ${
        canRefund(order) && app.may('move_money')
          ? html`<button type="button" class="button main" @click=${() => askRefund(app, order)}>${t('refund.button')}</button>`
          : nothing
      }
      ${
        canCancel(order) && app.may('move_money')
          ? html`<button type="button" class="button danger" @click=${() => askCancel(app, order)}>${t('cancel.button')}</button>`
          : nothing
      }
      ${order.status_detail === 'cancellation_requested' ? html`<p class="soft">${t('cancel.waits')}</p>` : nothing}
    </div>
  </section>`
}

function details(app, order) {
  const id = (text) =>
    text ? html`<span class="id">${code(text)} ${copyButton(text)}</span>` : code(null)
  const { client, caja_id: box, status_detail, last_updated_at: updated } = order
  const detail = declineOf(order) ?? status_detail
  const of = app.isAdmin ? { client } : {}
  const link = (view, query, text) =>
    html`<a href=${app.link(view, undefined, { ...of, ...query })}>${text}</a>`
  return html`<section class="panel">
    <h2>${t('order.details')}</h2>
    ${facts([
      [t('order.reference'), name(order.external_reference)],
      [t('order.ticket'), order.ticket_number && name(order.ticket_number)],
      [t('order.description'), order.description && name(order.description)],
      [t('order.client'), app.isAdmin ? link('clients', {}, name(client)) : name(client)],
      [t('order.store'), name(order.sucursal_id)],
      [t('order.box'), boxLink(app, order)],
      [t('order.terminal'), code(order.terminal_id)],
      [t('order.asked'), word('method', order.payment_method)],
      [t('order.created'), fullTime(order.created_at)],
      [t('order.updated'), html`${time(updated)} (${relative(updated)})`],
      [t('order.expires'), openStates.includes(order.status) ? time(order.expires_at) : null],
      [t('order.id'), id(order.order_id)],
      [t('order.providerId'), id(order.mp_order_id)],
      [t('order.statusDetail'), detail && word('detail', detail)],
    ])}
    <p class="ways-on">
      ${link('orders', { caja_id: box }, t('order.ofBox'))}
      ${app.isAdmin ? link('webhooks', {}, t('order.webhooks')) : nothing}
      ${app.has('closings') ? link('closings', { caja_id: box }, t('order.closings')) : nothing}
    </p>
  </section>`
}
