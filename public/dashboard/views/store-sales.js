import { code, name, number, relative } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html, nothing, repeat } from '../../shared/lit.js'
import { badge, empty } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { boxLink } from '../box-link.js'
import { finder, naturally } from './finder.js'

/** A chain with more stores than this gets a way to find one, and sees the rest on request. */
const few = 6
const pageOf = 25
const manyDaysMs = 60_000

/**
 * A row for each store: what it sold, what Mercado Pago says, the difference, known fees, boxes with a problem and closings. A row
 * opens to its boxes.
 */
export function createStoreSales(app) {
  const asked = { text: '', onlyProblems: false, sort: 'name', isWhole: false }
  /** Boxes of the open stores, by store. */
  const open = new Map()
  let span
  /** The one day of the span, for the way to its closings. */
  let day
  let sales
  let readAt = 0

  const readBoxes = async ({ client, sucursal_id: id }, signal) => {
    const query = { ...app.clientQuery(client), ...span }
    return (await app.api.get(`/sales/${encodeURIComponent(id)}`, query, signal)).boxes
  }
  const toggle = (store) => async () => {
    const key = keyOf(store)
    if (open.delete(key)) return app.redraw()
    open.set(key, { store, boxes: undefined })
    app.redraw()
    try {
      const boxes = await readBoxes(store)
      if (open.has(key)) open.set(key, { store, boxes })
    } catch (error) {
      open.set(key, { store, boxes: [], error })
    }
    app.redraw()
  }
  const set = (changes) => () => {
    Object.assign(asked, changes)
    app.redraw()
  }

  return {
    /** Reads the sales of a span, and the boxes of the stores that are open. */
    async load({ from, to, first, days }, signal) {
      const isOther = span?.from !== from || span?.to !== to || asked.scope !== app.scope
      if (isOther) {
        open.clear()
        // Until they are read, what is there is of another span.
        readAt = 0
        sales = undefined
      }
      // Many days change little in seconds, and cost the database more.
      if (days > 1 && !app.isForced && Date.now() - readAt < manyDaysMs) return
      span = { from, to }
      asked.scope = app.scope
      day = days === 1 ? first : undefined
      const [next] = await Promise.all([
        app.api.get('/sales', { client: app.scope, from, to }, signal),
        ...[...open.values()].map(async (one) => {
          one.boxes = await readBoxes(one.store, signal)
        }),
      ])
      sales = next
      readAt = Date.now()
    },
    section() {
      if (!sales || sales.stores.length === 0) return nothing
      return panel(app, { sales, day, asked, open, set, toggle })
    },
  }
}

const keyOf = ({ client, sucursal_id: id }) => JSON.stringify([client, id])

function panel(app, { sales, day, asked, open, set, toggle }) {
  const wanted = asked.text.trim().toLowerCase()
  const found = sales.stores
    .filter((store) => wanted === '' || wordsOf(store).includes(wanted))
    .filter((store) => !asked.onlyProblems || hasProblem(store))
    .sort(orders[asked.sort])
  const shown = asked.isWhole ? found : found.slice(0, pageOf)
  const heads = [
    ['name', t('sales.store')],
    ['sold', t('sales.sold')],
    ['provider', t('sales.provider')],
    ['difference', t('sales.difference')],
    ['fees', t('sales.fees')],
    ['boxes', t('sales.boxes')],
    ['closings', t('sales.closings')],
  ]
  return html`<section class="panel" aria-labelledby="stores">
    <div class="panel-head">
      <h2 id="stores">${t('sales.title')} <span class="soft small">${count('sales.count', sales.stores.length)}</span></h2>
      ${sales.stores.length > few ? finder(asked, set, { field: 'store', label: t('sales.find'), placeholder: t('sales.findBy') }) : nothing}
    </div>
    ${readNote(sales)}
    ${
      found.length === 0
        ? empty(t('sales.none'))
        : html`<table role="table" class="sales" aria-label=${t('sales.title')}>
          <thead role="rowgroup"><tr role="row">${heads.map((head) => headCell(head, asked, set))}</tr></thead>
          <tbody role="rowgroup">${repeat(
            shown.flatMap((store) => rowsOf(store, open.get(keyOf(store)))),
            ({ key }) => key,
            (row) => (row.box ? boxRow(app, row) : storeRow(app, row, day, toggle)),
          )}</tbody>
        </table>`
    }
    ${closeAll(app, sales, day)}
    ${
      found.length > shown.length
        ? html`<button type="button" class="button" @click=${set({ isWhole: true })}
            >${t('sales.showAll', { count: number(found.length) })}</button>`
        : nothing
    }
  </section>`
}

