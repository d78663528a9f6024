import { t, word } from './i18n.js'
import { html, nothing } from './lit.js'

/** What went wrong in one sentence of the reader's language; by its reason or code, else as the service says it. */
export function errorSentence(error) {
  if (error.code === undefined) return t('error.page')
  const why = error.body?.why?.message
  if (why) return why
  const known = word('error', error.code)
  return known === error.code ? error.message : known
}

/** Everything a person needs about a failure: what, what to do, which field, what it means for the money, what to quote. */
export function errorLines(error) {
  const { details = [], help, outcome, requestId } = error
  const line = ({ path, message, why }) =>
    html`<li><bdi>${path}: ${why?.message ?? message}</bdi></li>`
  return html`<p class="strong">${errorSentence(error)}</p>
    ${help ? html`<p>${help}</p>` : nothing}
    ${details.length > 0 ? html`<ul>${details.map(line)}</ul>` : nothing}
    ${outcome === 'unknown' ? html`<p>${t('error.outcomeUnknown')}</p>` : nothing}
    ${requestId ? html`<p class="soft small">${t('error.requestId')} <code>${requestId}</code></p>` : nothing}`
}

/** Refusals that asking again does not change: what the address asks for is not there, or not allowed. */
const isFinal = ({ status }) => [400, 403, 404, 422].includes(status)

/** What stands above a view that could not be read; `start` is the address of the same view without what was refused. */
export function problemBox(problem, start) {
  return html`<div class="note warn" role="alert"><div>
    ${
      isFinal(problem)
        ? html`${errorLines(problem)}${start ? html`<p><a href=${start}>${t('problem.start')}</a></p>` : nothing}`
        : html`<p>${t('problem', { what: errorSentence(problem) })}</p>`
    }
  </div></div>`
}

/** A box with a failure; `retry` adds a button. */
export function errorBox(error, retry) {
  return html`<div class="note bad" role="alert"><div>
    ${errorLines(error)}
    ${retry ? html`<button type="button" class="button" @click=${retry}>${t('retry')}</button>` : nothing}
  </div></div>`
}

/** A stored `CODE: English sentence` in the reader's language. */
export function failureText(message) {
  const [code] = message.split(':')
  const known = word('error', code)
  return known === code ? message : known
}
