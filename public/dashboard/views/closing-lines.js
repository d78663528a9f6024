import { clock } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html, repeat } from '../../shared/lit.js'
import { badge } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { boxLink } from '../box-link.js'

/** What differs before what is only not known yet; and first what may cost money. */
const urgency = {
  missing_there: 0,
  missing_here: 1,
  paid_late: 2,
  paid_less: 3,
  amount_differs: 4,
  other_medium: 5,
  other_box: 6,
  counted_otherwise: 7,
  in_doubt: 8,
  pending: 9,
  dismissed: 10,
}

/** Not what is unknown yet, nor what a person explained. */
export function isDifference({ kind }) {
  return kind !== 'pending' && kind !== 'in_doubt' && kind !== 'dismissed'
}

/** What differs, line by line: both sides, the sentence for the cashier, and where something is done about it. */
export function differenceList(app, lines) {
  const sorted = lines.toSorted((a, b) => urgency[a.kind] - urgency[b.kind])
  return html`<ul class="differences">
    ${repeat(
      sorted,
      ({ kind, order_id: order, payment_id: payment, counted }) =>
        `${kind} ${order} ${payment} ${counted?.medium}`,
      (line) => difference(app, line),
    )}
  </ul>`
}

function difference(app, line) {
  const { kind, external_reference: reference, payment_id: payment, counted } = line
  const { here, there, message } = line
  const tone = isDifference(line) ? 'bad' : 'info'
  return html`<li class="difference ${tone}">
    <p class="difference-head">
      ${badge(tone, word('difference', kind))}
      <bdi class="strong">${counted ? word('method', counted.medium) : (reference ?? t('line.payment', { payment }))}</bdi>
    </p>
    ${
      counted
        ? null
        : html`<div class="sides">
            ${side(app, t('closings.here'), here, t('line.notHere'))}
            ${side(app, t('closings.there'), there, t('line.notThere'))}
          </div>`
    }
    <p>${message}</p>
    <p class="buttons">${action(app, line)}</p>
  </li>`
}

function side(app, title, of, missing) {
  if (!of) {
    return html`<div class="side absent">
      <h3>${title}</h3>
      <p>${missing}</p>
    </div>`
  }
  const { amount, refunded, method, caja_id: box, at } = of
  return html`<div class="side">
    <h3>${title}</h3>
    <p class="amount">${money(amount)}</p>
    ${
      Number(refunded) > 0
        ? html`<p class="small">${t('overview.refunded', { amount: money(refunded) })}</p>`
        : null
    }
    <p class="soft small">${method ? html`${word('method', method)} · ` : null}${box ? html`${boxLink(app, { caja_id: box })} · ` : null}${clock(at)}</p>
  </div>`
}

/** Where one goes to do what helps; what is not done here is said in words. */
function action(app, { action: verb, order_id: order, payment_id: payment }) {
  const say = html`<span class="soft small">${word('lineAction', verb)}</span>`
  if (order !== null) {
    const href = app.link('orders', order, { of: app.isAdmin ? app.client : undefined })
    return html`<a class="button small" href=${href}>${t('line.order')}</a> ${say}`
  }
  if (verb !== 'adopt_or_refund') return say
  const href = app.link('closings', 'orphans', { payment: payment ?? undefined })
  return html`<a class="button small main" href=${href}>${t('line.orphan')}</a> ${say}`
}
