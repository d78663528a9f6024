import { chart, colorOf } from '../../shared/chart.js'
import { code, duration, number, percent, shortClock, shortNumber } from '../../shared/format.js'
import { locale, t } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { facts } from '../../shared/parts.js'
import { panel } from './list-parts.js'

/** How fast a destination was sent its deliveries in the last hour, and when nothing waits any more; `flows` as /destinations. */
export function ratePanel(flows) {
  const sum = (of) => flows.reduce((total, one) => total + of(one), 0)
  const waiting = sum((one) => one.waiting)
  const done = sum((one) => one.done)
  const stillThere = sum((one) => one.still_there)
  const same = sum((one) => one.same_identity.count)
  const groups = flows.flatMap((one) => one.same_identity.groups.map((keys) => [one.flow, keys]))
  const perMinute = sum((one) => one.per_minute)
  const ends = flows.flatMap(({ ends_at: at }) => (at === null ? [] : [at])).sort()
  const isOver = flows.every((one) => one.waiting === 0 || one.ends_at !== null)
  const minutes = flows[0].samples.map(({ at }, place) => ({
    at,
    waiting: sum(({ samples }) => samples[place].waiting),
    delivered: sum(({ samples }) => samples[place].delivered),
    failed: sum(({ samples }) => samples[place].failed),
  }))
  const limits = flows.filter((one) => one.rate_limit)
  const hour = { delivered: 0, failed: 0 }
  for (const { delivered, failed } of minutes) {
    hour.delivered += delivered
    hour.failed += failed
  }
  return panel(
    t('rate.title'),
    html`${facts([
      [t('rate.now'), t('rate.perMinute', { count: number(Math.round(perMinute)) })],
      [t('destinations.queue'), number(waiting)],
      [t('rate.share'), done + waiting === 0 ? null : percent(done, done + waiting)],
      [t('rate.stillThere'), stillThere === 0 ? null : number(stillThere)],
      [
        t('rate.sameIdentity'),
        same === 0 ? null : [html`<p>${number(same)}</p>`, groups.map(groupLine)],
      ],
      [t('rate.ends'), waiting === 0 ? null : isOver ? shortClock(ends.at(-1)) : t('rate.unknown')],
      [
        t('rate.success'),
        hour.delivered + hour.failed === 0
          ? null
          : percent(hour.delivered, hour.delivered + hour.failed),
      ],
      [t('rate.limit'), limits.length === 0 ? null : limits.map(limitLine)],
    ])}
    ${plot('rate', minutes, 'delivered')} ${plot('queue', minutes, 'waiting')}`,
    { hint: t('rate.hint') },
  )
}

const groupLine = ([flow, keys]) => html`<p class="small">${flow}: ${keys.map(keyPart)}</p>`
const keyPart = (key, index) => html`${index > 0 ? ', ' : null}${code(key)}`

const limitLine = ({ flow, rate_limit: { max, per_ms: ms } }) =>
  html`<p class="small">${flow}: ${t('rate.limitOf', { max: number(max), time: duration(ms) })}</p>`

/** One figure of each minute. What it shows stands in the facts above, and in words for those who do not see it. */
function plot(kind, minutes, figure) {
  const top = minutes.reduce((best, one) => (one[figure] > best[figure] ? one : best))
  const hasFailures = figure === 'delivered' && minutes.some(({ failed }) => failed > 0)
  return html`<figure class="plot">
    <figcaption class="soft small">
      ${t(`rate.${kind}Plot`)}: ${t('rate.top', { count: number(top[figure]), time: shortClock(top.at) })}
    </figcaption>
    ${chart({
      kind: 'hours',
      height: 120,
      data: [
        minutes.map((_one, place) => place),
        minutes.map((one) => one[figure]),
        ...(hasFailures ? [minutes.map((one) => one.failed)] : []),
      ],
      form: `${kind} ${locale()} ${minutes[0].at} ${hasFailures}`,
      tipOf: (place) =>
        t(`rate.${kind}Tip`, {
          time: shortClock(minutes[place].at),
          count: number(minutes[place][figure]),
          failed: number(minutes[place].failed),
        }),
      optionsOf: (uPlot) => ({
        padding: [8, 4, 0, 0],
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: {
          x: { time: false },
          y: {
            range: (_chart, _least, most) => uPlot.rangeNum(0, Math.max(most ?? 0, 1), 0.1, true),
          },
        },
        axes: [
          {
            ...axis(),
            size: 24,
            gap: 2,
            space: 60,
            grid: { show: false },
            incrs: [10, 15, 30],
            values: (_chart, splits) =>
              splits.map((place) => (minutes[place] ? shortClock(minutes[place].at) : '')),
          },
          { ...axis(), size: 48, space: 36, values: (_chart, splits) => splits.map(shortNumber) },
        ],
        series: [
          {},
          { stroke: colorOf('--accent'), width: 2, points: { show: false } },
          ...(hasFailures ? [{ stroke: colorOf('--bad'), width: 2, points: { show: false } }] : []),
        ],
      }),
    })}
  </figure>`
}

function axis() {
  return {
    font: '12px system-ui, sans-serif',
    stroke: colorOf('--soft'),
    grid: { stroke: colorOf('--line'), width: 1 },
    ticks: { show: false },
  }
}
