import { errorSentence } from '../../shared/errors.js'
import { code, name, relative } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html, nothing, repeat } from '../../shared/lit.js'
import { badge, empty, howMany, note } from '../../shared/parts.js'
import { startOfToday } from '../../shared/shop-clock.js'
import { money } from '../amounts.js'
import { askMode } from '../box-mode.js'
import { openFreeing } from '../free-terminal.js'
import { soldToday, stateOf } from './box-lights.js'
import { chooseClient } from './choose-client.js'

/** Listing terminals asks the provider, so it happens less often than the rest. */
const terminalsEveryMs = 15_000
const terminalsPerPage = 50
const pagesAtMost = 20

/** Stores of one client with their boxes, the terminals of each box, and the mode those work in. */
export function createStores(app) {
  let shown
  let terminals = { of: undefined, list: [], failure: undefined, readAt: 0 }

  return {
    isOfOne: true,
    title: () => t('nav.stores'),
    async load(signal) {
      const { client } = app
      if (client === undefined) {
        shown = undefined
        return
      }
      const isDue = terminals.of !== client || Date.now() - terminals.readAt > terminalsEveryMs
      const [{ stores, total }, { boxes }, found] = await Promise.all([
        app.api.get('/stores', app.clientQuery(), signal),
        app.getOverview({ from: startOfToday() }, signal),
        isDue || app.isForced ? readTerminals(app, client, signal) : terminals,
      ])
      terminals = found
      const states = new Map(boxes.map((box) => [box.caja_id, box]))
      shown = { client, stores, total, states }
    },
    body() {
      if (app.client === undefined) return chooseClient(app, t('stores.choose'))
      if (!shown || shown.client !== app.client) return app.placeholder()
      const { box } = app.query
      const others = terminals.list.filter(({ caja_id: id }) => id === null)
      const stores = shown.stores.filter(({ pos }) => !box || pos.some(isBox(box)))
      return html`
        ${howMany('stores.count', shown.total)}
        ${box ? html`<p>${t('stores.onlyBox')} ${code(box)} · <a href=${app.link('stores')}>${t('stores.all')}</a></p>` : nothing}
        ${
          terminals.failure
            ? note(
                'warn',
                html`<p>${t('stores.terminalsFailed')}</p><p>${errorSentence(terminals.failure)}</p>`,
              )
            : nothing
        }
        ${shown.stores.length === 0 ? empty(t('stores.none'), noneHint(app)) : nothing}
        ${repeat(
          stores,
          ({ id }) => id,
          (store) => storePanel(app, store, shown.states, terminals),
        )}
        ${others.length > 0 && !box ? otherTerminals(others) : nothing}`
    },
  }
}

const isBox =
  (id) =>
  ({ external_id: own }) =>
    own === id

/** Only the administrator may make them here, with everything else that a new client needs. */
function noneHint(app) {
  if (!app.isAdmin) return t('stores.noneHint')
  return html`${t('stores.noneHint')} <a href=${app.link('clients', undefined, { client: app.client })}>${t('clients.setUp')}</a>`
}

function otherTerminals(others) {
  return html`<section class="panel">
    <h2>${t('stores.others')}</h2>
    <p class="soft small">${t('stores.othersHint')}</p>
    ${terminalList(others)}
  </section>`
}

function terminalList(terminals) {
  const line = (terminal) => html`<li>${terminalLine(terminal)}</li>`
  return html`<ul class="plain-list">${repeat(terminals, ({ id }) => id, line)}</ul>`
}

async function readTerminals(app, client, signal) {
  const list = []
  try {
    for (let page = 0; page < pagesAtMost; page += 1) {
      const answer = await app.api.get(
        '/terminals',
        { ...app.clientQuery(), limit: terminalsPerPage, offset: page * terminalsPerPage },
        signal,
      )
      list.push(...answer.terminals)
      if (answer.terminals.length < terminalsPerPage) break
    }
    return { of: client, list, failure: undefined, readAt: Date.now() }
  } catch (failure) {
    // Stores are known here even when the provider is not to be reached; a lost session or service is another matter.
    if (failure.status === undefined || failure.status === 401) throw failure
    return { of: client, list: [], failure, readAt: Date.now() }
  }
}

