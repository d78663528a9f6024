import { code, relative, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html, repeat } from '../../shared/lit.js'
import { badge, empty, howMany, pageOf, pager, pageSize } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { boxLink } from '../box-link.js'
import { askAdopt, askDismiss, askOrphanRefund } from '../closing-actions.js'
import { chooseClient } from './choose-client.js'
import { closingWays } from './closing-ways.js'
import '../closings-page-texts.js'

const states = ['open', 'adopted', 'refunded', 'dismissed']
const tones = { open: 'warn', adopted: 'good', refunded: 'moved', dismissed: 'quiet' }

/** Charges that the provider has and no order stands for, each with what can be done about it. */
export function createOrphans(app) {
  let shown
  return {
    isOfOne: true,
    title: () => t('orphans.title'),
    async load(signal) {
      const { client, query } = app
      if (client === undefined) {
        shown = undefined
        return
      }
      const page = pageOf(query)
      const answer = await app.api.get(
        '/orphans',
        {
          ...app.clientQuery(),
          state: stateOf(query),
          limit: pageSize,
          offset: (page - 1) * pageSize,
        },
        signal,
      )
      shown = { client, page, of: stateOf(query), ...answer }
    },
    body() {
      if (app.client === undefined) return chooseClient(app)
      const isShown = shown?.client === app.client
      return [
        closingWays(app, 'orphans'),
        html`<p class="soft">${t('orphans.about')}</p>`,
        stateFilter(app),
        isShown ? list(app, shown) : app.placeholder(),
      ]
    },
  }
}

/** Those that wait for somebody, unless the address says otherwise; `all` asks for no state. */
function stateOf({ state }) {
  if (state === 'all') return undefined
  return states.includes(state) ? state : 'open'
}

function stateFilter(app) {
  const chosen = stateOf(app.query) ?? 'all'
  const change = ({ target }) => app.setQuery({ state: target.value, page: undefined })
  return html`<form class="filters" @submit=${(event) => event.preventDefault()}>
    <label class="field">
      <span class="label">${t('orphans.state')}</span>
      <select name="state" @change=${change}>
        ${[...states, 'all'].map(
          (state) =>
            html`<option value=${state} ?selected=${state === chosen}>
              ${word('orphan', state)}
            </option>`,
        )}
      </select>
    </label>
  </form>`
}

function list(app, { orphans, total, page, of }) {
  if (orphans.length === 0) {
    return of === 'open'
      ? empty(t('orphans.none'), t('orphans.noneHint'))
      : empty(t('orphans.noneOf'))
  }
  const isAsked = ({ payment_id: payment }) => Number(payment === app.query.payment)
  const askedFirst = orphans.toSorted((a, b) => isAsked(b) - isAsked(a))
  const next = page * pageSize < total ? String(page + 1) : undefined
  return [
    howMany('orphans.count', total),
    html`<ul class="orphans">
      ${repeat(
        askedFirst,
        ({ id }) => id,
        (orphan) => card(app, orphan),
      )}
    </ul>`,
    pager({
      page,
      total,
      next_cursor: next,
      previous_cursor: page > 1 ? String(page - 1) : undefined,
      hrefOf: ({ page: to }) => app.link('closings', 'orphans', { ...app.query, page: to }),
    }),
  ]
}

/** The order that the charge is a further payment of. */
function furtherOf(app, { surplus_of: order }) {
  if (!order) return null
  return html`<p>${t('orphans.further')} <a href=${orderHref(app, order)}>${t('line.order')}</a></p>`
}

function card(app, orphan) {
  const { state, amount, caja_id: box, sucursal_id: store, payment_id: payment, at } = orphan
  const isAsked = payment === app.query.payment
  return html`<li class="orphan panel ${isAsked ? 'asked' : ''}" data-payment=${payment}>
    <div class="panel-head">
      <h2 class="amount">${money(amount)}</h2>
      ${badge(tones[state], word('orphan', state))}
    </div>
    <dl class="facts">
      <div>
        <dt>${t('order.box')}</dt>
        <dd>${box ? boxLink(app, { caja_id: box }) : code(box)} <span class="soft small">${store}</span></dd>
      </div>
      <div>
        <dt>${t('orphans.at')}</dt>
        <dd>${time(at)}</dd>
      </div>
      <div>
        <dt>${t('orphans.found')}</dt>
        <dd>${relative(orphan.found_at)}</dd>
      </div>
      <div>
        <dt>${t('orphans.payment')}</dt>
        <dd>${code(payment)}</dd>
      </div>
      ${
        orphan.mp_order_id &&
        html`<div>
          <dt>${t('orphans.providerOrder')}</dt>
          <dd>${code(orphan.mp_order_id)}</dd>
        </div>`
      }
      ${
        orphan.similar_order_ids.length > 0 && state === 'open'
          ? html`<div>
              <dt>${t('orphans.similar')}</dt>
              <dd>${orphan.similar_order_ids.map((id) => html`<a href=${orderHref(app, id)}>${t('line.order')}</a> `)}</dd>
            </div>`
          : null
      }
    </dl>
    ${furtherOf(app, orphan)}
    ${state === 'open' ? choices(app, orphan) : ending(app, orphan)}
  </li>`
}

function choices(app, orphan) {
  if (!app.may('move_money')) return null
  const choice = (text, act, extra) =>
    html`<button type="button" class="button ${extra}" @click=${() => act(app, orphan)}>${text}</button>`
  return html`<div class="buttons">
    ${choice(t('adopt.button'), askAdopt, 'main')}
    ${choice(t('orphanRefund.button'), askOrphanRefund, 'danger')}
    ${choice(t('dismiss.button'), askDismiss, '')}
  </div>`
}

function orderHref(app, id) {
  return app.link('orders', id, { of: app.isAdmin ? app.client : undefined })
}

function ending(app, { reason, order_id: order }) {
  const href = order && orderHref(app, order)
  return html`<p>
    ${reason ? html`<span class="soft">${t('reason.label')}:</span> <bdi>${reason}</bdi>` : null}
    ${order ? html`<a href=${href}>${t('line.order')}</a>` : null}
  </p>`
}
