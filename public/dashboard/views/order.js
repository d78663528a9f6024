import { ApiError } from '../../shared/api.js'
import { copyButton } from '../../shared/copy.js'
import { h } from '../../shared/dom.js'
import { code, fullTime, name, relative, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { badge, facts, note, table } from '../../shared/parts.js'
import { money, moneyOfCents } from '../amounts.js'
import { sumsOf } from '../money.js'
import { askCancel, askRefund, canCancel, canRefund } from '../order-actions.js'
import { declineOf, methodOf, orderBadges } from './order-columns.js'
import { timeline } from './timeline.js'

/** States that nothing changes any more, so looking rarely is enough. */
const final = new Set(['canceled', 'failed', 'expired', 'refunded'])
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
      const isQuiet = order && (final.has(order.status) || canRefund(order))
      if (isQuiet && Date.now() - readAt < paidEveryMs && !app.isForced) return
      const path = `/orders/${encodeURIComponent(app.id)}`
      const query = app.clientQuery(app.query.of ?? app.client ?? (await clientOf(app, signal)))
      order = await app.api.get(path, query, signal)
      // After the order, whose reading may have added to it.
      history = await app.api.get(`${path}/timeline`, query, signal)
      readAt = Date.now()
    },
    head: () =>
      h(
        'a',
        { class: 'back', href: app.link('orders', undefined, app.ordersQuery) },
        '← ',
        t('order.back'),
      ),
    body() {
      if (!order || !history) return app.placeholder()
      return [
        summary(app, order),
        payments(order),
        refunds(order),
        timeline(history, declineOf(order)),
        details(order),
      ]
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
  return h(
    'section',
    { key: 'summary', class: 'panel summary' },
    h(
      'div',
      { class: 'summary-top' },
      h('p', { class: 'value' }, money(order.amount)),
      h('p', null, orderBadges(order), ' ', badge(tone, word('outcome', order.outcome))),
    ),
    order.stale && note('warn', h('p', null, t('order.stale'))),
    note(
      order.paid_after_close ? 'bad' : 'plain',
      h('p', { class: 'soft small' }, t('order.advice')),
      h('p', { class: 'strong' }, order.cashier.message),
      h('p', { class: 'small' }, order.retry_safe ? t('order.retrySafe') : t('order.retryUnsafe')),
    ),
    h(
      'div',
      { class: 'buttons' },
      canRefund(order) &&
        h(
          'button',
          {
            key: 'refund',
            type: 'button',
            class: 'button main',
            onclick: () => askRefund(app, order),
          },
          t('refund.button'),
        ),
      canCancel(order) &&
        h(
          'button',
          {
            key: 'cancel',
            type: 'button',
            class: 'button danger',
            onclick: () => askCancel(app, order),
          },
          t('cancel.button'),
        ),
      order.status === 'at_terminal' &&
        h('p', { key: 'terminal', class: 'soft' }, t('cancel.atTerminal')),
    ),
  )
}

function payments({ payments }) {
  if (payments.length === 0) return null
  const tone = { approved: 'good', rejected: 'bad' }
  return h(
    'section',
    { key: 'payments', class: 'panel' },
    h('h2', null, t('payments.title')),
    table({
      label: t('payments.title'),
      columns: [
        {
          id: 'status',
          title: t('order.status'),
          cell: ({ status }) => badge(tone[status] ?? 'info', word('payment', status)),
        },
        {
          id: 'detail',
          title: t('payments.detail'),
          cell: ({ status_detail: detail }) => (detail ? word('detail', detail) : '—'),
        },
        {
          id: 'amount',
          title: t('order.amount'),
          numeric: true,
          cell: ({ amount }) => money(amount),
        },
        {
          id: 'paid',
          title: t('payments.paid'),
          numeric: true,
          cell: ({ paid_amount: paid }) => (paid === null ? '—' : money(paid)),
        },
        {
          id: 'how',
          title: t('order.method'),
          cell: (payment) => methodOf({ payments: [payment] }),
        },
        { id: 'id', title: 'ID', cell: ({ id }) => code(id) },
      ],
      rows: payments,
      keyOf: ({ id }) => id,
    }),
  )
}

function refunds(order) {
  if (order.refunds.length === 0) return null
  const { refunded } = sumsOf(order)
  return h(
    'section',
    { key: 'refunds', class: 'panel' },
    h(
      'div',
      { class: 'panel-head' },
      h('h2', null, t('refunds.title')),
      h('p', null, t('refunds.sum', { amount: moneyOfCents(refunded) })),
    ),
    table({
      label: t('refunds.title'),
      columns: [
        {
          id: 'status',
          title: t('order.status'),
          cell: ({ status }) =>
            badge(status === 'processed' ? 'moved' : 'info', word('refundStatus', status)),
        },
        { id: 'type', title: t('refunds.type'), cell: ({ type }) => word('refundType', type) },
        {
          id: 'amount',
          title: t('order.amount'),
          numeric: true,
          cell: ({ amount }) => money(amount),
        },
        { id: 'time', title: t('refunds.made'), cell: ({ created_at: at }) => time(at) },
        { id: 'id', title: 'ID', cell: ({ id }) => code(id) },
      ],
      rows: order.refunds,
      keyOf: ({ id }) => id,
    }),
  )
}

function details(order) {
  const id = (text) =>
    text ? h('span', { class: 'id' }, code(text), ' ', copyButton(text)) : code(null)
  const detail = declineOf(order) ?? order.status_detail
  return h(
    'section',
    { key: 'details', class: 'panel' },
    h('h2', null, t('order.details')),
    facts([
      [t('order.reference'), name(order.external_reference)],
      [t('order.ticket'), order.ticket_number && name(order.ticket_number)],
      [t('order.description'), order.description && name(order.description)],
      [t('order.client'), name(order.client)],
      [t('order.store'), name(order.sucursal_id)],
      [t('order.box'), name(order.caja_id)],
      [t('order.terminal'), code(order.terminal_id)],
      [t('order.asked'), word('method', order.payment_method)],
      [t('order.statusDetail'), detail && word('detail', detail)],
      [t('order.created'), fullTime(order.created_at)],
      [
        t('order.updated'),
        [time(order.last_updated_at), ' (', relative(order.last_updated_at), ')'],
      ],
      [t('order.expires'), time(order.expires_at)],
      [t('order.id'), id(order.order_id)],
      [t('order.providerId'), id(order.mp_order_id)],
    ]),
  )
}
