import { errorSentence } from '../../shared/errors.js'
import { code, name, number, relative } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html, nothing, repeat } from '../../shared/lit.js'
import { badge, empty, note } from '../../shared/parts.js'
import { startOfToday } from '../../shared/shop-clock.js'
import { boxHref } from '../box-link.js'
import { readTerminals } from '../terminals.js'
import { createBox } from './box.js'
import { soldToday, stateOf } from './box-lights.js'
import { chooseClient } from './choose-client.js'
import { finder, naturally } from './finder.js'

/** Listing terminals asks the provider, so it happens less often than the rest. */
const terminalsEveryMs = 15_000
/** With so few boxes every store is open. */
const few = 12
const storesAtOnce = 25
const problems = new Set(['bad', 'warn'])

/** One box by its id in the address, or all stores of a client with their boxes. */
export function createStores(app) {
  return app.id === undefined ? createStoreList(app) : createBox(app)
}

/** Stores of one client, each of which opens to its boxes: how they fare, what they sold today, and terminals that are not integrated. */
function createStoreList(app) {
  const asked = { text: '', onlyProblems: false, isWhole: false }
  const open = new Set()
  let shown
  let terminals = { of: undefined, list: [], failure: undefined, readAt: 0 }
  const set = (changes) => () => {
    Object.assign(asked, changes)
    app.redraw()
  }
  const toggle = (id) => () => {
    if (!open.delete(id)) open.add(id)
    app.redraw()
  }
  const readAll = async (client, signal) => ({
    of: client,
    readAt: Date.now(),
    ...(await readTerminals(app, client, signal)),
  })

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
      const [{ stores }, { boxes }, found] = await Promise.all([
        app.api.get('/stores', app.clientQuery(), signal),
        app.getOverview({ from: startOfToday() }, signal),
        isDue || app.isForced ? readAll(client, signal) : terminals,
      ])
      terminals = found
      shown = { client, stores: storesOf(stores, boxes, found.list) }
    },
    body() {
      if (app.client === undefined) return chooseClient(app, t('stores.choose'))
      if (!shown || shown.client !== app.client) return app.placeholder()
      const { stores } = shown
      const boxes = stores.reduce((sum, store) => sum + store.boxes.length, 0)
      const isSearch = asked.text.trim() !== '' || asked.onlyProblems
      const found = isSearch ? findIn(stores, asked) : stores
      const most = asked.isWhole ? found.length : storesAtOnce
      const others = terminals.list.filter(({ caja_id: id }) => id === null)
      return html`
        <div class="panel-head">
          <p class="soft">${count('stores.count', stores.length)}, ${count('boxes.count', boxes)}</p>
          ${boxes > few ? finder(asked, set, { field: 'box', label: t('boxes.find'), placeholder: t('closings.findBy') }) : nothing}
        </div>
        ${terminals.failure ? terminalsFailed(terminals.failure) : nothing}
        ${stores.length === 0 ? empty(t('stores.none'), noneHint(app)) : nothing}
        ${stores.length > 0 && found.length === 0 ? empty(t(asked.text.trim() === '' ? 'boxes.noProblem' : 'overview.noBox')) : nothing}
        ${repeat(
          found.slice(0, most),
          ({ id }) => id,
          (store) =>
            storePanel(app, store, {
              isOpen: isSearch || boxes <= few || open.has(store.id),
              toggle: boxes > few && !isSearch ? toggle(store.id) : undefined,
            }),
        )}
        ${
          found.length > most
            ? html`<button type="button" class="button" @click=${set({ isWhole: true })}>${t('sales.showAll', { count: number(found.length) })}</button>`
            : nothing
        }
        ${others.length > 0 && !isSearch ? otherTerminals(others) : nothing}`
    },
  }
}

/** Stores and boxes in natural order, each box with its state of the day and its terminals. */
function storesOf(stores, states, terminals) {
  const stateById = new Map(states.map((state) => [state.caja_id, state]))
  const terminalsById = Map.groupBy(terminals, ({ caja_id: box }) => box)
  const byName = (a, b) => naturally.compare(a.name, b.name)
  return stores
    .map((store) => ({
      ...store,
      boxes: store.pos
        .map((box) => {
          const state = stateById.get(box.external_id)
          return {
            ...box,
            id: box.external_id,
            creation: box.state,
            state,
            light: state && stateOf(state),
            terminals: terminalsById.get(box.external_id) ?? [],
          }
        })
        .toSorted(byName),
    }))
    .toSorted(byName)
}

