import { clock, code, name, number } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { html, nothing, repeat } from '../../shared/lit.js'
import { badge, empty, table } from '../../shared/parts.js'
import { midnight } from '../../shared/shop-clock.js'
import { money, moneyOfCents } from '../amounts.js'
import { boxLink } from '../box-link.js'
import { askClose } from '../closing-actions.js'
import { centsOfPoint } from '../money.js'
import { runForEach } from '../run-for-each.js'
import { closingBadge, closingBadges } from './closing-state.js'
import { finder, naturally } from './finder.js'

/** A day with so few rows needs neither search nor stores that open. */
const few = 12

/** What an operator must look at stands first, then what is done, and last where nothing was sold. */
export const urgency = {
  differs: 0,
  unverified: 1,
  checking: 2,
  open: 3,
  uncounted: 4,
  agreed: 5,
  signed: 6,
  quiet: 7,
}

/**
 * The rows of a day by store, each of which opens to its boxes, with what can be done for many boxes at once: close all that are
 * not closed, and sign all that agree.
 */
export function createClosingStores(app) {
  const asked = { text: '', onlyProblems: false }
  const open = new Set()
  const set = (changes) => () => {
    Object.assign(asked, changes)
    app.redraw()
  }
  const toggle = (id) => () => {
    if (!open.delete(id)) open.add(id)
    app.redraw()
  }

  return {
    sections({ rows, day }) {
      const isSmall = rows.length <= few
      const wanted = asked.text.trim().toLowerCase()
      const found = rows
        .filter((row) => wanted === '' || wordsOf(row).includes(wanted))
        .filter((row) => !asked.onlyProblems || urgency[row.state] <= urgency.unverified)
      const stores = [...Map.groupBy(found, ({ storeId }) => storeId)]
        .map(([id, own]) => ({ id, name: nameOf(own), rows: own.toSorted(byUrgency) }))
        .sort((a, b) => naturally.compare(a.name, b.name))
      const isFound = wanted !== '' || asked.onlyProblems
      return [
        together(app, rows, day),
        isSmall
          ? nothing
          : finder(asked, set, {
              field: 'box',
              label: t('boxes.find'),
              placeholder: t('closings.findBy'),
            }),
        found.length === 0 ? empty(t('overview.noBox')) : nothing,
        isSmall
          ? boxes(app, { rows: found.toSorted(byUrgency), day })
          : repeat(
              stores,
              ({ id }) => id,
              (store) =>
                storePanel(app, {
                  ...store,
                  day,
                  isOpen: isFound || open.has(store.id),
                  toggle: toggle(store.id),
                }),
            ),
      ]
    },
  }
}

const wordsOf = ({ box, storeId }) =>
  `${box?.caja_id ?? ''} ${box?.name ?? ''} ${storeId} ${box?.store_name ?? ''}`.toLowerCase()

const nameOf = (rows) => rows.find(({ box }) => box)?.box.store_name ?? rows[0].storeId

const byUrgency = (a, b) =>
  urgency[a.state] - urgency[b.state] ||
  naturally.compare(a.box?.name ?? a.storeId, b.box?.name ?? b.storeId)

/** Boxes with sales that no closing has, and closings that agree and are not signed. */
const isToClose = (day) => (row) =>
  row.box && row.box.paid > 0 && row.state === 'uncounted' && isLeft(row, day)

const toSign = (rows) =>
  rows.flatMap(({ closings }) => closings.filter(({ state }) => state === 'agreed'))

/** Asks, and then closes every box that sold and is not closed: of all stores, or of one by its name. */
export function askCloseAll(app, rows, day, place = t('batch.all')) {
  const unclosed = rows.filter(isToClose(day)).toSorted(byUrgency)
  if (unclosed.length === 0) return
  runForEach({
    title: t('batch.closeTitle', { place }),
    text: t('batch.closeText', { count: number(unclosed.length) }),
    items: unclosed,
    labelOf: ({ box }) => box.name,
    confirm: t('batch.close1', { count: number(unclosed.length) }),
    work: ({ box }) =>
      app.api.post('/closings', {
        query: app.clientQuery(),
        body: { caja_id: box.caja_id, business_day: day },
      }),
    onEnd: app.reload,
  })
}

/** What is done for the boxes of a store, or of all, at once. */
function together(app, rows, day, storeName) {
  if (!app.may('close_days')) return nothing
  const unclosed = rows.filter(isToClose(day))
  const agreed = toSign(rows)
  const place = storeName ?? t('batch.all')
  const close = () => askCloseAll(app, rows, day, storeName)
  const sign = () =>
    runForEach({
      title: t('batch.signTitle', { place }),
      text: t('batch.signText', { count: number(agreed.length) }),
      items: agreed,
      labelOf: ({ caja_id: box, sucursal_id: store }) => box ?? store,
      confirm: t('batch.sign1', { count: number(agreed.length) }),
      work: ({ id }) => app.api.post(`/closings/${id}/sign`, { query: app.clientQuery() }),
      onEnd: app.reload,
    })
  if (unclosed.length < 2 && agreed.length < 2) return nothing
  return html`<div class="buttons">
    ${
      unclosed.length < 2
        ? nothing
        : html`<button type="button" class="button main" @click=${close}
          >${t(storeName ? 'batch.closeStore' : 'batch.closeAll', { count: number(unclosed.length) })}</button>`
    }
    ${
      agreed.length < 2
        ? nothing
        : html`<button type="button" class="button" @click=${sign}
          >${t('batch.signAll', { count: number(agreed.length) })}</button>`
    }
  </div>`
}

