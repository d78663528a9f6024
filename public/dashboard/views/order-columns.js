import { name, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { badge } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { boxLink } from '../box-link.js'
import { statesOnTerminal } from '../order-states.js'

/** Columns of a list of orders; the client only where several are shown. */
export function orderColumns(app) {
  const clip = { class: 'clip' }
  const columns = [
    {
      id: 'reference',
      title: t('order.reference'),
      cell: (order) =>
        html`<a class="row-link" href=${app.orderLink(order)}>${name(order.external_reference, clip)}</a>`,
    },
    { id: 'amount', title: t('order.amount'), numeric: true, cell: (order) => money(order.amount) },
    {
      id: 'status',
      title: t('order.status'),
      cell: (order) => [orderBadges(order), reasonOf(order)],
    },
    { id: 'how', title: t('order.method'), cell: methodOf },
    { id: 'box', title: t('order.box'), cell: (order) => boxLink(app, order, clip) },
    { id: 'client', title: t('order.client'), cell: (order) => name(order.client, clip) },
    { id: 'time', title: t('order.created'), cell: (order) => time(order.created_at) },
  ]
  const showsClient = app.isAdmin && app.client === undefined
  return columns.filter(({ id }) => id !== 'client' || showsClient)
}

function reasonOf(order) {
  const reason = declineOf(order)
  return reason && html`<span class="reason soft small">${word('detail', reason)}</span>`
}

/** Why a charge failed, in the word of the payment that was refused last; null when nobody says, or it did not fail. */
export function declineOf({ status, status_detail: detail, payments }) {
  if (status !== 'failed') return null
  const reason = payments.findLast((payment) => payment.status === 'rejected')?.status_detail
  return reason ?? (detail === 'failed' ? null : detail)
}

/** How it was paid, or was to be. */
export function methodOf(order) {
  const method = order.payments.at(-1)?.payment_method
  if (!method?.type) {
    return order.payment_method === 'all'
      ? html`<span class="soft none">—</span>`
      : html`<span class="soft">${word('method', order.payment_method)}</span>`
  }
  const parts = [word('method', method.type), method.id && word('brand', method.id)]
  if (method.installments > 1) parts.push(t('order.installments', { count: method.installments }))
  return parts.filter(Boolean).join(' · ')
}

const tones = {
  created: 'info',
  at_terminal: 'info',
  action_required: 'warn',
  processed: 'good',
  failed: 'bad',
  canceled: 'quiet',
  expired: 'quiet',
  refunded: 'moved',
  partially_refunded: 'moved',
}

/** The color of a state of an order. */
export function orderTone(status) {
  return tones[status] ?? 'quiet'
}

/**
 * State of an order. What waits for nobody any more is not called on its way: it is in doubt, or somebody has said what came
 * of it. Money that came after its close is told beside it.
 */
export function orderBadges(order) {
  const { status, standing, settled, given_up_at: givenUp } = order
  const isOnTerminal = statesOnTerminal.includes(status)
  const isDoubt = standing === 'in_doubt' && status !== 'action_required'
  const state =
    isOnTerminal && isDoubt
      ? badge('warn', t('standing.doubt'))
      : settled && isOnTerminal
        ? badge('quiet', t(`settled.${settled.as}`))
        : badge(orderTone(status), word('status', status))
  return [
    state,
    isDoubt && !isOnTerminal && badge('warn', t('standing.doubt')),
    isDoubt && givenUp && badge('quiet', t('order.givenUp')),
    order.paid_after_close && badge('bad', t('order.paidAfterClose')),
  ].filter(Boolean)
}
