import { h } from '../../shared/dom.js'
import { name, relative } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { note } from '../../shared/parts.js'

/** The answer to "did it arrive?", before all figures. */
export function verdictOf({ seen, destinations }) {
  const inState = (...states) => destinations.filter(({ state }) => states.includes(state))
  const failed = inState('failed')
  const waiting = inState('waiting', 'delayed')
  if (failed.length > 0) return note('bad', failed.map(failure))
  if (waiting.length > 0) {
    return note('info', h('p', null, t('verdict.waiting'), ' ', listed(waiting)))
  }
  if (destinations.length > 0 && destinations.every(({ in_sync: inSync }) => inSync === true)) {
    return note('good', h('p', null, t(seen ? 'verdict.inSync' : 'verdict.deleted')))
  }
  const outdated = destinations.filter(({ in_sync: inSync }) => inSync === false)
  if (outdated.length > 0) {
    return note('warn', h('p', null, t('verdict.outdated'), ' ', listed(outdated)))
  }
  return note('quiet', h('p', null, t(seen ? 'verdict.partly' : 'verdict.unknown')))
}

function failure({ name: target, last_error: error, delivered_at: deliveredAt }) {
  return h(
    'p',
    { key: target },
    name(target, { class: 'strong' }),
    ' ',
    t(deliveredAt ? 'verdict.stale' : 'verdict.never'),
    deliveredAt && [' ', relative(deliveredAt)],
    error && [h('br'), name(error, { class: 'clip' })],
  )
}

function listed(destinations) {
  return destinations.map(({ name: target }, index) => [index > 0 && ', ', name(target)])
}
