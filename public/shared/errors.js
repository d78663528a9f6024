import { h } from './dom.js'
import { t, word } from './i18n.js'

/** What went wrong in one sentence of the reader's language; by code, else as the service says it. */
export function errorSentence(error) {
  if (error.code === undefined) return t('error.page')
  const known = word('error', error.code)
  return known === error.code ? error.message : known
}

/** Everything a person needs about a failure: what, which field, what it means for the money, what to quote. */
export function errorLines(error) {
  return [
    h('p', { class: 'strong' }, errorSentence(error)),
    error.details?.length > 0 &&
      h(
        'ul',
        null,
        error.details.map(({ path, message }) =>
          h('li', null, h('bdi', null, `${path}: ${message}`)),
        ),
      ),
    error.outcome === 'unknown' && h('p', null, t('error.outcomeUnknown')),
    error.requestId &&
      h('p', { class: 'soft small' }, t('error.requestId'), ' ', h('code', null, error.requestId)),
  ]
}

/** Refusals that asking again does not change: what the address asks for is not there, or not allowed. */
const isFinal = ({ status }) => [400, 403, 404, 422].includes(status)

/** What stands above a view that could not be read; `start` is the address of the same view without what was refused. */
export function problemBox(problem, start) {
  return h(
    'div',
    { key: 'problem', class: 'note warn', role: 'alert' },
    isFinal(problem)
      ? [errorLines(problem), start && h('p', null, h('a', { href: start }, t('problem.start')))]
      : h('p', null, t('problem', { what: errorSentence(problem) })),
  )
}

/** A box with a failure; `retry` adds a button. */
export function errorBox(error, retry) {
  return h(
    'div',
    { class: 'note bad', role: 'alert' },
    errorLines(error),
    retry && h('button', { type: 'button', class: 'button', onclick: retry }, t('retry')),
  )
}
