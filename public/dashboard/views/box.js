import { errorSentence } from '../../shared/errors.js'
import { calendarDay, code, name, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html, nothing, repeat } from '../../shared/lit.js'
import { badge, empty, tile } from '../../shared/parts.js'
import { dayOf, startOfToday } from '../../shared/shop-clock.js'
import { money } from '../amounts.js'
import { askMode } from '../box-mode.js'
import { askClose } from '../closing-actions.js'
import { historyLine, openHistory } from '../fleet-history.js'
import { openFreeing } from '../free-terminal.js'
import { readTerminals } from '../terminals.js'
import { boxAbilities } from './box-abilities.js'
import { chooseClient } from './choose-client.js'
import { closingBadges } from './closing-state.js'
import { orderBadges } from './order-columns.js'
import { differenceOf } from './store-sales.js'

/** Terminals and closings change seldom, and asking for the former asks the provider. */
const seldomMs = 15_000
const ordersShown = 8
const changesShown = 5
const closingsShown = 5

/** One box: what it can do and why not, its terminals, sales of today, orders, changes of its state, and closings. */
export function createBox(app) {
  let shown
  let seldom = { of: undefined, readAt: 0 }

  return {
    isOfOne: true,
    title: () =>
      shown?.box ? `${t('order.box')} ${shown.box.name}` : `${t('order.box')} ${app.id}`,
    heading: () => name(shown?.box?.name ?? app.id),
    head: () => html`<a class="back" href=${app.link('stores')}>← ${t('box.back')}</a>`,
    async load(signal) {
      const { id, client } = app
      if (client === undefined) return
      const key = JSON.stringify([client, id])
      const isDue = seldom.of !== key || app.isForced || Date.now() - seldom.readAt > seldomMs
      const [overview, { orders }, rest] = await Promise.all([
        app.getOverview({ from: startOfToday() }, signal),
        app.getOrders({ caja_id: id, limit: ordersShown }, signal),
        isDue ? readSeldom(app, { client, id, key }, signal) : seldom,
      ])
      seldom = rest
      const box = overview.boxes.find((one) => one.caja_id === id && one.client === client)
      const sales = box && (await readSales(app, box, signal))
      shown = { key, box, sales, orders, fleet: overview.fleet }
    },
    body() {
      if (app.client === undefined) return chooseClient(app, t('stores.choose'))
      if (shown?.key !== JSON.stringify([app.client, app.id])) return app.placeholder()
      if (!shown.box) return empty(t('box.gone'), t('box.goneHint'))
      const { box, sales } = shown
      return html`
        ${where(box)}
        ${boxAbilities(app, { ...shown, ...seldom })}
        ${sales ? numbers(sales) : nothing}
        ${terminalPanel(app, box, seldom)}
        <div class="box-lists">
          ${orderPanel(app, box, shown.orders)}
          ${changePanel(app, box, seldom.changes)}
          ${app.has('closings') ? closingPanel(app, box, seldom.closings, sales) : nothing}
        </div>`
    },
  }
}

async function readSeldom(app, { client, id, key }, signal) {
  const ofBox = { ...app.clientQuery(client), caja_id: id }
  const [terminals, { changes }, { closings }] = await Promise.all([
    readTerminals(app, client, signal, { caja_id: id }),
    app.api.get('/health/fleet/changes', { client, caja_id: id, limit: changesShown }, signal),
    app.has('closings')
      ? app.api.get('/closings', { ...ofBox, limit: closingsShown }, signal)
      : { closings: [] },
  ])
  return { of: key, readAt: Date.now(), terminals, changes, closings }
}

/** What it sold today, by both records. */
async function readSales(app, { client, sucursal_id: store, caja_id: id }, signal) {
  const query = { ...app.clientQuery(client), from: startOfToday() }
  const { boxes } = await app.api.get(`/sales/${encodeURIComponent(store)}`, query, signal)
  return boxes.find((one) => one.caja_id === id)
}

function where({ name: own, caja_id: id, store_name: store, sucursal_id: storeId }) {
  return html`<p class="soft">${own.includes(id) ? nothing : html`${code(id)} · `}${name(store)}${
    store.includes(storeId) ? nothing : html` ${code(storeId)}`
  }</p>`
}

