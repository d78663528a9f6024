import { calendarDay, number } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import { empty, pageSize, table } from '../../shared/parts.js'
import { dayOf, shownZone } from '../../shared/shop-clock.js'
import { money } from '../amounts.js'
import { approvalRate } from '../approval.js'
import { csvAmount, csvLine, saveCsv } from '../csv-file.js'
import { centsOfPoint } from '../money.js'
import { periodOf } from '../period.js'
import { naturally } from './finder.js'
import { periodPicker } from './period-picker.js'
import { barChart } from './sales-chart.js'
import { differenceOf } from './store-sales.js'

const groups = ['day', 'week', 'store', 'method']

/** Sales of a span by day, week, store or method of payment, by the records of both sides, as a plot, a table and a file. */
export function createTrend(app) {
  let shown
  let isWhole = false

  return {
    title: () => t('trend.title'),
    head: () => html`<a class="back" href=${app.link('overview')}>← ${t('trend.back')}</a>`,
    actions: () =>
      shown?.rows.length > 0
        ? html`<button type="button" class="button" @click=${() => download(shown)}>${t('csv.button')}</button>`
        : nothing,
    async load(signal) {
      const { from, to } = periodOf(app.query)
      const group = groupOf(app.query)
      const question = JSON.stringify([app.scope, from, to, group])
      if (shown?.question !== question) isWhole = false
      const query = { client: app.scope, from, to }
      const asked = { ...query, group, time_zone: shownZone() }
      const answer = await app.api.get('/sales-over-time', asked, signal)
      shown = { question, group, total: answer.total, rows: rowsOf(app, group, answer.groups) }
    },
    body() {
      const period = periodOf(app.query)
      const group = groupOf(app.query)
      const question = JSON.stringify([app.scope, period.from, period.to, group])
      const showAll = () => {
        isWhole = true
        app.redraw()
      }
      return html`
        ${periodPicker(app, period)}
        ${groupPicker(app, group)}
        ${shown?.question === question ? content(shown, isWhole, showAll) : app.placeholder()}`
    },
  }
}

function groupOf({ by }) {
  return groups.includes(by) ? by : 'day'
}

function rowsOf(app, group, found) {
  const rows = found.map((one) => ({ ...one, name: nameOf(app, group, one) }))
  return group === 'store'
    ? rows.toSorted((a, b) => naturally.compare(a.name, b.name))
    : group === 'method'
      ? rows.toSorted((a, b) => centsOfPoint(b.paid_amount) - centsOfPoint(a.paid_amount))
      : rows
}

function nameOf(app, group, one) {
  if (group === 'method') return word('method', one.key)
  if (group === 'week') return t('trend.weekOf', { day: calendarDay(one.key) })
  if (group === 'day') return calendarDay(one.key)
  const isAlone = !app.isAdmin || app.client !== undefined
  return `${isAlone ? '' : `${one.client} · `}${one.name ?? one.key}`
}

function groupPicker(app, current) {
  return html`<nav class="periods" aria-label=${t('trend.by')}>${groups.map(
    (
      group,
    ) => html`<a class="button small" href=${app.link(app.name, app.id, { ...app.query, by: group })}
      aria-current=${group === current ? 'true' : nothing}>${t(`trend.by.${group}`)}</a>`,
  )}</nav>`
}

function content({ group, rows, total }, isWhole, showAll) {
  if (rows.length === 0) return empty(t('orders.none'))
  const seen = isWhole ? rows : rows.slice(0, pageSize)
  return html`
    <section class="panel" aria-label=${t('sales.sold')}>
      <div class="panel-head"><h2>${t('sales.sold')} <span class="soft">${money(total.paid_amount)}</span></h2></div>
      ${plot(group, rows)}
    </section>
    ${table({
      label: t('trend.title'),
      kind: 'brief trend',
      columns: columnsOf(group),
      rows: [...seen, { ...total, key: 'total', name: t('trend.total'), isTotal: true }],
      keyOf: (row) => JSON.stringify([row.client, row.key]),
    })}
    ${
      rows.length > seen.length
        ? html`<button type="button" class="button" @click=${showAll}>${t('trend.showAll', { count: number(rows.length) })}</button>`
        : nothing
    }`
}

function plot(group, rows) {
  const byPlace = new Map(
    rows.map(({ name, paid, paid_amount: amount }, place) => [
      place,
      {
        cents: centsOfPoint(amount),
        text: `${name}: ${money(amount)}, ${count('overview.paidOrders', paid)}`,
      },
    ]),
  )
  return barChart(group, {
    byPlace,
    last: rows.length - 1,
    nameOf: (place) => shortName(group, rows[place]),
    steps: [1, 2, 5, 7],
  })
}

/** Short enough for the axis: of a store the last word, for the first ones are often the same. */
function shortName(group, row) {
  if (!row) return ''
  if (group === 'day') return String(Number(row.key.slice(8)))
  if (group === 'week') return `${Number(row.key.slice(8))}/${Number(row.key.slice(5, 7))}`
  return row.name.split(' ').at(-1).slice(0, 9)
}

function columnsOf(group) {
  const labelled = (key, text) => html`<span class="on-phone soft small">${t(key)} </span>${text}`
  const rate = {
    id: 'rate',
    title: t('overview.rate'),
    numeric: true,
    cell: (row) => labelled('overview.rate', approvalRate(row)),
  }
  return [
    {
      id: 'name',
      title: t(`trend.by.${group}`),
      cell: ({ name }) => html`<bdi class="strong">${name}</bdi>`,
    },
    {
      id: 'sold',
      title: t('sales.sold'),
      numeric: true,
      cell: (row) => html`<span class="strong">${money(row.paid_amount)}</span>`,
    },
    {
      id: 'paid',
      title: t('trend.paid'),
      numeric: true,
      cell: ({ paid }) => labelled('trend.paid', number(paid)),
    },
    rate,
    {
      id: 'provider',
      title: t('sales.provider'),
      numeric: true,
      cell: ({ provider }) => labelled('sales.provider', money(provider.amount)),
    },
    { id: 'difference', title: t('sales.difference'), numeric: true, cell: differenceOf },
    {
      id: 'fees',
      title: t('sales.fees'),
      numeric: true,
      cell: ({ fees }) => (fees.orders === 0 ? '—' : labelled('sales.fees', money(fees.amount))),
    },
  ]
}

function download({ group, rows }) {
  const heads = [
    t(`trend.by.${group}`),
    t('sales.sold'),
    t('trend.paid'),
    t('trend.declined'),
    t('sales.provider'),
    t('sales.difference'),
    t('sales.fees'),
  ]
  const lines = rows.map((row) => [
    group === 'day' || group === 'week' ? row.key : row.name,
    csvAmount(row.paid_amount),
    row.paid,
    row.declined,
    csvAmount(row.provider.amount),
    csvAmount(row.difference),
    csvAmount(row.fees.amount),
  ])
  saveCsv([heads, ...lines].map(csvLine), `tillbridge-${group}-${dayOf()}.csv`)
}
