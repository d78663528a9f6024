import { number } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import { createFreshness, empty, loading, table, tile } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { approvalRate } from '../approval.js'
import { centsOfPoint } from '../money.js'
import { periodOf } from '../period.js'
import { attention } from './attention.js'
import { boxLights, glance, wantsAll } from './box-lights.js'
import { orderColumns } from './order-columns.js'
import { periodPicker } from './period-picker.js'
import { salesChart } from './sales-chart.js'
import { serviceState } from './service-state.js'
import { createStoreSales } from './store-sales.js'

const latestShown = 8
/** The span before changes little: it is not read every few seconds. */
const beforeMs = 60_000

/**
 * What needs attention, what came in, and by store how that agrees with Mercado Pago. Today also shows how each box is, the latest
 * orders and the service; another span shows its sales.
 */
export function createOverview(app) {
  const fresh = createFreshness()
  const finder = { text: '', onlyProblems: false, isWhole: false }
  const stores = createStoreSales(app)
  let shown
  let before

  /** Drawn when it is there: nobody waits for it, and without it only the comparison is missing. */
  const readBefore = async (period, question) => {
    if (before?.question === question && Date.now() - before.at < beforeMs) return
    const at = Date.now()
    before = { question, at, total: before?.question === question ? before.total : undefined }
    try {
      const { total } = await app.api.get('/sales', { client: app.scope, ...period.before })
      if (before.question === question) before.total = total
      app.redraw()
    } catch {
      before.at = 0
    }
  }

  const isOf = ({ from, to }) => shown?.period.from === from && shown.period.to === to

  return {
    title: () => t('nav.overview'),
    async load(signal) {
      const period = periodOf(app.query)
      const { from, to, name } = period
      const most = wantsAll(finder) ? undefined : glance
      const question = JSON.stringify([app.client ?? '', from, to])
      const [statistics, latest] = await Promise.all([
        app.getOverview({ from, to, most_boxes: most }, signal).then((answer) => {
          // What is read first is shown first: the sums of a chain take longer.
          if (!isOf(period)) {
            shown = { question, period, statistics: answer, latest: undefined }
            app.redraw()
          }
          return answer
        }),
        name === 'today' ? app.getOrders({ limit: latestShown }, signal) : { orders: [] },
        stores.load(period, signal),
      ])
      shown = { question, period, statistics, latest: latest.orders }
      void readBefore(period, question)
    },
    body() {
      const period = periodOf(app.query)
      if (!isOf(period)) return [periodPicker(app, period), app.placeholder()]
      const { statistics, latest } = shown
      const isToday = period.name === 'today'
      return html`
        ${isToday ? attention(app, statistics) : nothing}
        ${periodPicker(app, period)}
        <div class="sales-top">${numbers(shown, before)}${salesChart(statistics, period, trendLink(app))}</div>
        ${latest === undefined ? loading() : stores.section()}
        ${
          isToday && latest !== undefined
            ? [
                boxLights(app, statistics, finder),
                latestOrders(app, shown, fresh),
                serviceState(app, statistics),
              ]
            : nothing
        }`
    },
  }
}

/** Sales over time, of the span that is shown; of one day there is little to see. */
function trendLink(app) {
  const { period = 'month', from, to } = app.query
  const query = { period: from ? undefined : period, from, to }
  return html`<a href=${app.link('overview', 'trend', query)}>${t('trend.link')}</a>`
}

function latestOrders(app, { question, latest }, fresh) {
  return html`<section class="panel latest">
    <div class="panel-head">
      <h2>${t('overview.latest')}</h2>
      <a href=${app.link('orders')}>${t('overview.allOrders')}</a>
    </div>
    ${
      latest.length === 0
        ? empty(t('orders.none'), t('orders.noneHint'))
        : table({
            label: t('overview.latest'),
            columns: orderColumns(app),
            rows: latest,
            keyOf: (order) => order.order_id,
            freshKeys: fresh(
              question,
              latest.map((order) => order.order_id),
            ),
          })
    }
  </section>`
}

function numbers({ question, statistics, period }, before) {
  const seconds = statistics.median_charge_seconds
  const shownSeconds = seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds)
  const given = centsOfPoint(statistics.refunded_amount) > 0
  const paid = count('overview.paidOrders', statistics.paid)
  const isToday = period.name === 'today'
  return html`<section class="numbers" aria-label=${t(`overview.${isToday ? 'today' : 'sales'}`)}>
    ${tile(
      t(`overview.${isToday ? 'approved' : 'approvedThen'}`),
      money(statistics.paid_amount),
      [
        given ? t('overview.refunded', { amount: money(statistics.refunded_amount) }) : paid,
        before?.question === question && before.total
          ? changeOf(statistics, before.total, period)
          : nothing,
      ],
      'lead',
    )}
    ${tile(t(`overview.${isToday ? 'orders' : 'ordersThen'}`), number(statistics.orders), paid)}
    ${tile(
      t('overview.rate'),
      approvalRate(statistics),
      count('overview.declined', statistics.declined),
    )}
    ${tile(
      t('overview.speed'),
      seconds === null ? '—' : t('overview.seconds', { count: number(shownSeconds) }),
      t('overview.speedHint'),
    )}
    ${isToday ? tile(t('overview.open'), number(statistics.open), t('overview.openHint')) : nothing}
  </section>`
}

/** How much more or less came in than in the same time before. */
function changeOf({ paid_amount: amount }, before, { name }) {
  const [now, then] = [centsOfPoint(amount), centsOfPoint(before.paid_amount)]
  if (then === 0) return nothing
  const change = Math.round(((now - then) / then) * 100)
  const values = {
    change: `${change > 0 ? '+' : ''}${number(change)} %`,
    amount: money(before.paid_amount),
  }
  return html`<br>${t(`overview.change.${name === 'today' ? 'today' : 'other'}`, values)}`
}
