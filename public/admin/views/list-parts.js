import { t } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'

/** A part that shows what an earlier question was answered, until the next answer is there. */
export function waitingPart(app, content, extra = '') {
  return html`<div
    class="${extra} ${app.isWaiting ? 'waiting' : ''}"
    aria-busy=${app.isWaiting ? 'true' : nothing}
  >
    ${content}
  </div>`
}

/** Told under a list that may go on. */
export function newest(list, shownAtMost, key = 'list.newest') {
  return list.length < shownAtMost
    ? null
    : html`<p class="soft small center">${t(key, { count: shownAtMost })}</p>`
}

export function button({ text, onclick, extra = '', disabled = false }) {
  return html`<button type="button" class="button ${extra}" ?disabled=${disabled} @click=${onclick}>
    ${text}
  </button>`
}

/** A button of what changes flows or reads a source: there for those who may. */
export const runButton = (app, props) => (app.may('run_flows') ? button(props) : null)

export const smallRunButton = (app, props) => (app.may('run_flows') ? smallButton(props) : null)

export const smallButton = (props) => button({ ...props, extra: `small ${props.extra ?? ''}` })

export function panel(title, content, { hint = null, extra = '' } = {}) {
  return html`<section class="panel ${extra}" aria-label=${title}>
    <div class="panel-head">
      <h2>${title}</h2>
      ${hint === null ? null : html`<p class="soft small">${hint}</p>`}
    </div>
    ${content}
  </section>`
}