/** The way to close what is not closed yet, in all stores. The list that opens asks first. */
function closeAll(app, { stores }, day) {
  const left = stores.reduce((sum, { closings }) => sum + closings.expected - closings.closed, 0)
  const isOfOne = !app.isAdmin || app.client !== undefined
  if (left < 2 || day === undefined || !isOfOne || !app.may('close_days')) return nothing
  const href = app.link('closings', undefined, { day, close: 'all' })
  return html`<p><a class="button" href=${href}>${t('sales.closeAll', { count: number(left) })}</a></p>`
}

const wordsOf = ({ client, sucursal_id: id, name: called }) =>
  `${client} ${id} ${called ?? ''}`.toLowerCase()

/** Whether somebody should look at a store. */
function hasProblem({ difference, boxes, closings, provider }) {
  return (
    difference !== '0.00' ||
    boxes.problems > 0 ||
    closings.differs > 0 ||
    provider.without_amount > 0
  )
}

const byName = (a, b) =>
  naturally.compare(a.client, b.client) ||
  naturally.compare(a.name ?? a.sucursal_id, b.name ?? b.sucursal_id)

const orders = {
  name: byName,
  sold: (a, b) => Number(b.paid_amount) - Number(a.paid_amount) || byName(a, b),
  difference: (a, b) =>
    Math.abs(Number(b.difference)) - Math.abs(Number(a.difference)) || byName(a, b),
  boxes: (a, b) => b.boxes.problems - a.boxes.problems || byName(a, b),
}

function headCell([id, title], { sort }, set) {
  const isNumeric = id !== 'name'
  const by = orders[id]
    ? html`<button type="button" class="sorter" @click=${set({ sort: id })}>${title}</button>`
    : title
  const direction = sort === id ? (id === 'name' ? 'ascending' : 'descending') : nothing
  return html`<th role="columnheader" scope="col" class="c-${id} ${isNumeric ? 'numeric' : ''}" aria-sort=${direction}>${by}</th>`
}

/** Until when Mercado Pago's payments are known: a difference says nothing about what is newer. */
function readNote({ read_until: until, total }) {
  if (total.paid === 0 && total.provider.payments === 0) return nothing
  if (until === null) return html`<p class="soft small">${t('sales.neverRead')}</p>`
  return html`<p class="soft small">${t('sales.readUntil')} ${relative(until)}${
    total.not_listed_yet.paid > 0
      ? html` · ${t('sales.notListed', { amount: money(total.not_listed_yet.amount) })}`
      : nothing
  }</p>`
}

function rowsOf(store, opened) {
  const key = keyOf(store)
  const row = { key, store, opened }
  if (!opened?.boxes) return [row]
  const boxes = opened.boxes.map((box) => ({ key: `${key} ${box.caja_id}`, store, box }))
  return [row, ...boxes]
}

