import { calendarDay, code, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import { badge } from '../../shared/parts.js'
import { money, moneyOfCents } from '../amounts.js'
import { sumsOf, wasPaid } from '../money.js'
import { taxName } from '../tax-name.js'
import { methodOf } from './order-columns.js'

const paymentTones = { approved: 'good', rejected: 'bad' }

/** What came in for an order, what went back and what is kept of it; then each payment and refund. */
export function moneyPanel(order) {
  const { payments, refunds } = order
  if (payments.length === 0 && refunds.length === 0 && !wasPaid(order)) return nothing
  return html`<section class="panel">
    <h2>${t('money.title')}</h2>
    ${wasPaid(order) ? sums(order) : nothing}
    ${payments.length > 0 ? html`<h3>${t('payments.title')}</h3><ul class="plain-list moves">${payments.map(payment)}</ul>` : nothing}
    ${refunds.length > 0 ? html`<h3>${t('refunds.title')}</h3><ul class="plain-list moves">${refunds.map(refund)}</ul>` : nothing}
  </section>`
}

const line = (title, amount, style = '') =>
  html`<div class="sum-line ${style}"><dt>${title}</dt><dd>${amount}</dd></div>`

function sums(order) {
  const { byBuyer, paid, refunded } = sumsOf(order)
  const isOther = byBuyer !== paid
  return html`<dl class="sum-lines">
    ${isOther ? line(t('money.byBuyer'), moneyOfCents(byBuyer), 'part') : nothing}
    ${line(t(isOther ? 'money.received' : 'money.paid'), moneyOfCents(paid))}
    ${refunded > 0 ? line(t('money.refunded'), `− ${moneyOfCents(refunded)}`) : nothing}
    ${line(t('money.kept'), moneyOfCents(Math.max(0, paid - refunded)), 'total')}
    ${order.net ? netLines(order.net) : nothing}
  </dl>`
}

/** What the charge leaves after fees and taxes, as far as the provider has told. */
function netLines(amounts) {
  const { state, fee, financing, taxes, unexplained, net, release_on: release } = amounts
  const disputed = amounts.charged_back
  const less = (title, amount) =>
    /^-?0\.00$/.test(amount) ? nothing : line(title, lessened(amount), 'part')
  const more = (title, amount) =>
    amount === '0.00' ? nothing : line(title, `+ ${money(amount)}`, 'part')
  return html`${less(t('money.fee'), fee)}
    ${less(t('money.financing'), financing)}
    ${taxes.map((tax) => less(taxName(tax), tax.amount))}
    ${less(t('money.unexplained'), unexplained)}
    ${line(html`${t('money.net')} ${badge(state === 'differs' ? 'warn' : 'quiet', t(`money.${state}`))}`, money(net), 'total')}
    ${release ? line(t('money.release'), calendarDay(release), 'part') : nothing}
    ${disputed ? less(t('money.chargedBack'), disputed.taken) : nothing}
    ${disputed ? more(t('money.disputeWon'), disputed.returned) : nothing}`
}

/** What goes off; less than nothing comes back. */
function lessened(amount) {
  return amount.startsWith('-') ? money(amount.slice(1)) : `− ${money(amount)}`
}

function payment(one) {
  const { id, status, status_detail: detail, amount, paid_amount: paid, tip_amount: tip } = one
  const hasTip = Number(tip) > 0
  return html`<li>
    <p>
      ${badge(paymentTones[status] ?? 'info', word('payment', status))}
      ${one.is_surplus ? badge('bad', t('money.further')) : nothing}
      <strong>${money(paid ?? amount)}</strong>
    </p>
    ${hasTip ? html`<p class="soft small">${t('money.tip', { amount: money(tip) })}</p>` : nothing}
    <p class="soft small">${methodOf({ payments: [one] })}${detail ? ` · ${word('detail', detail)}` : ''}</p>
    <p class="small">${code(id)}</p>
  </li>`
}

function refund({ id, status, type, amount, buyer_amount: buyer, created_at: at }) {
  const tone = status === 'processed' ? 'moved' : 'info'
  return html`<li>
    <p>${badge(tone, word('refundStatus', status))} <strong>${money(amount)}</strong></p>
    <p class="soft small">${word('refundType', type)} · ${time(at)}</p>
    ${buyer ? html`<p class="soft small">${t('money.buyerGets', { amount: money(buyer) })}</p>` : nothing}
    <p class="small">${code(id)}</p>
  </li>`
}
