import { name, relative } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import { badge } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { helpWith, helpWithBox } from '../help.js'

const tones = { yes: 'good', but: 'warn', no: 'bad', unknown: 'quiet' }

/** What a box can do now, each with why not and what helps: charge, give money back, close the day. */
export function boxAbilities(app, { box, fleet, sales, terminals }) {
  const abilities = [
    ['charge', charging(app, box, terminals)],
    ['refund', refunding(app, box, fleet)],
    ...(app.has('closings') && sales ? [['close', closing(sales)]] : []),
  ]
  return html`<section class="panel abilities" aria-labelledby="abilities">
    <h2 id="abilities">${t('box.abilities')}</h2>
    <ul class="plain-list">${abilities.map(
      ([ability, { can, text, help }]) => html`<li class="ability ${tones[can]}">
        <p class="strong">${t(`ability.${ability}`)} ${badge(tones[can], t(`can.${can}`))}</p>
        ${text ? html`<p>${text}</p>` : nothing}
        ${help ? html`<div class="buttons">${help}</div>` : nothing}
      </li>`,
    )}</ul>
  </section>`
}

function charging(app, box, { list, failure }) {
  const { health, client, caja_id: id, open_order: order, last_order_at: last } = box
  const help = () => helpWithBox(app, { ...health, client, caja_id: id }, box.name)
  if (health?.state === 'down') return { can: 'no', text: health.message, help: help() }
  // The list of terminals is fresher than what the last charge has shown.
  if (!failure && list.length === 0) return { can: 'no', text: t('box.noTerminal') }
  if (!failure && !list.some(({ operating_mode: mode }) => mode === 'PDV')) {
    return { can: 'no', text: t('box.notIntegrated') }
  }
  if (order) return { can: 'but', text: heldBy(app, { ...order, client }) }
  if (health?.state === 'attention') return { can: 'but', text: health.message, help: help() }
  const lastText = last ? html`${t('box.lastOrder')} ${relative(last)}.` : t('box.neverCharged')
  return health?.state === 'ok'
    ? { can: 'yes', text: lastText }
    : { can: 'unknown', text: html`${t('box.unknown')} ${lastText}` }
}

/** The order that holds the terminal now; it may be on its way to the customer, or in doubt. */
function heldBy(app, order) {
  const isWaiting = order.status === 'created'
  return html`${t('box.heldBy')} <a href=${app.orderLink(order)}>${name(order.external_reference)}</a>
    · ${money(order.amount)}${isWaiting ? '' : ` · ${word('status', order.status)}`}, ${relative(order.created_at)}`
}

/** Money is refunded by the connection of the client and not by the terminal. */
function refunding(app, { client }, { connections }) {
  const lost = connections.find((one) => one.client === client && one.state === 'down')
  return lost
    ? { can: 'no', text: lost.message, help: helpWith(app, lost) }
    : { can: 'yes', text: t('box.refundText') }
}

function closing({ closing: state, paid }) {
  if (state !== 'none') return { can: 'yes', text: t('box.closedText') }
  return paid > 0
    ? { can: 'yes', text: t('box.closeText') }
    : { can: 'yes', text: t('box.nothingToClose') }
}
