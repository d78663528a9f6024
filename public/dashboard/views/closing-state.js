import { word } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { badge } from '../../shared/parts.js'

const tones = {
  agreed: 'good',
  differs: 'bad',
  unverified: 'warn',
  checking: 'info',
  open: 'info',
  uncounted: 'warn',
}

/** How far a box is with its day: the state of its closing, or that there is none. */
export function closingBadge(state) {
  return badge(tones[state] ?? 'quiet', word('closing', state))
}

/** The state of a closing; of a signed one also what was signed. */
export function closingBadges({ state, result }) {
  return html`${closingBadge(state)} ${result ? closingBadge(result) : null}`
}
