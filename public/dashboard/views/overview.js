import { number, percent } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { createFreshness, empty, table, tile } from '../../shared/parts.js'
import { startOfToday } from '../../shared/shop-clock.js'
import { money } from '../amounts.js'
import { centsOfPoint } from '../money.js'
import { attention } from './attention.js'
import { boxLights, glance, wantsAll } from './box-lights.js'
import { hourChart } from './hour-chart.js'
import { orderColumns } from './order-columns.js'
import { serviceState } from './service-state.js'

const latestShown = 8

/** A bad morning from its questions down: what needs somebody, which box can sell, what came in, and how the service is. */
export function createOverview(app) {
  const fresh = createFreshness()
  const finder = { text: '', onlyProblems: false, isWhole: false }
  let shown

  return {
    title: () => t('nav.overview'),
    async load(signal) {
      const most = wantsAll(finder) ? undefined : glance
      const [statistics, latest] = await Promise.all([
        app.getOverview({ from: startOfToday(), most_boxes: most }, signal),
        app.getOrders({ limit: latestShown }, signal),
      ])
      shown = { question: app.client ?? '', statistics, latest: latest.orders }
    },
    body() {
      if (!shown) return app.placeholder()
      const { statistics } = shown
      return html`
        ${attention(app, statistics)}
        ${boxLights(app, statistics, finder)}
        ${numbers(statistics)}
        ${latestOrders(app, shown, fresh)}
        ${serviceState(app, statistics)}
        ${hourChart(statistics)}`
    },
  }
}

function latestOrders(app, { question, latest }, fresh) {
  return html`<section class="panel">
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

function numbers(today) {
  const tried = today.paid + today.declined
  const seconds = today.median_charge_seconds
  const shownSeconds = seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds)
  const given = centsOfPoint(today.refunded_amount) > 0
  const paid = count('overview.paidOrders', today.paid)
  return html`<section class="numbers" aria-label=${t('overview.today')}>
    ${tile(
      t('overview.approved'),
      money(today.paid_amount),
      given ? t('overview.refunded', { amount: money(today.refunded_amount) }) : paid,
      'lead',
    )}
    ${tile(t('overview.orders'), number(today.orders), paid)}
    ${tile(
      t('overview.rate'),
      tried === 0 ? '—' : percent(today.paid, tried),
      count('overview.declined', today.declined),
    )}
    ${tile(
      t('overview.speed'),
      seconds === null ? '—' : t('overview.seconds', { count: number(shownSeconds) }),
      t('overview.speedHint'),
    )}
    ${tile(t('overview.open'), number(today.open), t('overview.openHint'))}
  </section>`
}
