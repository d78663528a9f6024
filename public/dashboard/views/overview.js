import { h } from '../../shared/dom.js'
import { code, name, number, percent, relative, startOfToday, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { badge, createFreshness, empty, facts, note, table } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { centsOfPoint } from '../money.js'
import { boxLights } from './box-lights.js'
import { hourChart } from './hour-chart.js'
import { orderColumns } from './order-columns.js'

const latestShown = 8

/** The day at a glance: what came in, what needs somebody, and how the service is. */
export function createOverview(app) {
  const fresh = createFreshness()
  const finder = { text: '' }
  let shown

  return {
    title: () => t('nav.overview'),
    async load(signal) {
      const [statistics, latest] = await Promise.all([
        app.getStatistics({ from: startOfToday() }, signal),
        app.getOrders({ limit: latestShown }, signal),
      ])
      shown = { question: app.client ?? '', statistics, latest: latest.orders }
    },
    body() {
      if (!shown) return app.placeholder()
      return [
        attention(app, shown.statistics),
        numbers(shown.statistics),
        hourChart(shown.statistics),
        boxLights(app, shown.statistics, finder),
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
        serviceState(app, shown.statistics),
      ]
    },
  }
}

function numbers(today) {
  const tried = today.paid + today.declined
  const seconds = today.median_charge_seconds
  return h(
    'section',
    { key: 'numbers', class: 'numbers', 'aria-label': t('overview.today') },
    tile(
      t('overview.approved'),
      money(today.paid_amount),
      centsOfPoint(today.refunded_amount) > 0
        ? t('overview.refunded', { amount: money(today.refunded_amount) })
        : count('overview.paidOrders', today.paid),
      'lead',
    ),
    tile(t('overview.orders'), number(today.orders), count('overview.paidOrders', today.paid)),
    tile(
      t('overview.rate'),
      tried === 0 ? '—' : percent(today.paid, tried),
      count('overview.declined', today.declined),
    ),
    tile(
      t('overview.speed'),
      seconds === null
        ? '—'
        : t('overview.seconds', {
            count: number(seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds)),
          }),
      t('overview.speedHint'),
    ),
    tile(t('overview.open'), number(today.open), t('overview.openHint')),
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
function attention(app, { action_required: waiting, paid_after_close: late, webhooks }) {
  const broken = (app.clients ?? []).filter(
    ({ client, connection }) =>
      (connection === 'lost' || connection === 'expired') && (!app.client || app.client === client),
  )
  const lines = [
    waiting > 0 &&
      h(
        'li',
        { key: 'action' },
        h(
          'a',
          { href: app.link('orders', undefined, { status: 'action_required' }) },
          count('attention.actionRequired', waiting),
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
    webhooks.failed > 0 &&
      h(
        'li',
        { key: 'webhooks' },
        app.isAdmin
          ? h('a', { href: app.link('webhooks') }, count('attention.webhooks', webhooks.failed))
          : count('attention.webhooks', webhooks.failed),
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

function serviceState({ health }, { webhooks }) {
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
          checks.database.warnings.map((warning) =>
            h('p', { class: 'soft small' }, warningText(warning)),
          ),
        ],
      ],
      [
        t('service.webhooks'),
        [
          webhooks.last_received_at
            ? [t('service.lastWebhook'), ' ', relative(webhooks.last_received_at)]
            : t('service.noWebhook'),
          webhooks.rejected > 0 && [
            ' ',
            badge('warn', count('service.rejected', webhooks.rejected)),
          ],
        ],
      ],
      [t('service.waiting'), checks && number(checks.waiting_tills)],
      [t('service.version'), health.version && code(health.version)],
    ]),
  )
}

/** The service says it in English: `fsync is off: data may be lost when the power fails`. */
function warningText(warning) {
  const [, setting, value] = /^(\w+) is ([\w-]+): data may be lost/.exec(warning) ?? []
  return setting === undefined ? warning : t('service.notDurable', { setting, value })
}
