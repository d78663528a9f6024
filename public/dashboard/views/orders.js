import { errorSentence } from '../../shared/errors.js'
import { number } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html, live, nothing } from '../../shared/lit.js'
import { toast } from '../../shared/notices.js'
import { createFreshness, empty, field, pageOf, pageQuery } from '../../shared/parts.js'
import { dayOf, midnight } from '../../shared/shop-clock.js'
import { amountExample, money } from '../amounts.js'
import { centsOfPoint, pointOfCents } from '../money.js'
import { orderStatuses } from '../order-states.js'
import { downloadOrders } from '../orders-csv.js'
import { orderColumns } from './order-columns.js'
import { pagedTable } from './paged-table.js'

/** `received` are all whose money came in, as the other pages count what is paid; those with a refund are among them. */
const standings = ['all', 'under_way', 'received', 'refunded', 'not_paid', 'in_doubt']
const days = ['', 'today', 'yesterday']
const filterNames = ['q', 'standing', 'status', 'caja_id', 'day', 'from', 'to']
/** Somebody who types has paused. */
const pauseMs = 300
/** More boxes than that are typed, not chosen. */
const boxesOffered = 300

/** Every order, newest first, by filters that stand in the address. */
export function createOrders(app) {
  const fresh = createFreshness()
  const startsOpen = matchMedia('(min-width: 48rem)').matches || isFiltered(app.query)
  const search = createSearch(app)
  let shown
  /** Ids of the boxes that may be asked for, and whose they are. */
  let boxes = { of: undefined, ids: [] }
  /** How many rows the file being made has so far; undefined when none is. */
  let written

  const download = async () => {
    if (written !== undefined) return
    written = 0
    app.redraw()
    try {
      const { rows, total } = await downloadOrders(app, questionOf(app.query), (soFar) => {
        written = soFar
        app.redraw()
      })
      const values = { rows: number(rows), total: number(total) }
      toast(rows < total ? t('csv.part', values) : count('csv.done', rows))
    } catch (error) {
      toast(errorSentence(error))
    }
    written = undefined
    app.redraw()
  }

  return {
    title: () => t('nav.orders'),
    actions: () =>
      shown?.total > 0
        ? html`<button type="button" class="button" ?disabled=${written !== undefined} @click=${download}>
            ${written === undefined ? t('csv.button') : t('csv.busy', { count: number(written) })}
          </button>`
        : nothing,
    async load(signal) {
      const { query, client } = app
      const question = { ...questionOf(query), ...pageQuery(query), totals: 'true' }
      const [answer, known] = await Promise.all([
        app.getOrders(question, signal),
        boxes.of === client ? boxes : readBoxes(app, signal),
      ])
      boxes = known
      shown = { question: JSON.stringify(query), page: pageOf(query), ...answer }
    },
    body: () => [
      tabs(app, shown?.totals),
      filters(app, { startsOpen, search, boxes: boxes.ids }),
      shown ? list(app, shown, fresh) : app.placeholder(),
    ],
  }
}

/** The boxes of the one client that is shown. */
async function readBoxes(app, signal) {
  const { client } = app
  if (client === undefined) return { of: undefined, ids: [] }
  const { stores } = await app.api.get('/stores', app.clientQuery(), signal)
  const ids = stores.flatMap(({ pos }) => pos.map(({ external_id: id }) => id))
  return { of: client, ids: ids.slice(0, boxesOffered) }
}

/** The filters of the address as the service takes them. */
function questionOf({ q, standing, status, caja_id, day, from, to }) {
  const [first, last] = day === 'today' ? [0, 1] : day === 'yesterday' ? [-1, 0] : []
  return {
    q: q?.trim(),
    standing: standings.includes(standing) && standing !== 'all' ? standing : undefined,
    status,
    caja_id,
    from: first === undefined ? midnight(from) : midnight(dayOf(), first),
    to: last === undefined ? midnight(to, 1) : midnight(dayOf(), last),
  }
}

/** What somebody types is asked for when he pauses, without a step back for each letter. */
function createSearch(app) {
  let typed
  let asked
  let seen = app.query.q
  let timer
  const send = () => {
    clearTimeout(timer)
    const text = typed?.trim()
    if (app.name !== 'orders' || text === undefined || text === (app.query.q ?? '')) return
    asked = text
    location.replace(app.link('orders', undefined, { ...app.query, ...anew, q: text }))
  }
  return {
    send,
    onInput(event) {
      typed = event.target.value
      clearTimeout(timer)
      timer = setTimeout(send, pauseMs)
    },
    /** What stands in the field: what is being typed, until the address asks for something else. */
    text() {
      const { q } = app.query
      if (q !== seen && (q ?? '') !== asked) typed = undefined
      seen = q
      return typed ?? q ?? ''
    },
  }
}

/** Another question begins with its first page. */
const anew = { page: undefined, cursor: undefined }

