import { ask } from '../../shared/dialog.js'
import { h } from '../../shared/dom.js'
import { errorSentence } from '../../shared/errors.js'
import { code, name, relative, startOfToday } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { toast } from '../../shared/notices.js'
import { badge, empty, facts, howMany, note } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { openFreeing } from '../free-terminal.js'
import { soldToday, stateOf } from './box-lights.js'

/** Listing terminals asks the provider, so it happens less often than the rest. */
const terminalsEveryMs = 15_000
const terminalsPerPage = 50
const pagesAtMost = 20

/** Stores of one client with their boxes, the terminals of each box, and the mode those work in. */
export function createStores(app) {
  let shown
  let terminals = { of: undefined, list: [], failure: undefined, readAt: 0 }

  return {
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
        app.getStatistics({ from: startOfToday() }, signal),
        isDue || app.isForced ? readTerminals(app, client, signal) : terminals,
      ])
      terminals = found
      const states = new Map(boxes.map((box) => [box.caja_id, box]))
      shown = { client, stores, total, states }
    },
    body() {
      if (app.client === undefined) return chooseClient(app)
      if (!shown || shown.client !== app.client) return app.placeholder()
      const others = terminals.list.filter(({ caja_id: box }) => box === null)
      return [
        howMany('stores.count', shown.total),
        terminals.failure &&
          note(
            'warn',
            h('p', null, t('stores.terminalsFailed')),
            h('p', null, errorSentence(terminals.failure)),
          ),
        shown.stores.length === 0 && empty(t('stores.none'), t('stores.noneHint')),
        shown.stores.map((store) => storePanel(app, store, shown.states, terminals)),
        others.length > 0 &&
          h(
            'section',
            { key: 'others', class: 'panel' },
            h('h2', null, t('stores.others')),
            h('p', { class: 'soft small' }, t('stores.othersHint')),
            h(
              'ul',
              { class: 'plain-list' },
              others.map((terminal) => h('li', { key: terminal.id }, terminalLine(terminal))),
            ),
          ),
      ]
    },
  }
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

function chooseClient(app) {
  return h(
    'div',
    { key: 'choose', class: 'empty' },
    h('p', { class: 'strong' }, t('stores.choose')),
    app.clients?.length === 0
      ? h('p', { class: 'soft' }, t('clients.none'))
      : h(
          'p',
          { class: 'buttons center' },
          app.clients?.map(({ client }) =>
            h(
              'a',
              { key: client, class: 'button', href: app.link('stores', undefined, { client }) },
              name(client, { class: 'clip' }),
            ),
          ),
        ),
  )
}

function storePanel(app, store, states, terminals) {
  const {
    street_name: street,
    street_number: house,
    city_name: city,
    state_name: state,
  } = store.location
  return h(
    'section',
    { key: store.id, class: 'panel' },
    h(
      'div',
      { class: 'panel-head' },
      h('h2', null, name(store.name)),
      h('p', null, idUnlessNamed(store), unfinished(store)),
    ),
    h('p', { class: 'soft' }, name(`${street} ${house}, ${city}, ${state}`)),
    store.pos.length === 0
      ? h('p', { class: 'soft' }, t('stores.noBoxes'))
      : h(
          'ul',
          { class: 'boxes' },
          store.pos.map((box) =>
            boxCard(app, { store, box, state: states.get(box.external_id) }, terminals),
          ),
        ),
  )
}

/** The ERP's id, where the name does not tell it. */
function idUnlessNamed({ name, external_id: id }) {
  return name.includes(id) ? null : code(id)
}

function unfinished({ state }) {
  return state === 'active' ? null : [' ', badge('warn', word('creation', state))]
}

function boxCard(app, { store, box, state }, { list, failure }) {
  const own = list.filter(
    (terminal) =>
      terminal.caja_id === box.external_id && terminal.sucursal_id === store.external_id,
  )
  const modes = ['PDV', 'STANDALONE']
  const toOffer = modes.filter((mode) => own.some((terminal) => terminal.operating_mode !== mode))
  return h(
    'li',
    { key: box.id, class: 'box' },
    h('h3', null, name(box.name)),
    h('p', null, idUnlessNamed(box), unfinished(box)),
    state && boxState(app, state),
    own.length > 0
      ? h(
          'ul',
          { class: 'plain-list' },
          own.map((terminal) => h('li', { key: terminal.id }, terminalLine(terminal))),
        )
      : h(
          'p',
          { class: 'soft small' },
          failure ? t('stores.terminalsUnknown') : t('stores.noTerminal'),
        ),
    h(
      'p',
      { class: 'buttons' },
      toOffer.map((mode) =>
        h(
          'button',
          {
            key: mode,
            type: 'button',
            class: 'button small',
            onclick: () => askMode(app, box, own, mode),
          },
          t(`mode.to.${mode}`),
          h('span', { class: 'visually-hidden' }, ` (${box.name})`),
        ),
      ),
      app.isAdmin &&
        own.map(({ id }) =>
          h(
            'button',
            {
              key: `free ${id}`,
              type: 'button',
              class: 'button small',
              onclick: () => openFreeing(app, app.client, id),
            },
            t('free.button'),
            h('span', { class: 'visually-hidden' }, ` (${own.length > 1 ? id : box.name})`),
          ),
        ),
    ),
  )
}

/** How the box fares, what it sold today and which order holds its terminal now. */
function boxState(app, state) {
  const { tone, text } = stateOf(state)
  const { open_order: order, last_order_at: last } = state
  return [
    h(
      'p',
      null,
      badge(tone, text),
      last && [' ', h('span', { class: 'soft small' }, relative(last))],
    ),
    h('p', { class: 'small' }, soldToday(state)),
    order &&
      h(
        'p',
        { class: 'small' },
        t('box.heldBy'),
        ' ',
        h(
          'a',
          { href: app.orderLink({ ...order, client: state.client }) },
          name(order.external_reference),
        ),
        ` · ${money(order.amount)} · ${word('status', order.status)}, `,
        relative(order.created_at),
      ),
  ]
}

function terminalLine({ id, operating_mode: mode }) {
  return [code(id), ' ', badge(mode === 'PDV' ? 'good' : 'quiet', word('operating', mode))]
}

function askMode(app, box, terminals, mode) {
  ask({
    title: t(`mode.to.${mode}`),
    content: () => [
      h('p', null, t(`mode.means.${mode}`)),
      facts([
        [t('order.box'), [name(box.name), ' ', idUnlessNamed(box)]],
        [t('mode.terminals'), terminals.map(({ id }) => h('p', { key: id }, code(id)))],
      ]),
      h('p', null, t('mode.restart')),
    ],
    confirm: t('mode.confirm'),
    async run() {
      const { terminals_updated: updated } = await app.api.patch('/terminals/operating-mode', {
        query: app.clientQuery(),
        body: { caja_id: box.external_id, operating_mode: mode },
      })
      toast(count('mode.done', updated))
      app.reload()
    },
  })
}
