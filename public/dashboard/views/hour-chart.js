import { chart, colorOf } from '../../shared/chart.js'
import { shortNumber } from '../../shared/format.js'
import { locale, t } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import { hourOf } from '../../shared/shop-clock.js'
import { money } from '../amounts.js'
import { centsOfPoint } from '../money.js'

const hourMs = 3_600_000

/** What came in by the hour of the day as bars; whoever cannot see or point at them opens the same as a list. */
export function hourChart({ from, hours }) {
  return html`<section class="panel">
    <div class="panel-head"><h2>${t('overview.hours')}</h2>${bestHour(hours)}</div>
    ${
      hours.length === 0
        ? html`<p class="soft">${t('orders.none')}</p>`
        : html`${bars(from, hours)}
          <details class="hour-list"><summary>${t('overview.hourList')}</summary>
            <ul>${hours.map((hour) => html`<li>${say(hour)}</li>`)}</ul>
          </details>`
    }
  </section>`
}

function bars(from, hours) {
  const start = new Date(from).getTime()
  const byHour = new Map(
    hours.map((hour) => [Math.round((new Date(hour.from).getTime() - start) / hourMs), hour]),
  )
  // 25 on the day that the clocks go back.
  const last = Math.max(23, ...byHour.keys())
  const columns = Array.from({ length: last + 1 }, (_none, index) => index)
  const amounts = columns.map((index) => {
    const hour = byHour.get(index)
    return hour ? centsOfPoint(hour.paid_amount) / 100 : null
  })
  const clockOf = (index) => String(hourOf(start + index * hourMs))
  return chart({
    kind: 'hours',
    height: 140,
    data: [columns, amounts],
    form: `${from} ${locale()}`,
    tipOf: (index) => {
      const hour = byHour.get(index)
      return hour && say(hour)
    },
    optionsOf: (uPlot) => ({
      padding: [8, 4, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: {
        x: { time: false, range: [-0.5, last + 0.5] },
        // An hour in which nothing was paid still has room above the line.
        y: { range: (_chart, _least, top) => uPlot.rangeNum(0, Math.max(top ?? 0, 1), 0.1, true) },
      },
      axes: [
        {
          ...axis(),
          size: 24,
          gap: 2,
          space: 26,
          grid: { show: false },
          incrs: [1, 2, 3, 6, 12],
          values: (_chart, splits) => splits.map((index) => (index > last ? '' : clockOf(index))),
        },
        { ...axis(), size: 48, space: 36, values: (_chart, splits) => splits.map(shortNumber) },
      ],
      series: [
        {},
        {
          paths: uPlot.paths.bars({ size: [0.75, 48] }),
          fill: colorOf('--accent'),
          stroke: colorOf('--accent'),
          width: 0,
          points: { show: false },
        },
      ],
    }),
  })
}

function axis() {
  return {
    font: '12px system-ui, sans-serif',
    stroke: colorOf('--soft'),
    grid: { stroke: colorOf('--line'), width: 1 },
    ticks: { show: false },
  }
}

/** The highest bar in words. */
function bestHour(hours) {
  const best = hours.toSorted(
    (a, b) => centsOfPoint(b.paid_amount) - centsOfPoint(a.paid_amount),
  )[0]
  if (!best || centsOfPoint(best.paid_amount) === 0) return nothing
  const hour = hourOf(best.from)
  return html`<p class="soft small">${t('overview.bestHour', { hour, next: hour + 1, amount: money(best.paid_amount) })}</p>`
}

function say({ from, orders, paid, paid_amount: amount }) {
  const hour = hourOf(from)
  return t('overview.hour', { hour, next: hour + 1, amount: money(amount), paid, orders })
}
