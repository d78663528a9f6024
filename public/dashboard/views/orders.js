import { h } from '../../shared/dom.js'
import { midnight } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import {
  createFreshness,
  empty,
  field,
  howMany,
  pageOf,
  pager,
  pageSize,
  table,
} from '../../shared/parts.js'
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
const filterNames = ['status', 'caja_id', 'external_reference', 'from', 'to']

/** Every order, newest first, by filters that stand in the address. */
export function createOrders(app) {
  const fresh = createFreshness()
  const startsOpen = matchMedia('(min-width: 48rem)').matches || isFiltered(app.query)
  let shown

  return {
    title: () => t('nav.orders'),
    async load(signal) {
      const { query } = app
      const page = pageOf(query)
      const answer = await app.getOrders(
        {
          status: query.status,
          caja_id: query.caja_id,
          external_reference: query.external_reference,
          from: midnight(query.from),
          to: midnight(query.to, 1),
          limit: pageSize,
          offset: (page - 1) * pageSize,
        },
        signal,
      )
      shown = { question: JSON.stringify(query), page, ...answer }
    },
    body: () => [filters(app, startsOpen), shown ? list(app, shown, fresh) : app.placeholder()],
  }
}

function list(app, { question, page, orders, total }, fresh) {
  if (orders.length === 0) {
    return isFiltered(app.query) || page > 1
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
      page,
      total,
      hrefOf: (to) => app.link('orders', undefined, { ...app.query, page: to }),
    }),
  )
}

function filters(app, startsOpen) {
  const { query } = app
  const change = (filter) => (event) =>
    app.setQuery({ [filter]: event.target.value, page: undefined })
  const text = (filter, maxlength) =>
    h('input', {
      name: filter,
      maxlength,
      autocomplete: 'off',
      value: query[filter],
      onchange: change(filter),
    })
  const date = (filter) =>
    h('input', { type: 'date', name: filter, value: query[filter], onchange: change(filter) })
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
      field(t('filter.reference'), text('external_reference', 64)),
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
