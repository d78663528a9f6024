import { name, relative } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { note } from '../../shared/parts.js'
import { reasonText } from '../reason.js'

/** The answer to "did it arrive?", before all figures. */
export function verdictOf({ seen, destinations }) {
  const inState = (...states) => destinations.filter(({ state }) => states.includes(state))
  const said = (tone, key, of = []) => note(tone, html`<p>${t(key)} ${listed(of)}</p>`)
  const failed = inState('failed')
  if (failed.length > 0) return note('bad', failed.map(failure))
  const waiting = inState('waiting', 'delayed')
  if (waiting.length > 0) return said('info', 'verdict.waiting', waiting)
  const shared = destinations.filter(({ same_identity: same }) => same.length > 0)
  if (shared.length > 0) return said('warn', 'verdict.sameIdentity', shared)
  if (destinations.length > 0 && destinations.every(({ in_sync: inSync }) => inSync === true)) {
    return said('good', seen ? 'verdict.inSync' : 'verdict.deleted')
  }
  const outdated = destinations.filter(({ in_sync: inSync }) => inSync === false)
  if (outdated.length > 0) return said('warn', 'verdict.outdated', outdated)
  const there = destinations.filter(({ still_there: isThere }) => isThere)
  if (there.length > 0) return said('warn', 'verdict.stillThere', there)
  const skipped = inState('skipped')
  if (skipped.length > 0) return said('quiet', 'verdict.skipped', skipped)
  return said('quiet', seen ? 'verdict.partly' : 'verdict.unknown')
}

function failure({ name: target, last_error: error, why, delivered_at: deliveredAt }) {
  return html`<p>
    ${name(target, { class: 'strong' })} ${t(deliveredAt ? 'verdict.stale' : 'verdict.never')}
    ${deliveredAt ? relative(deliveredAt) : null}
    ${error ? html`<br />${name(reasonText(why, error), { class: 'clip' })}` : null}
  </p>`
}

function listed(destinations) {
  return destinations.map(
    ({ name: target }, index) => html`${index > 0 ? ', ' : null}${name(target)}`,
  )
}
