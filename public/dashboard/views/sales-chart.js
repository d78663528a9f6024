import { chart, colorOf } from '../../shared/chart.js'
import { calendarDay, shortNumber } from '../../shared/format.js'
import { locale, t } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import { dayOf, hourOf } from '../../shared/shop-clock.js'
import { money } from '../amounts.js'
import { centsOfPoint, pointOfCents } from '../money.js'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** What came in as bars, by the hour of one day or by day; whoever cannot see or point at them opens the same as a list. `more` leads on. */
export function salesChart({ from, hours }, { first, days }, more) {
  const bars = days === 1 ? barsOfDay(from, hours) : barsOfDays(first, days, hours)
  const sold = [...bars.byPlace.values()]
  return html`<section class="panel">
    <div class="panel-head"><h2>${t(days === 1 ? 'overview.hours' : 'overview.days')}</h2>${bestOf(sold)}</div>
    ${
      sold.length === 0
        ? html`<p class="soft">${t('orders.none')}</p>`
        : html`${barChart(from, bars)}
          <p class="ways-on small">${more}</p>
          <details class="hour-list"><summary>${t('overview.hourList')}</summary>
            <ul>${sold.map((one) => html`<li>${one.text}</li>`)}</ul>
          </details>`
    }
  </section>`
}

/** A bar for each hour of a day: `byPlace` has those with orders, by their place in it. */
function barsOfDay(from, hours) {
  const start = new Date(from).getTime()
  const byPlace = new Map(
    hours.map((hour) => {
      const clock = hourOf(hour.from)
      const values = { ...hour, hour: clock, next: clock + 1, amount: money(hour.paid_amount) }
      const label = `${clock}:00–${clock + 1}:00`
      const place = Math.round((new Date(hour.from).getTime() - start) / hourMs)
      return [
        place,
        { cents: centsOfPoint(hour.paid_amount), label, text: t('overview.hour', values) },
      ]
    }),
  )
  return {
    byPlace,
    // 25 on the day that the clocks go back.
    last: Math.max(23, ...byPlace.keys()),
    nameOf: (place) => String(hourOf(start + place * hourMs)),
    steps: [1, 2, 3, 6, 12],
  }
}

/** A bar for each day of a span, by the clock of the shops. */
function barsOfDays(first, days, hours) {
  const begin = Date.parse(`${first}T00:00:00Z`)
  const sums = new Map()
  for (const { from, orders, paid, paid_amount: amount } of hours) {
    const day = dayOf(new Date(from).getTime())
    const sum = sums.get(day) ?? { orders: 0, paid: 0, cents: 0 }
    sums.set(day, {
      orders: sum.orders + orders,
      paid: sum.paid + paid,
      cents: sum.cents + centsOfPoint(amount),
    })
  }
  const byPlace = new Map(
    [...sums].map(([day, sum]) => {
      const label = calendarDay(day)
      const values = { ...sum, day: label, amount: money(pointOfCents(sum.cents)) }
      const place = (Date.parse(`${day}T00:00:00Z`) - begin) / dayMs
      return [place, { cents: sum.cents, label, text: t('overview.day', values) }]
    }),
  )
  return {
    byPlace,
    last: days - 1,
    nameOf: (place) => String(new Date(begin + place * dayMs).getUTCDate()),
    steps: [1, 2, 5, 7],
  }
}

/** Bars of amounts in cents by place, `nameOf(place)` on the axis; `form` changes when the same data is to be drawn otherwise. */
export function barChart(form, { byPlace, last, nameOf, steps }) {
  const places = Array.from({ length: last + 1 }, (_none, place) => place)
  const amounts = places.map((place) => {
    const bar = byPlace.get(place)
    return bar ? bar.cents / 100 : null
  })
  return chart({
    kind: 'hours',
    height: 140,
    data: [places, amounts],
    form: `${form} ${last} ${locale()}`,
    tipOf: (place) => byPlace.get(place)?.text,
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
          incrs: steps,
          values: (_chart, splits) => splits.map((place) => (place > last ? '' : nameOf(place))),
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
function bestOf(sold) {
  const best = sold.toSorted((a, b) => b.cents - a.cents)[0]
  if (!best || best.cents === 0) return nothing
  const values = { label: best.label, amount: money(pointOfCents(best.cents)) }
  return html`<p class="soft small">${t('overview.best', values)}</p>`
}
