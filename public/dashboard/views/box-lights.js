import { code, name, number, relative, relativeText } from '../../shared/format.js'
import { count, language, t, word } from '../../shared/i18n.js'
import { guard, html, nothing, repeat } from '../../shared/lit.js'
import { empty } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { boxHref } from '../box-link.js'
import { finder as finderFields } from './finder.js'

/** As many are seen at a glance, what needs somebody first; more stand behind a press, and need a way to find one. */
export const glance = 12
/** So many more rows are drawn from frame to frame: a thousand at once would hold up whoever scrolls already. */
const rowsOfFrame = 100
/** What needs somebody stands first. */
const urgency = { bad: 0, warn: 1, info: 2, good: 3, quiet: 4 }

/**
 * A row for every box: whether charging works there, and what it sold today. `finder` keeps what somebody asked for:
 * `{text, onlyProblems, isWhole}`, and `drawn`, how many rows of it are there by now.
 */
export function boxLights(app, { boxes, box_counts: { total } }, finder) {
  if (total === 0) return nothing
  const wanted = finder.text.trim().toLowerCase()
  const found = boxes
    .filter((box) => wanted === '' || wordsOf(box).includes(wanted))
    .map((box) => ({ box, state: stateOf(box) }))
    .filter(({ state }) => !finder.onlyProblems || urgency[state.tone] <= urgency.warn)
    .sort((a, b) => rankOf(a) - rankOf(b))
  const isList = finder.isWhole || wanted !== ''
  const shown = found.slice(0, isList ? drawnOf(app, finder, found.length) : glance)
  // Of all boxes only the first are known, until somebody asks for more.
  const all = wantsAll(finder) ? found.length : total
  const set = (changes) => () => {
    const hadAll = wantsAll(finder)
    Object.assign(finder, changes, { drawn: rowsOfFrame })
    if (wantsAll(finder) && !hadAll) app.reload()
    app.redraw()
  }
  return html`<section class="panel ${total > glance ? 'of-chain' : ''}" aria-labelledby="boxes">
    <div class="panel-head">
      <h2 id="boxes">${t('overview.boxes')} <span class="soft small">${count('boxes.count', all)}</span></h2>
      ${total > glance ? finderFields(finder, set, { field: 'box', label: t('boxes.find'), placeholder: t('boxes.findBy') }) : nothing}
    </div>
    ${
      found.length === 0
        ? empty(t(finder.onlyProblems && wanted === '' ? 'boxes.noProblem' : 'overview.noBox'))
        : html`<ul class="lights ${shown.length > glance ? 'many' : ''}">${repeat(shown, keyOf, (one) => steadyLight(app, one))}</ul>`
    }
    ${
      !isList && all > shown.length
        ? html`<button type="button" class="button" @click=${set({ isWhole: true })}>
            ${t('boxes.showAll', { count: number(all) })}</button>`
        : finder.isWhole && all > glance && wanted === ''
          ? html`<button type="button" class="button" @click=${set({ isWhole: false })}>${t('boxes.showFew')}</button>`
          : nothing
    }
  </section>`
}

/** How many rows of a long list are drawn by now; the rest follows with the next frames. */
function drawnOf(app, finder, length) {
  if (finder.drawn < length) {
    requestAnimationFrame(() => {
      finder.drawn += rowsOfFrame
      app.redraw()
    })
  }
  return finder.drawn
}

/** Whether more is asked for than the boxes that are shown at a glance. */
export function wantsAll({ text, onlyProblems, isWhole }) {
  return isWhole || onlyProblems || text.trim() !== ''
}

/** A trouble that lasts stands before an end that may have been one customer's. */
const rankOf = ({ box: { health }, state: { tone } }) =>
  urgency[tone] + (health?.state === 'down' || health?.state === 'attention' ? 0 : 0.5)

const keyOf = ({ box }) => JSON.stringify([box.client, box.caja_id])

const wordsOf = (box) =>
  `${box.caja_id} ${box.name} ${box.sucursal_id} ${box.store_name} ${box.client}`.toLowerCase()

/** Drawn again when something in it is new: all are looked at every few seconds, also while somebody scrolls through them. */
function steadyLight(app, one) {
  const last = one.box.last_order_at
  const causes = [
    JSON.stringify(one),
    last && relativeText(last),
    language(),
    app.client,
    app.scope,
  ]
  return guard(causes, () => light(app, one))
}

function light(app, { box, state: { tone, text, short = text } }) {
  const isAlone = !app.isAdmin || app.client !== undefined
  return html`<li class="light ${tone}">
    <a href=${boxHref(app, box)}>
      <span class="light-name">${name(box.name, { class: 'strong' })}${
        box.name.includes(box.caja_id) ? nothing : html` ${code(box.caja_id)}`
      } <span class="soft small">${isAlone ? nothing : html`${name(box.client)} · `}${name(box.store_name)}</span></span>
      <span class="state">${short}${box.last_order_at ? html` · ${relative(box.last_order_at)}` : nothing}</span>
      <span class="sold small">${soldToday(box)}</span>
    </a>
  </li>`
}

/** What a box sold since midnight. */
export function soldToday({ paid, paid_amount: amount }) {
  return paid === 0
    ? t('box.soldNothing')
    : [t('box.sold', { amount: money(amount) }), ' · ', count('overview.paidOrders', paid)]
}

const tones = { down: 'bad', attention: 'warn', unknown: 'quiet' }

/**
 * How a box fares, as `{ tone, text, short }`: as the service derives it, `short` in a few words where `text` is a sentence, and while that is well what its newest order does. A
 * declined card is the customer's trouble and not the box's: the box works.
 */
export function stateOf({ open, last_status: status, last_status_detail: detail, health }) {
  const isNew = health?.cause === 'never_charged'
  if (health?.message && !isNew) {
    return { tone: tones[health.state], text: health.message, short: word('cause', health.cause) }
  }
  if (status === null && open === 0) return { tone: 'quiet', text: word('light', 'idle') }
  if (status === 'action_required') return { tone: 'warn', text: word('light', 'look') }
  if (open > 0) return { tone: 'info', text: word('light', 'busy') }
  if (status === 'failed' && detail === 'not_created') {
    return { tone: 'bad', text: word('light', 'unsent') }
  }
  if (status === 'expired') return { tone: 'warn', text: word('light', 'expired') }
  return { tone: 'good', text: word('light', 'works') }
}