function storeRow(app, { store, opened, key }, day, toggle) {
  const { client, name: called, sucursal_id: id, boxes } = store
  const isAlone = !app.isAdmin || app.client !== undefined
  const label = html`${name(called ?? id, { class: 'strong' })}${
    called === null || called.includes(id) ? nothing : html` <span class="id-of">${code(id)}</span>`
  }${isAlone ? nothing : html` <span class="soft small">${name(client)}</span>`}`
  return html`<tr role="row" class="store-row">
    ${cell(
      'name',
      html`<button type="button" class="opener" aria-expanded=${opened ? 'true' : 'false'}
      data-store=${key} @click=${toggle(store)}>${label}</button>`,
    )}
    ${figures(store)}
    ${cell('boxes', boxes.problems > 0 ? badge('bad', t('sales.problems', { count: number(boxes.problems), total: number(boxes.total) })) : html`<span class="soft">${count('boxes.count', boxes.total)}</span>`)}
    ${cell('closings', closingsOf(app, store, day))}
  </tr>`
}

function boxRow(app, { store, box }) {
  const called = box.name ?? box.caja_id ?? t('sales.withoutBox')
  return html`<tr role="row" class="box-row">
    ${cell(
      'name',
      box.caja_id === null
        ? html`<span class="soft">${called}</span>`
        : html`${boxLink(app, { client: store.client, caja_id: box.caja_id }, { text: called })}${
            called.includes(box.caja_id) ? nothing : html` ${code(box.caja_id)}`
          }`,
    )}
    ${figures(box)}
    ${cell('boxes', box.has_problem ? badge('bad', t('sales.problem')) : nothing)}
    ${cell('closings', box.closing === 'none' ? html`<span class="soft">—</span>` : badge(closingTones[box.closing], word('closing', box.closing)))}
  </tr>`
}

const closingTones = { agreed: 'good', differs: 'bad', unverified: 'warn', open: 'info' }

/** One cell with its title for a phone, where the head of the table is not shown. */
function cell(id, content, isNumeric = id !== 'name') {
  return html`<td role="cell" class="c-${id} ${isNumeric ? 'numeric' : ''}"><span class="cell-label" aria-hidden="true"
    >${titles[id] ? t(titles[id]) : ''}</span><div class="cell">${content}</div></td>`
}

const titles = {
  sold: 'sales.sold',
  provider: 'sales.provider',
  difference: 'sales.difference',
  fees: 'sales.fees',
  boxes: 'sales.boxes',
  closings: 'sales.closings',
}

function figures(one) {
  const { provider, fees } = one
  const isQuiet = one.paid === 0 && provider.payments === 0
  const none = html`<span class="soft">—</span>`
  return [
    cell(
      'sold',
      isQuiet
        ? none
        : html`<span class="strong">${money(one.paid_amount)}</span>
          <span class="soft small">${count('overview.paidOrders', one.paid)}</span>`,
    ),
    cell('provider', isQuiet ? none : money(provider.amount)),
    cell('difference', isQuiet ? none : differenceOf(one)),
    cell(
      'fees',
      fees.orders === 0
        ? none
        : html`${money(fees.amount)}${
            fees.orders < one.paid
              ? html` <span class="soft small">${t('sales.feesOf', { count: number(fees.orders), total: number(one.paid) })}</span>`
              : nothing
          }`,
    ),
  ]
}

/** The difference of two records as a badge. */
export function differenceOf({ difference, provider }) {
  if (provider.without_amount > 0) return badge('warn', t('sales.unreadable'))
  if (difference === '0.00') return badge('good', t('sales.agrees'))
  return badge('bad', difference.startsWith('-') ? money(difference) : `+${money(difference)}`)
}

function closingsOf(app, { client, closings: { expected, closed, differs } }, day) {
  if (expected === 0) return html`<span class="soft">—</span>`
  const text = t('sales.closed', { closed: number(closed), expected: number(expected) })
  const href = app.link('closings', undefined, {
    client: app.isAdmin ? client : undefined,
    day,
  })
  return html`<a href=${href}>${text}</a>${differs > 0 ? html` ${badge('bad', count('sales.differ', differs))}` : nothing}`
}
