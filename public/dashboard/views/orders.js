import { h } from '../../shared/dom.js'
import { errorSentence } from '../../shared/errors.js'
import { midnight, number } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { toast } from '../../shared/notices.js'
import {
  createFreshness,
  empty,
  field,
  howMany,
  pageOf,
  pageQuery,
  pager,
  table,
} from '../../shared/parts.js'
import { downloadOrders } from '../orders-csv.js'
import { orderColumns } from './order-columns.js'

const statuses = [
  'created',
  'at_terminal',
  'action_required',
  'processed',
  'failed',
  'canceled',
  'expired',
  'partially_refunded',
  'refunded',
]
const filterNames = ['q', 'status', 'caja_id', 'from', 'to']

/** Every order, newest first, by filters that stand in the address. */
export function createOrders(app) {
  const fresh = createFreshness()
  const startsOpen = matchMedia('(min-width: 48rem)').matches || isFiltered(app.query)
  let shown
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
      shown?.total > 0 &&
      h(
        'button',
        {
          type: 'button',
          class: 'button',
          disabled: written !== undefined,
          onclick: () => void download(),
        },
        written === undefined ? t('csv.button') : t('csv.busy', { count: number(written) }),
      ),
    async load(signal) {
      const { query } = app
      const answer = await app.getOrders({ ...questionOf(query), ...pageQuery(query) }, signal)
      shown = { question: JSON.stringify(query), page: pageOf(query), ...answer }
    },
    body: () => [filters(app, startsOpen), shown ? list(app, shown, fresh) : app.placeholder()],
  }
}

/** The filters of the address as the service takes them. */
function questionOf({ q, status, caja_id, from, to }) {
  return {
    q,
    status,
    caja_id,
    from: midnight(from),
    to: midnight(to, 1),
  }
}

function list(app, { question, orders, total, ...place }, fresh) {
  if (orders.length === 0) {
    return isFiltered(app.query) || place.page > 1
      ? h(
          'div',
          { key: 'nothing' },
          empty(t('orders.noMatch'), t('orders.noMatchHint')),
          h(
            'p',
            { class: 'center' },
            h('a', { class: 'button', href: cleared(app) }, t('filter.clear')),
          ),
        )
      : empty(t('orders.none'), t('orders.noneHint'))
  }
  return h(
    'div',
    {
      key: 'list',
      class: app.isWaiting ? 'stack waiting' : 'stack',
      'aria-busy': app.isWaiting ? 'true' : null,
    },
    howMany('orders.count', total),
    table({
      label: t('nav.orders'),
      columns: orderColumns(app),
      rows: orders,
      keyOf: (order) => order.order_id,
      freshKeys: fresh(
        question,
        orders.map((order) => order.order_id),
      ),
    }),
    pager({
      ...place,
      total,
      hrefOf: (to) => app.link('orders', undefined, { ...app.query, ...to }),
    }),
  )
}

function filters(app, startsOpen) {
  const { query } = app
  const change = (filter) => (event) =>
    app.setQuery({ [filter]: event.target.value, page: undefined, cursor: undefined })
  const text = (filter, maxlength, type = 'text') =>
    h('input', {
      type,
      name: filter,
      maxlength,
      autocomplete: 'off',
      value: query[filter],
      onchange: change(filter),
    })
  const date = (filter) =>
    h('input', {
      type: 'date',
      name: filter,
      // What is no day, in an address made by hand, is not asked for either.
      value: midnight(query[filter]) && query[filter],
      onchange: change(filter),
    })
  return h(
    'details',
    { key: 'filters', class: 'filters', open: startsOpen },
    h(
      'summary',
      null,
      t('filter.title'),
      isFiltered(query) && [' ', h('span', { class: 'badge info' }, t('filter.on'))],
    ),
    h(
      'form',
      { onsubmit: (event) => event.preventDefault() },
      field(t('filter.text'), text('q', 64, 'search'), t('filter.textHint')),
      field(
        t('order.status'),
        h(
          'select',
          { name: 'status', value: query.status ?? '', onchange: change('status') },
          h('option', { value: '' }, t('filter.any')),
          statuses.map((status) =>
            h('option', { key: status, value: status }, word('status', status)),
          ),
        ),
      ),
      field(t('filter.box'), text('caja_id', 64)),
      field(t('filter.from'), date('from')),
      field(t('filter.to'), date('to')),
      isFiltered(query) &&
        h('a', { key: 'clear', class: 'button', href: cleared(app) }, t('filter.clear')),
    ),
  )
}

function isFiltered(query) {
  return filterNames.some((filter) => query[filter])
}

function cleared(app) {
  return app.link('orders')
}