/** Stores with the boxes that are asked for; all boxes of a store whose name fits. */
function findIn(stores, { text, onlyProblems }) {
  const wanted = text.trim().toLowerCase()
  const fits = (...words) => words.join(' ').toLowerCase().includes(wanted)
  return stores
    .map((store) => ({
      ...store,
      boxes: store.boxes
        .filter((box) => fits(store.name, store.external_id, box.name, box.id))
        .filter((box) => !onlyProblems || problems.has(box.light?.tone)),
    }))
    .filter((store) => store.boxes.length > 0)
}

function terminalsFailed(failure) {
  return note('warn', html`<p>${t('stores.terminalsFailed')}</p><p>${errorSentence(failure)}</p>`)
}

/** Only the administrator may make them here, with everything else that a new client needs. */
function noneHint(app) {
  if (!app.isAdmin) return t('stores.noneHint')
  return html`${t('stores.noneHint')} <a href=${app.link('clients', undefined, { client: app.client })}>${t('clients.setUp')}</a>`
}

function otherTerminals(others) {
  return html`<details class="panel">
    <summary>${t('stores.others')} (${number(others.length)})</summary>
    <p class="soft small">${t('stores.othersHint')}</p>
    <ul class="plain-list">${repeat(
      others,
      ({ id }) => id,
      ({ id, operating_mode: mode }) =>
        html`<li>${code(id)} ${badge(mode === 'PDV' ? 'good' : 'quiet', word('operating', mode))}</li>`,
    )}</ul>
  </details>`
}

function storePanel(app, store, { isOpen, toggle }) {
  const { name: called, external_id: id, boxes, location } = store
  const wrong = boxes.filter(({ light }) => problems.has(light?.tone)).length
  const label = html`${name(called)}${called.includes(id) ? nothing : html` ${code(id)}`}`
  return html`<section class="panel store" aria-label=${called}>
    <div class="panel-head">
      <h2>${toggle ? html`<button type="button" class="opener" aria-expanded=${isOpen ? 'true' : 'false'} @click=${toggle}>${label}</button>` : label}</h2>
      <p class="soft">${count('boxes.count', boxes.length)} ${
        wrong > 0
          ? badge('bad', t('sales.problems', { count: number(wrong), total: number(boxes.length) }))
          : nothing
      }${unfinished(store.state)}</p>
    </div>
    ${
      isOpen
        ? html`<p class="soft small">${name(`${location.street_name} ${location.street_number}, ${location.city_name}, ${location.state_name}`)}</p>
          ${
            boxes.length === 0
              ? html`<p class="soft">${t('stores.noBoxes')}</p>`
              : html`<ul class="lights many boxes">${repeat(
                  boxes,
                  (box) => box.id,
                  (box) => boxRow(app, box),
                )}</ul>`
          }`
        : nothing
    }
  </section>`
}

function unfinished(creation) {
  return creation === 'active' ? nothing : html` ${badge('warn', word('creation', creation))}`
}

function boxRow(app, box) {
  const { id, state, light, terminals } = box
  const apart = terminals.filter(({ operating_mode: mode }) => mode !== 'PDV')
  return html`<li class="light box ${light?.tone ?? 'quiet'}">
    <a href=${boxHref(app, { client: app.client, caja_id: id })}>
      <span class="light-name">${name(box.name, { class: 'strong' })}${
        box.name.includes(id) ? nothing : html` ${code(id)}`
      }</span>
      <span class="state">${light ? (light.short ?? light.text) : nothing}${
        state?.last_order_at ? html` · ${relative(state.last_order_at)}` : nothing
      }</span>
      <span class="sold small">${state ? soldToday(state) : nothing}${unfinished(box.creation)}${
        apart.length > 0
          ? html` ${badge('warn', word('operating', apart[0].operating_mode))}`
          : nothing
      }</span>
    </a>
  </li>`
}
