import { h } from '../../shared/dom.js'
import { name, relative } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'

const shownAtMost = 60

/** A light for every box: whether charging works there, told by its newest order of the last day. */
export function boxLights(app, { boxes }) {
  if (boxes.length === 0) return null
  const rest = boxes.length - shownAtMost
  return h(
    'section',
    { key: 'boxes', class: 'panel' },
    h('h2', null, t('overview.boxes')),
    h(
      'ul',
      { class: 'lights' },
      boxes
        .slice(0, shownAtMost)
        .map((box) => h('li', { key: `${box.client} ${box.caja_id}` }, light(app, box))),
    ),
    rest > 0 && h('p', { class: 'soft' }, t('overview.moreBoxes', { count: rest })),
  )
}

function light(app, box) {
  const { tone, text } = stateOf(box)
  const filter = { caja_id: box.caja_id, client: app.isAdmin ? box.client : undefined }
  return h(
    'a',
    { class: `light ${tone}`, href: app.link('orders', undefined, filter) },
    name(box.name, { class: 'clip strong' }),
    h(
      'span',
      { class: 'small' },
      t(`light.${text}`),
      box.last_order_at && [' · ', relative(box.last_order_at)],
    ),
    app.isAdmin && app.client === undefined && name(box.client, { class: 'clip small soft' }),
  )
}

/** A declined card is the customer's trouble and not the box's: the box works. */
function stateOf({ open, last_status: status, last_status_detail: detail }) {
  if (status === null) return { tone: 'quiet', text: 'idle' }
  if (status === 'action_required') return { tone: 'warn', text: 'look' }
  if (open > 0) return { tone: 'info', text: 'busy' }
  if (status === 'failed' && detail === 'not_created') return { tone: 'bad', text: 'unsent' }
  if (status === 'expired') return { tone: 'warn', text: 'expired' }
  return { tone: 'good', text: 'works' }
}
