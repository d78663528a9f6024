import { formatter, number, percent } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html, svg } from '../../shared/lit.js'
import { empty, note } from '../../shared/parts.js'
import { dayOf, midnight } from '../../shared/shop-clock.js'
import { money } from '../amounts.js'
import { taxName } from '../tax-name.js'
import { chooseClient } from './choose-client.js'
import { closingWays } from './closing-ways.js'
import '../closings-page-texts.js'

/** What is left of a month's charges: from what was charged, fee by fee and tax by tax, down to the net. */
export function createNet(app) {
  let shown
  return {
    isOfOne: true,
    title: () => t('net.title'),
    async load(signal) {
      const { client } = app
      if (client === undefined) {
        shown = undefined
        return
      }
      const month = monthOf(app.query)
      const to = month === thisMonth() ? undefined : midnight(firstOf(moved(month, 1)))
      const span = { from: midnight(firstOf(month)), to }
      const answer = await app.api.get(
        '/settlements/net',
        { ...app.clientQuery(), ...span },
        signal,
      )
      shown = { client, month, ...answer }
    },
    body() {
      if (app.client === undefined) return chooseClient(app)
      const month = monthOf(app.query)
      const isShown = shown?.client === app.client && shown.month === month
      return [
        closingWays(app, 'net'),
        monthPicker(app, month),
        isShown ? monthBody(shown) : app.placeholder(),
      ]
    },
  }
}

function thisMonth() {
  return dayOf().slice(0, 7)
}

function monthOf({ month }) {
  const isMonth = /^\d{4}-\d{2}$/.test(month ?? '') && midnight(firstOf(month)) !== undefined
  return isMonth && month < thisMonth() ? month : thisMonth()
}

function firstOf(month) {
  return `${month}-01`
}

function moved(month, by) {
  const [year, index] = month.split('-').map(Number)
  return new Date(Date.UTC(year, index - 1 + by)).toISOString().slice(0, 7)
}

function monthPicker(app, month) {
  const form = { month: 'long', year: 'numeric', timeZone: 'UTC' }
  const name = formatter('DateTimeFormat', form).format(new Date(firstOf(month)))
  const step = (by, text) => {
    const to = moved(month, by)
    const query = { month: to === thisMonth() ? undefined : to }
    return to > thisMonth()
      ? html`<span class="button off" aria-disabled="true">${text}</span>`
      : html`<a class="button" href=${app.link('closings', 'net', query)}>${text}</a>`
  }
  return html`<nav class="month" aria-label=${t('net.month')}>
    ${step(-1, t('net.earlier'))}
    <h2 class="month-name">${name}</h2>
    ${step(1, t('net.later'))}
  </nav>`
}

function monthBody(month) {
  const { orders, unknown } = month
  const { taken, returned } = month.charged_back
  if (orders === 0 && unknown.orders === 0) return empty(t('net.none'), t('net.noneHint'))
  return [
    unknown.orders > 0
      ? note(
          'info',
          html`<p>${t('net.unknown', { count: number(unknown.orders), amount: money(unknown.gross) })}</p>`,
        )
      : null,
    taken === '0.00'
      ? null
      : note(
          'warn',
          html`<p>${t('net.chargedBack', { taken: money(taken), returned: money(returned) })}</p>`,
        ),
    orders > 0 ? waterfall(month) : null,
    orders > 0 ? states(month) : null,
  ]
}

/** From what was charged down to what is left, each bar beginning where the one above ended. */
function waterfall(month) {
  const gross = Number(month.gross)
  const taxes = month.taxes.map((tax) => ({
    title: taxName(tax),
    amount: tax.amount,
    kind: 'tax',
  }))
  const named = taxes.reduce((sum, { amount }) => sum + centsOf(amount), 0)
  const rest = centsOf(month.taxes_total) - named
  const parts = [
    { title: t('net.fee'), amount: month.fee, kind: 'fee' },
    { title: t('net.financing'), amount: month.financing, kind: 'financing' },
    ...taxes,
    ...(rest === 0 ? [] : [{ title: t('net.otherTaxes'), amount: pointOf(rest), kind: 'tax' }]),
    ...(Number(month.unexplained) === 0
      ? []
      : [{ title: t('net.unexplained'), amount: month.unexplained, kind: 'unexplained' }]),
  ]
  let left = gross
  const rows = parts.map((part) => {
    const amount = Number(part.amount)
    left -= amount
    return {
      ...part,
      from: left,
      to: left + amount,
      share: amount,
      shown: `− ${money(part.amount)}`,
    }
  })
  const all = [
    { title: t('net.gross'), kind: 'gross', from: 0, to: gross, shown: money(month.gross) },
    ...rows,
    { title: t('net.net'), kind: 'net', from: 0, to: Number(month.net), shown: money(month.net) },
  ]
  return html`<section class="panel">
    <h2>${t('net.parts')}</h2>
    <ul class="waterfall">
      ${all.map((row) => partRow(row, gross))}
    </ul>
  </section>`
}

function partRow({ title, kind, from, to, share, shown }, gross) {
  const inBar = (value) => Math.min(100, Math.max(0, (100 * value) / (gross || 1)))
  const left = inBar(Math.min(from, to))
  const width = inBar(Math.max(from, to)) - left
  // A share that is there must be seen, however small it is.
  const bar =
    from !== to &&
    svg`<rect class=${kind} x="${left}%" y="0" width="${Math.max(0.4, width)}%" height="100%" rx="2" />`
  return html`<li class=${kind}>
    <span class="part-name"><bdi>${title}</bdi></span>
    <svg class="part-bar" aria-hidden="true" focusable="false">${bar || null}</svg>
    <span class="part-amount">${shown}</span>
    <span class="part-share soft small">${share === undefined ? '' : percent(share, gross || 1)}</span>
  </li>`
}

function states({ estimated, settled, differs, orders, not_classed: unclassed }) {
  return html`<section class="panel">
    <h2>${t('net.sure')}</h2>
    <dl class="facts">
      ${[
        [t('net.orders'), orders],
        [t('net.settled'), settled],
        [t('net.estimated'), estimated],
        [t('net.differs'), differs],
      ].map(
        ([title, value]) => html`<div>
          <dt>${title}</dt>
          <dd>${number(value)}</dd>
        </div>`,
      )}
    </dl>
    ${
      unclassed.length > 0
        ? html`<p class="soft small">${t('net.notClassed')}</p>
          <ul>
            ${unclassed.map(
              (tax) => html`<li><bdi>${taxName(tax)}</bdi>: ${money(tax.amount)}</li>`,
            )}
          </ul>`
        : null
    }
  </section>`
}

/** Whole cents of `-12.34`. */
function centsOf(point) {
  return Math.round(Number(point) * 100)
}

function pointOf(cents) {
  return (cents / 100).toFixed(2)
}
