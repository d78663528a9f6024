import { h } from '../../shared/dom.js'
import { t } from '../../shared/i18n.js'
import { money } from '../amounts.js'
import { centsOfPoint } from '../money.js'

const hourMs = 3_600_000
const height = 64

/** What came in by the hour of the day as bars; who cannot see them gets the same as a list. */
export function hourChart({ from, hours }) {
  const start = new Date(from).getTime()
  const byHour = new Map(
    hours.map((hour) => [Math.round((new Date(hour.from).getTime() - start) / hourMs), hour]),
  )
  const top = Math.max(1, ...hours.map((hour) => centsOfPoint(hour.paid_amount)))
  // 25 on the day that the clocks go back.
  const last = Math.max(23, ...byHour.keys())
  const bars = Array.from({ length: last + 1 }, (_none, index) => {
    const hour = byHour.get(index)
    if (!hour) return null
    const share = centsOfPoint(hour.paid_amount) / top
    const tall = share === 0 ? 1 : Math.max(2, share * height)
    return h(
      'rect',
      { key: index, class: 'bar', x: index * 10 + 1, y: height - tall, width: 8, height: tall },
      h('title', null, say(hour)),
    )
  })
  return h(
    'section',
    { key: 'hours', class: 'panel' },
    h('div', { class: 'panel-head' }, h('h2', null, t('overview.hours')), bestHour(hours)),
    hours.length === 0
      ? h('p', { class: 'soft' }, t('orders.none'))
      : [
          h(
            'svg',
            {
              class: 'hours',
              viewBox: `0 0 ${(last + 1) * 10} ${height}`,
              preserveAspectRatio: 'none',
              'aria-hidden': 'true',
            },
            bars,
          ),
          h(
            'div',
            { class: 'hour-marks', 'aria-hidden': 'true' },
            ['0', '6', '12', '18', '24'].map((mark) => h('span', { key: mark }, mark)),
          ),
          h(
            'ul',
            { class: 'visually-hidden' },
            hours.map((hour) => h('li', { key: hour.from }, say(hour))),
          ),
        ],
  )
}

/** What the highest bar stands for: the scale of all others. */
function bestHour(hours) {
  const best = hours.toSorted(
    (a, b) => centsOfPoint(b.paid_amount) - centsOfPoint(a.paid_amount),
  )[0]
  if (!best || centsOfPoint(best.paid_amount) === 0) return null
  const hour = new Date(best.from).getHours()
  return h(
    'p',
    { class: 'soft small' },
    t('overview.bestHour', { hour, next: hour + 1, amount: money(best.paid_amount) }),
  )
}

function say({ from, orders, paid, paid_amount: amount }) {
  const hour = new Date(from).getHours()
  return t('overview.hour', { hour, next: hour + 1, amount: money(amount), paid, orders })
}