function storePanel(app, { id, name: called, rows, day, isOpen, toggle }) {
  const sold = rows.reduce((sum, { box }) => sum + centsOfPoint(box?.paid_amount), 0)
  const expected = rows.filter(({ state }) => state !== 'quiet')
  const closed = expected.filter(({ state }) => urgency[state] !== urgency.uncounted)
  const wrong = rows.filter(({ closings }) =>
    closings.some(({ state, result }) => (result ?? state) === 'differs'),
  )
  return html`<section class="panel store-closings" aria-label=${called}>
    <div class="panel-head">
      <h2><button type="button" class="opener" aria-expanded=${isOpen ? 'true' : 'false'} @click=${toggle}
        >${name(called)}${called.includes(id) ? nothing : html` ${code(id)}`}</button></h2>
      <p class="soft">${moneyOfCents(sold)} · ${t('closings.progress', { closed: number(closed.length), expected: number(expected.length) })}
        ${wrong.length > 0 ? badge('bad', count('closings.wrong', wrong.length)) : nothing}</p>
      ${isOpen ? together(app, rows, day, called) : nothing}
    </div>
    ${isOpen ? boxes(app, { rows, day }) : nothing}
  </section>`
}

function boxes(app, { rows, day }) {
  if (rows.length === 0) return nothing
  return table({
    label: t('closings.ofDay'),
    columns: [
      { id: 'box', title: t('closings.place'), cell: (row) => placeOf(app, row) },
      {
        id: 'sold',
        title: t('closings.sold'),
        numeric: true,
        cell: ({ box }) => (box ? money(box.paid_amount) : '—'),
      },
      {
        id: 'there',
        title: t('closings.there'),
        numeric: true,
        cell: ({ closings }) => thereOf(closings),
      },
      { id: 'status', title: t('closings.state'), cell: stateCell },
      { id: 'actions', title: t('actions'), cell: (row) => action(app, row, day) },
    ],
    rows,
    keyOf: ({ box, closings: [closing] }) =>
      JSON.stringify([box?.caja_id ?? null, (box ?? closing).sucursal_id]),
  })
}

function thereOf(closings) {
  const compared = closings.filter(({ totals }) => totals)
  if (compared.length === 0) return '—'
  return moneyOfCents(
    compared.reduce((sum, { totals }) => sum + centsOfPoint(totals.there.amount), 0),
  )
}

function placeOf(app, { box, storeId }) {
  if (!box) return html`<span class="strong">${t('closings.wholeStore')}</span> ${code(storeId)}`
  const isNamed = box.name.includes(box.caja_id)
  return html`${boxLink(app, box, { text: box.name, class: 'clip strong' })}
    ${isNamed ? null : code(box.caja_id)}`
}

function stateCell({ state, closings }) {
  if (closings.length === 0) return closingBadge(state)
  return closings.map(
    (closing) => html`<div>
      ${closings.length > 1 ? html`<span class="small">${t('closings.fromTo', spanOf(closing))}</span>` : null}
      ${closingBadges(closing)}
      ${
        closing.differences > 0
          ? html`<span class="soft small">${count('closings.lines', closing.differences)}</span>`
          : null
      }
    </div>`,
  )
}

function spanOf({ from, to }) {
  return { from: clock(from), to: clock(to) }
}

/** Whether some of the day is in no closing yet, and the last one is not extended by counting it again. */
function isLeft({ closings }, day) {
  const last = closings.at(-1)
  if (last === undefined) return true
  const isExtended = last.state !== 'signed' && last.requested_to > last.to
  return Date.parse(last.to) < Date.parse(midnight(day, 1)) && !isExtended
}

function action(app, row, day) {
  const { box, closings, storeId, state } = row
  const see = closings.map(
    ({ id, number: which }) => html`<a class="button small" href=${app.link('closings', id)}
      >${t('closings.see', { number: which })}</a
    >`,
  )
  const close = () =>
    askClose(app, { cajaId: box?.caja_id, sucursalId: box ? undefined : storeId, day })
  return html`<span class="buttons">
    ${see}
    ${
      isLeft(row, day) && app.may('close_days')
        ? html`<button type="button" class="button small ${state === 'uncounted' ? 'main' : ''}" @click=${close}>
          ${closings.length > 0 ? t('closings.again') : t('closings.close')}
        </button>`
        : null
    }
  </span>`
}
