import { code, relative, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html, repeat } from '../../shared/lit.js'
import { badge, empty, howMany, pageOf, pager, pageSize } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { boxLink } from '../box-link.js'
import { closingWays } from './closing-ways.js'
import '../closings-page-texts.js'

const states = ['open', 'unknown', 'won', 'lost']
const tones = { open: 'warn', unknown: 'warn', won: 'good', lost: 'bad' }

/** Disputes of buyers about payments, of one client or of all. What is done about them is done at the provider. */
export function createChargebacks(app) {
  let shown
  return {
    title: () => t('chargebacks.title'),
    async load(signal) {
      const page = pageOf(app.query)
      const answer = await app.api.get(
        '/chargebacks',
        {
          ...app.clientQuery(),
          state: stateOf(app.query),
          limit: pageSize,
          offset: (page - 1) * pageSize,
        },
        signal,
      )
      shown = { client: app.client, page, of: stateOf(app.query), ...answer }
    },
    body() {
      const isShown = shown && shown.client === app.client
      return [
        closingWays(app, 'chargebacks'),
        html`<p class="soft">${t('chargebacks.about')}</p>`,
        stateFilter(app),
        isShown ? list(app, shown) : app.placeholder(),
      ]
    },
  }
}

function stateOf({ state }) {
  return states.includes(state) ? state : undefined
}

function stateFilter(app) {
  const chosen = stateOf(app.query) ?? 'all'
  const change = ({ target }) => app.setQuery({ state: target.value, page: undefined })
  return html`<form class="filters" @submit=${(event) => event.preventDefault()}>
    <label class="field">
      <span class="label">${t('chargebacks.state')}</span>
      <select name="state" @change=${change}>
        ${['all', ...states].map(
          (state) =>
            html`<option value=${state} ?selected=${state === chosen}>
              ${word('chargeback', state)}
            </option>`,
        )}
      </select>
    </label>
  </form>`
}

function list(app, { chargebacks, total, page, of }) {
  if (chargebacks.length === 0) {
    return empty(t('chargebacks.none'), of === undefined ? t('chargebacks.noneHint') : undefined)
  }
  const next = page * pageSize < total ? String(page + 1) : undefined
  return [
    howMany('chargebacks.count', total),
    html`<ul class="orphans">
      ${repeat(
        chargebacks,
        ({ id }) => id,
        (one) => card(app, one),
      )}
    </ul>`,
    pager({
      page,
      total,
      next_cursor: next,
      previous_cursor: page > 1 ? String(page - 1) : undefined,
      hrefOf: ({ page: to }) => app.link('closings', 'chargebacks', { ...app.query, page: to }),
    }),
  ]
}

function card(app, one) {
  const { state, amount, caja_id: box, sucursal_id: store, order_id: order } = one
  const isOpen = state === 'open' || state === 'unknown'
  const fact = (name, value) => html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`
  const none = html`<span class="soft">—</span>`
  const of = app.isAdmin && app.client === undefined ? one.client : undefined
  const href = order && app.link('orders', order, { of: app.isAdmin ? one.client : undefined })
  return html`<li class="chargeback orphan panel" data-case=${one.case_id ?? ''}>
    <div class="panel-head">
      <h2 class="amount">${amount === null ? t('chargebacks.amountUnknown') : money(amount)}</h2>
      ${badge(tones[state], word('chargeback', state))}
    </div>
    <dl class="facts">
      ${of === undefined ? null : fact(t('chargebacks.client'), of)}
      ${fact(t('order.box'), box === null ? none : html`${boxLink(app, { client: one.client, caja_id: box })} <span class="soft small">${store}</span>`)}
      ${fact(t('chargebacks.case'), one.case_id === null ? none : code(one.case_id))}
      ${fact(t('orphans.payment'), code(one.payment_id))}
      ${fact(t('chargebacks.reason'), one.reason ?? none)}
      ${fact(t('chargebacks.found'), relative(one.found_at))}
      ${
        isOpen
          ? fact(t('chargebacks.due'), dueOf(one))
          : fact(t('chargebacks.decided'), time(one.decided_at))
      }
    </dl>
    <p>
      ${isOpen ? html`<span>${t(`chargebacks.help.${helpOf(one)}`)}</span>` : null}
      ${href ? html`<a href=${href}>${t('line.order')}</a>` : null}
    </p>
  </li>`
}

function dueOf({ documents_due_at: at, documentation_status: status }) {
  if (at === null) return html`<span class="soft">—</span>`
  return status === 'pending' ? html`<strong>${relative(at)}</strong>` : time(at)
}

function helpOf({ state, documentation_status: status, documents_due_at: at }) {
  if (state === 'unknown') return 'unknown'
  const isInTime = at !== null && Date.parse(at) > Date.now()
  return status === 'pending' && isInTime ? 'documents' : 'wait'
}