/** Where orders stand, each with how many there are of the other filters. */
function tabs(app, totals) {
  const current = questionOf(app.query).standing ?? 'all'
  const tab = (standing) => {
    const orders = totals?.[standing].orders
    const isUrgent = standing === 'in_doubt' && orders > 0
    const to = { ...app.query, ...anew, standing: standing === 'all' ? undefined : standing }
    return html`<a href=${app.link('orders', undefined, to)} aria-current=${standing === current ? 'true' : nothing}>
      ${t(`standing.${standing}`)}
      <span class="badge ${isUrgent ? 'warn' : ''}">${orders === undefined ? '…' : number(orders)}</span></a>`
  }
  return html`<nav class="tabs" aria-label=${t('orders.tabs')}>${standings.map(tab)}</nav>`
}

function list(app, { orders, totals, ...shown }, fresh) {
  if (orders.length === 0) {
    if (isFiltered(app.query)) return empty(t('orders.noMatch'), t('orders.noMatchHint'))
    return empty(
      t('orders.none'),
      shown.page > 1 ? html`<a href=${cleared(app)}>${t('pager.newer')}</a>` : t('orders.noneHint'),
    )
  }
  return html`<div class="stack ${app.isWaiting ? 'waiting' : ''}" aria-busy=${app.isWaiting ? 'true' : nothing}>
    <p class="sums">${count('orders.count', shown.total)}${sums(totals[questionOf(app.query).standing ?? 'all'])}</p>
    ${pagedTable(app, shown, {
      label: t('nav.orders'),
      columns: orderColumns(app),
      rows: orders,
      keyOf: (order) => order.order_id,
      fresh,
    })}
  </div>`
}

/** What all orders of the filters come to, not only those of the page. */
function sums({ paid_amount: paid, refunded_amount: refunded }) {
  const kept = pointOfCents(Math.max(0, centsOfPoint(paid) - centsOfPoint(refunded)))
  const sum = (key, amount) => html` · ${t(key)} <strong>${money(amount)}</strong>`
  if (centsOfPoint(refunded) === 0) return sum('sums.paid', paid)
  return [sum('sums.paid', paid), sum('sums.refunded', refunded), sum('sums.kept', kept)]
}

function filters(app, { startsOpen, search, boxes }) {
  const { query } = app
  const set = (changes) => app.setQuery({ ...anew, ...changes })
  const date = (filter) =>
    // What is no day, in an address made by hand, is not asked for either.
    html`<input type="date" name=${filter} .value=${live((midnight(query[filter]) && query[filter]) ?? '')}
      @change=${(event) => set({ [filter]: event.target.value, day: undefined })}>`
  const submit = (event) => {
    event.preventDefault()
    search.send()
  }
  const option = (value) =>
    html`<option value=${value} ?selected=${(query.status ?? '') === value}>${value ? word('status', value) : t('filter.any')}</option>`
  const way = (day) => {
    const isCurrent = (query.day ?? '') === day && !query.from && !query.to
    const to = { ...query, ...anew, day, from: undefined, to: undefined }
    return html`<a class="button small" href=${app.link('orders', undefined, to)}
      aria-current=${isCurrent ? 'true' : nothing}>${t(`filter.day.${day || 'any'}`)}</a>`
  }
  return html`<details class="filters" ?open=${startsOpen}>
    <summary>${t('filter.title')} ${isFiltered(query) ? html`<span class="badge info">${t('filter.on')}</span>` : nothing}</summary>
    <form class="order-filters" @submit=${submit}>
      ${field(
        t('filter.text'),
        html`<input type="search" name="q" maxlength="64" autocomplete="off" .value=${live(search.text())} @input=${search.onInput}>`,
        t('filter.textHint', { example: amountExample() }),
      )}
      <div class="field">
        <span class="label" id="days">${t('filter.days')}</span>
        <div class="segments" role="group" aria-labelledby="days">${days.map(way)}</div>
      </div>
      ${field(t('filter.from'), date('from'))}
      ${field(t('filter.to'), date('to'))}
      ${field(
        t('filter.box'),
        html`<input type="text" name="caja_id" maxlength="64" autocomplete="off" list="box-ids" .value=${live(query.caja_id ?? '')}
            @change=${(event) => set({ caja_id: event.target.value })}>
          <datalist id="box-ids">${boxes.map((id) => html`<option value=${id}></option>`)}</datalist>`,
      )}
      ${field(
        t('order.status'),
        html`<select name="status" .value=${live(query.status ?? '')} @change=${(event) => set({ status: event.target.value })}>
          ${['', ...orderStatuses].map(option)}
        </select>`,
      )}
      ${isFiltered(query) ? html`<a class="button" href=${cleared(app)}>${t('filter.clear')}</a>` : nothing}
    </form>
  </details>`
}

function isFiltered(query) {
  return filterNames.some((filter) => query[filter])
}

function cleared(app) {
  return app.link('orders')
}