function storePanel(app, store, states, terminals) {
  const {
    street_name: street,
    street_number: house,
    city_name: city,
    state_name: state,
  } = store.location
  const boxes = store.pos.filter(({ external_id: id }) => !app.query.box || id === app.query.box)
  const card = (box) => boxCard(app, { store, box, state: states.get(box.external_id) }, terminals)
  return html`<section class="panel">
    <div class="panel-head">
      <h2>${name(store.name)}</h2>
      <p>${idUnlessNamed(store)}${unfinished(store)}</p>
    </div>
    <p class="soft">${name(`${street} ${house}, ${city}, ${state}`)}</p>
    ${
      boxes.length === 0
        ? html`<p class="soft">${t('stores.noBoxes')}</p>`
        : html`<ul class="boxes">${repeat(boxes, ({ id }) => id, card)}</ul>`
    }
  </section>`
}

/** The ERP's id, where the name does not tell it. */
function idUnlessNamed({ name, external_id: id }) {
  return name.includes(id) ? nothing : code(id)
}

function unfinished({ state }) {
  return state === 'active' ? nothing : html` ${badge('warn', word('creation', state))}`
}

function boxCard(app, { store, box, state }, { list, failure }) {
  const own = list.filter(
    (terminal) =>
      terminal.caja_id === box.external_id && terminal.sucursal_id === store.external_id,
  )
  const toOffer = ['PDV', 'STANDALONE'].filter((mode) =>
    own.some((terminal) => terminal.operating_mode !== mode),
  )
  const button = (text, about, onClick) =>
    html`<button type="button" class="button small" @click=${onClick}>${text}<span class="visually-hidden"> (${about})</span></button>`
  const way = (view, key) =>
    html`<a href=${app.link(view, undefined, { caja_id: box.external_id })}>${t(key)}<span class="visually-hidden"> (${box.name})</span></a>`
  return html`<li class="box">
    <h3>${name(box.name)}</h3>
    <p>${idUnlessNamed(box)}${unfinished(box)}</p>
    ${state ? boxState(app, state) : nothing}
    ${
      own.length > 0
        ? terminalList(own)
        : html`<p class="soft small">${t(failure ? 'stores.terminalsUnknown' : 'stores.noTerminal')}</p>`
    }
    <p class="buttons">
      ${toOffer.map((mode) => button(t(`mode.to.${mode}`), box.name, () => askMode(app, modeBox(app, box, own), mode)))}
      ${
        app.isAdmin
          ? own.map(({ id }) =>
              button(t('free.button'), own.length > 1 ? id : box.name, () =>
                openFreeing(app, app.client, id),
              ),
            )
          : nothing
      }
    </p>
    <p class="ways-on small">${way('orders', 'box.orders')}${app.has('closings') ? way('closings', 'nav.closings') : nothing}</p>
  </li>`
}

/** How the box fares, what it sold today and which order holds its terminal now. */
function boxState(app, state) {
  const { tone, text, short = text } = stateOf(state)
  const { open_order: order, last_order_at: last } = state
  return html`<p><span class="box-state ${tone}">${short}</span>${last ? html` <span class="soft small">${relative(last)}</span>` : nothing}</p>
    ${short === text ? nothing : html`<p class="small">${text}</p>`}
    <p class="small">${soldToday(state)}</p>
    ${order ? heldBy(app, { ...order, client: state.client }) : nothing}`
}

function heldBy(app, order) {
  // What was sent holds the terminal, be it on its way to the customer or in doubt: the order itself tells which.
  const isWaiting = order.status === 'created'
  return html`<p class="small">${t('box.heldBy')}
    <a href=${app.orderLink(order)}>${name(order.external_reference)}</a>
    · ${money(order.amount)}${isWaiting ? '' : ` · ${word('status', order.status)}`}, ${relative(order.created_at)}</p>`
}

function terminalLine({ id, operating_mode: mode }) {
  return [code(id), ' ', badge(mode === 'PDV' ? 'good' : 'quiet', word('operating', mode))]
}

/** A box with its terminals, as the question about their mode takes it. */
function modeBox({ client }, { external_id: id, name: own }, terminals) {
  return { client, caja_id: id, name: own, terminals: terminals.map((terminal) => terminal.id) }
}
