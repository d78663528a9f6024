import { h } from '../../shared/dom.js'
import { code, name, number, percent, relative, startOfToday, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { badge, createFreshness, empty, facts, note, table } from '../../shared/parts.js'
import { moneyOfCents } from '../amounts.js'
import { sumsOf, wasPaid } from '../money.js'
import { createDay } from './day.js'
import { orderColumns } from './order-columns.js'

const latestShown = 8

/** The day at a glance: what came in, what needs somebody, and how the service is. */
export function createOverview(app) {
  const day = createDay(app)
  const fresh = createFreshness()
  let shown

  return {
    title: () => t('nav.overview'),
    async load(signal) {
      const question = app.client ?? ''
      const list = (query) => app.getOrders(query, signal)
      const [today, latest, ...open] = await Promise.all([
        day.read(startOfToday(), signal),
        list({ limit: latestShown }),
        ...['created', 'at_terminal', 'action_required'].map((status) =>
          list({ status, limit: 1 }),
        ),
      ])
      shown = {
        question,
        today,
        latest: latest.orders,
        open: open.reduce((sum, { total }) => sum + total, 0),
        actionRequired: open[2].total,
      }
    },
    body() {
      if (!shown) return app.placeholder()
      return [
        attention(app, shown),
        numbers(shown),
        h(
          'section',
          { key: 'latest', class: 'panel' },
          h(
            'div',
            { class: 'panel-head' },
            h('h2', null, t('overview.latest')),
            h('a', { href: app.link('orders') }, t('overview.allOrders')),
          ),
          shown.latest.length === 0
            ? empty(t('orders.none'), t('orders.noneHint'))
            : table({
                label: t('overview.latest'),
                columns: orderColumns(app),
                rows: shown.latest,
                keyOf: (order) => order.order_id,
                freshKeys: fresh(
                  shown.question,
                  shown.latest.map((order) => order.order_id),
                ),
              }),
        ),
        serviceState(app),
      ]
    },
  }
}

function numbers({ today, open }) {
  const paid = today.orders.filter(wasPaid)
  const declined = today.orders.filter(
    ({ status, payments }) => status === 'failed' && payments.length > 0,
  ).length
  const sums = paid.map(sumsOf)
  const came = sums.reduce((sum, { paid: cents }) => sum + cents, 0)
  const went = sums.reduce((sum, { refunded }) => sum + refunded, 0)
  const tried = paid.length + declined
  const partial = today.orders.length < today.total
  return h(
    'section',
    { key: 'numbers', class: 'numbers', 'aria-label': t('overview.today') },
    tile(
      t('overview.approved'),
      moneyOfCents(came),
      partial
        ? t('overview.partial', { count: number(today.orders.length) })
        : went > 0
          ? t('overview.refunded', { amount: moneyOfCents(went) })
          : count('overview.paidOrders', paid.length),
      'lead',
    ),
    tile(t('overview.orders'), number(today.total), count('overview.paidOrders', paid.length)),
    tile(
      t('overview.rate'),
      tried === 0 ? '—' : percent(paid.length, tried),
      count('overview.declined', declined),
    ),
    tile(t('overview.open'), number(open), t('overview.openHint')),
  )
}

function tile(title, value, hint, extra = '') {
  return h(
    'div',
    { class: `tile ${extra}` },
    h('h2', null, title),
    h('p', { class: 'value' }, value),
    h('p', { class: 'soft small' }, hint),
  )
}

/** What somebody should look at now; nothing when all is well. */
function attention(app, { today, actionRequired }) {
  const late = today.orders.filter((order) => order.paid_after_close)
  const broken = (app.clients ?? []).filter(
    ({ client, connection }) =>
      (connection === 'lost' || connection === 'expired') && (!app.client || app.client === client),
  )
  const lines = [
    actionRequired > 0 &&
      h(
        'li',
        { key: 'action' },
        h(
          'a',
          { href: app.link('orders', undefined, { status: 'action_required' }) },
          count('attention.actionRequired', actionRequired),
        ),
      ),
    late.map((order) =>
      h(
        'li',
        { key: order.order_id },
        h(
          'a',
          { href: app.orderLink(order) },
          t('attention.paidAfterClose'),
          ' ',
          name(order.external_reference),
        ),
      ),
    ),
    broken.map(({ client, connection }) =>
      h(
        'li',
        { key: `client ${client}` },
        h('a', { href: app.link('clients') }, name(client), ': ', word('connection', connection)),
      ),
    ),
  ].flat()
  if (!lines.some(Boolean)) return null
  return h(
    'section',
    { key: 'attention', 'aria-label': t('attention.title') },
    note('warn', h('h2', null, t('attention.title')), h('ul', null, lines)),
  )
}

function serviceState({ health }) {
  if (!health) return null
  const { checks } = health
  const tone = { ok: 'good', degraded: 'warn', unknown: 'quiet' }
  const state = (check) => badge(tone[check.status], word('health', check.status))
  return h(
    'section',
    { key: 'service', class: 'panel' },
    h('h2', null, t('service.title')),
    facts([
      [
        t('service.mode'),
        badge(health.mode === 'sandbox' ? 'warn' : 'good', word('mode', health.mode)),
      ],
      [t('service.answered'), time(health.timestamp)],
      [
        t('service.provider'),
        checks && [
          state(checks.provider),
          checks.provider.last_answer_at && [
            ' ',
            h(
              'span',
              { class: 'soft small' },
              t('service.lastAnswer'),
              ' ',
              relative(checks.provider.last_answer_at),
            ),
          ],
        ],
      ],
      [
        t('service.database'),
        checks && [
          state(checks.database),
          ' ',
          word('engine', checks.database.engine),
          checks.database.warnings.map((warning) => h('p', { class: 'soft small' }, warning)),
        ],
      ],
      [t('service.waiting'), checks && number(checks.waiting_tills)],
      [t('service.version'), health.version && code(health.version)],
    ]),
  )
}
