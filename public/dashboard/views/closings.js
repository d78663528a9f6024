import { number } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { empty, note, tile } from '../../shared/parts.js'
import { dayOf, midnight } from '../../shared/shop-clock.js'
import { moneyOfCents } from '../amounts.js'
import { centsOfPoint } from '../money.js'
import { createChargebacks } from './chargebacks.js'
import { chooseClient } from './choose-client.js'
import { createClosing } from './closing.js'
import { askCloseAll, createClosingStores, urgency } from './closing-stores.js'
import { closingWays } from './closing-ways.js'
import { createNet } from './net.js'
import { createOrphans } from './orphans.js'
import '../closings-page-texts.js'

const pageSize = 200
const pagesAtMost = 10

/** By what stands behind it in the address: the boxes of a day, one closing, orphans, charge-backs, or the net of a month. */
export function createClosings(app) {
  if (app.id === undefined) return createDay(app)
  if (app.id === 'orphans') return createOrphans(app)
  if (app.id === 'chargebacks') return createChargebacks(app)
  if (app.id === 'net') return createNet(app)
  return createClosing(app)
}

/** What each box sold on a day, and how far its closing is. */
function createDay(app) {
  const stores = createClosingStores(app)
  let shown
  return {
    isOfOne: true,
    title: () => t('nav.closings'),
    async load(signal) {
      const { client } = app
      shown = client === undefined ? undefined : await readDay(app, client, signal)
      if (shown && app.query.close === 'all' && app.may('close_days')) {
        // Once: neither a reload nor the way back asks again.
        history.replaceState(null, '', app.link('closings', undefined, { ...app.query, close: '' }))
        app.query = { ...app.query, close: undefined }
        askCloseAll(app, shown.rows, shown.day)
      }
    },
    body() {
      if (app.client === undefined) return chooseClient(app)
      const day = dayAsked(app.query)
      const isShown = shown?.client === app.client && shown.day === day
      return [
        closingWays(app),
        dayPicker(app, day),
        isShown ? dayBody(app, shown, stores) : app.placeholder(),
      ]
    },
  }
}

async function readDay(app, client, signal) {
  const day = dayAsked(app.query)
  const of = app.clientQuery()
  const to = day === dayOf() ? undefined : midnight(day, 1)
  const [{ boxes }, closings, orphans] = await Promise.all([
    app.getOverview({ from: midnight(day), to }, signal),
    readClosings(app, day, signal),
    app.api.get('/orphans', { ...of, state: 'open', limit: 1 }, signal),
  ])
  return { client, day, rows: rowsOf(boxes, closings), orphans: orphans.total }
}

async function readClosings(app, day, signal) {
  const closings = []
  for (let page = 0; page < pagesAtMost; page += 1) {
    const span = { from: day, to: day, limit: pageSize, offset: page * pageSize }
    const answer = await app.api.get('/closings', { ...app.clientQuery(), ...span }, signal)
    closings.push(...answer.closings)
    if (closings.length >= answer.total || answer.closings.length === 0) break
  }
  return closings
}

/** A row for each box, and for each store that was closed as a whole, with its closings of the day in their sequence. */
function rowsOf(boxes, closings) {
  const inSequence = closings.toSorted((a, b) => a.number - b.number)
  const ofPlaces = Map.groupBy(inSequence, keyOf)
  const ofStores = [...ofPlaces.values()]
    .filter(([{ caja_id: box }]) => box === null)
    .map((list) => ({ closings: list, storeId: list[0].sucursal_id }))
  const ofBoxes = boxes.map((box) => ({
    box,
    storeId: box.sucursal_id,
    closings: ofPlaces.get(keyOf(box)) ?? [],
  }))
  return [...ofBoxes, ...ofStores].map((row) => ({ ...row, state: stateOf(row) }))
}

function keyOf({ caja_id: box, sucursal_id: store }) {
  return JSON.stringify(box === null ? [store] : [store, box])
}

/** Of several closings the one that needs somebody most. */
function stateOf({ box, closings }) {
  const [first] = closings.map(({ state }) => state).sort((a, b) => urgency[a] - urgency[b])
  return first ?? (box.paid > 0 ? 'uncounted' : 'quiet')
}

function dayBody(app, { rows, orphans, day }, stores) {
  if (rows.length === 0) return empty(t('closings.noBoxes'), t('closings.noBoxesHint'))
  return [
    orphans > 0 ? orphanNote(app, orphans) : null,
    numbers(rows),
    stores.sections({ rows, day }),
  ]
}

function orphanNote(app, total) {
  return note(
    'warn',
    html`<p>
      <strong>${count('orphans.open', total)}</strong>
      <a href=${app.link('closings', 'orphans')}>${t('orphans.look')}</a>
    </p>`,
  )
}

function numbers(rows) {
  const sold = rows.reduce((sum, { box }) => sum + centsOfPoint(box?.paid_amount), 0)
  const sales = rows.reduce((sum, { box }) => sum + (box?.paid ?? 0), 0)
  const howMany = (wanted) => rows.filter(wanted).length
  const endsAs = (end) => (closing) => (closing.result ?? closing.state) === end
  const isRight = ({ closings }) => closings.length > 0 && closings.every(endsAs('agreed'))
  const isWrong = ({ closings }) => closings.some(endsAs('differs'))
  const isOpen = (row) => row.state !== 'quiet' && !isRight(row) && !isWrong(row)
  const wrong = howMany(isWrong)
  return html`<section class="numbers closing-numbers" aria-label=${t('closings.sums')}>
    ${tile(t('closings.sold'), moneyOfCents(sold), count('overview.paidOrders', sales), 'lead')}
    ${tile(t('closings.agreed'), number(howMany(isRight)), t('closings.agreedHint'))}
    ${tile(t('closings.differs'), number(wrong), t('closings.differsHint'), wrong > 0 ? 'bad' : '')}
    ${tile(t('closings.open'), number(howMany(isOpen)), t('closings.openHint'))}
  </section>`
}

/** The day of the address, or this one. */
function dayAsked({ day }) {
  return midnight(day) ? day : dayOf()
}

function dayPicker(app, day) {
  const change = ({ target }) =>
    app.setQuery({ day: target.value === dayOf() ? undefined : target.value })
  return html`<form class="filters" @submit=${(event) => event.preventDefault()}>
    <label class="field">
      <span class="label">${t('closings.day')}</span>
      <input type="date" name="day" .value=${day} max=${dayOf()} @change=${change} />
    </label>
  </form>`
}