function numbers(sales) {
  const { provider, fees, refunded_amount: refunded } = sales
  const isQuiet = sales.paid === 0 && provider.payments === 0
  const given =
    refunded === '0.00' ? nothing : html`<br>${t('overview.refunded', { amount: money(refunded) })}`
  return html`<section class="numbers box-numbers" aria-label=${t('overview.today')}>
    ${tile(t('overview.approved'), money(sales.paid_amount), [count('overview.paidOrders', sales.paid), given], 'lead')}
    ${tile(t('sales.provider'), money(provider.amount), count('box.payments', provider.payments))}
    ${tile(t('sales.difference'), isQuiet ? '—' : differenceOf(sales), t('box.differenceHint'))}
    ${tile(t('sales.fees'), fees.orders === 0 ? '—' : money(fees.amount), t('box.feesHint'))}
  </section>`
}

function terminalPanel(app, box, { terminals: { list, failure } }) {
  const modes = ['PDV', 'STANDALONE'].filter((mode) =>
    list.some((terminal) => terminal.operating_mode !== mode),
  )
  const asked = { ...box, terminals: list.map(({ id }) => id) }
  const button = (text, onClick) =>
    html`<button type="button" class="button" @click=${onClick}>${text}</button>`
  return html`<section class="panel">
    <h2>${t('mode.terminals')}</h2>
    ${failure ? html`<p class="soft">${t('stores.terminalsUnknown')}: ${errorSentence(failure)}</p>` : nothing}
    ${!failure && list.length === 0 ? html`<p class="soft">${t('stores.noTerminal')}</p>` : nothing}
    <ul class="plain-list">${repeat(
      list,
      ({ id }) => id,
      ({ id, operating_mode: mode }) =>
        html`<li>${code(id)} ${badge(mode === 'PDV' ? 'good' : 'warn', word('operating', mode))}</li>`,
    )}</ul>
    <div class="buttons">
      ${app.may('switch_terminals') ? modes.map((mode) => button(t(`mode.to.${mode}`), () => askMode(app, asked, mode))) : nothing}
      ${
        app.isAdmin
          ? list.map(({ id }) => button(t('free.button'), () => openFreeing(app, box.client, id)))
          : nothing
      }
    </div>
  </section>`
}

/** A list of few lines with the way to all of them. */
function listPanel({ title, all, lines, none }) {
  return html`<section class="panel">
    <div class="panel-head"><h2>${title}</h2>${all}</div>
    ${lines.length === 0 ? html`<p class="soft">${none}</p>` : html`<ul class="short-lines">${lines}</ul>`}
  </section>`
}

function orderPanel(app, { client, caja_id: id }, orders) {
  const filter = { caja_id: id, client: app.isAdmin ? client : undefined }
  return listPanel({
    title: t('overview.latest'),
    all: html`<a href=${app.link('orders', undefined, filter)}>${t('overview.allOrders')}</a>`,
    none: t('orders.none'),
    lines: orders.map(
      (order) => html`<li>
        <a href=${app.orderLink(order)}>${name(order.external_reference, { class: 'clip' })}</a>
        <span class="strong">${money(order.amount)}</span>
        <span>${orderBadges(order)}</span> <span class="soft small">${time(order.created_at)}</span>
      </li>`,
    ),
  })
}

function changePanel(app, box, changes) {
  return listPanel({
    title: t('box.changes'),
    all:
      changes.length === 0
        ? nothing
        : html`<button type="button" class="button quiet small" @click=${() => openHistory(app, box)}>${t('box.allChanges')}</button>`,
    none: t('history.none'),
    lines: changes.map((change) => historyLine(app, change, box)),
  })
}

function closingPanel(app, { client, caja_id: id }, closings, sales) {
  const close = () => askClose(app, { cajaId: id, day: dayOf() })
  const isDue = sales?.closing === 'none' && sales.paid > 0 && app.may('close_days')
  return listPanel({
    title: t('nav.closings'),
    all: isDue
      ? html`<button type="button" class="button small" @click=${close}>${t('box.closeToday')}</button>`
      : nothing,
    none: t('box.noClosings'),
    lines: closings.map(
      (closing) => html`<li>
        <a href=${app.link('closings', closing.id, { client: app.isAdmin ? client : undefined })}
          >${t('closing.title', { number: closing.number, place: id })}</a>
        <span class="soft small">${calendarDay(closing.business_day)}</span>
        <span>${closingBadges(closing)}</span>
      </li>`,
    ),
  })
}
