import { h } from '../../shared/dom.js'
import { code, name, relative } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { field } from '../../shared/parts.js'
import { money } from '../amounts.js'

const shownAtMost = 60
/** As many are seen at a glance; more need a way to find one. */
const glance = 12
/** What needs somebody stands first. */
const urgency = { bad: 0, warn: 1, info: 2, good: 3, quiet: 4 }

/**
 * A light for every box: whether charging works there, told by its newest order of the last day, and what it sold today.
 * `finder` holds what somebody typed to find a box.
 */
export function boxLights(app, { boxes }, finder) {
  if (boxes.length === 0) return null
  const wanted = finder.text.trim().toLowerCase()
  const found = boxes
    .filter(({ caja_id: id, name: own }) => `${id} ${own}`.toLowerCase().includes(wanted))
    .map((box) => ({ box, state: stateOf(box) }))
    .sort((a, b) => urgency[a.state.tone] - urgency[b.state.tone])
  const rest = found.length - shownAtMost
  return h(
    'section',
    { key: 'boxes', class: 'panel' },
    h(
      'div',
      { class: 'panel-head' },
      h('h2', null, t('overview.boxes')),
      boxes.length > glance && finderField(app, finder),
    ),
    found.length === 0
      ? h('p', { class: 'soft' }, t('overview.noBox'))
      : h(
          'ul',
          { class: 'lights' },
          found
            .slice(0, shownAtMost)
            .map(({ box, state }) =>
              h('li', { key: `${box.client} ${box.caja_id}` }, light(app, box, state)),
            ),
        ),
    rest > 0 && h('p', { class: 'soft' }, t('overview.moreBoxes', { count: rest })),
  )
}

function finderField(app, finder) {
  return field(
    t('overview.findBox'),
    h('input', {
      type: 'search',
      name: 'box',
      maxlength: 64,
      autocomplete: 'off',
      value: finder.text,
      oninput: (event) => {
        finder.text = event.target.value
        app.redraw()
      },
    }),
  )
}

function light(app, box, { tone, text }) {
  const filter = { caja_id: box.caja_id, client: app.isAdmin ? box.client : undefined }
  return h(
    'a',
    { class: `light ${tone}`, href: app.link('orders', undefined, filter) },
    h(
      'span',
      { class: 'light-name' },
      name(box.name, { class: 'clip strong' }),
      !box.name.includes(box.caja_id) && [' ', code(box.caja_id)],
    ),
    h(
      'span',
      { class: 'small state' },
      text,
      box.last_order_at && [' · ', relative(box.last_order_at)],
    ),
    h('span', { class: 'small' }, soldToday(box)),
    app.isAdmin && app.client === undefined && name(box.client, { class: 'clip small soft' }),
  )
}

/** What a box sold since midnight. */
export function soldToday({ paid, paid_amount: amount }) {
  return paid === 0
    ? t('box.soldNothing')
    : [t('box.sold', { amount: money(amount) }), ' · ', count('overview.paidOrders', paid)]
}

/**
 * How a box fares, as `{ tone, text }`. A declined card is the customer's trouble and not the box's: the box works.
 */
export function stateOf({ open, last_status: status, last_status_detail: detail }) {
  if (status === null && open === 0) return { tone: 'quiet', text: word('light', 'idle') }
  if (status === 'action_required') return { tone: 'warn', text: word('light', 'look') }
  if (open > 0) return { tone: 'info', text: word('light', 'busy') }
  if (status === 'failed' && detail === 'not_created') {
    return { tone: 'bad', text: word('light', 'unsent') }
  }
  if (status === 'expired') return { tone: 'warn', text: word('light', 'expired') }
  return { tone: 'good', text: word('light', 'works') }
}
