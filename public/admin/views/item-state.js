import { code, name, number, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { badge, empty, facts, table } from '../../shared/parts.js'
import { reasonText } from '../reason.js'
import { errorTable } from './error-table.js'
import { whenNext } from './flow-parts.js'
import { panel } from './list-parts.js'

export const stateTones = {
  waiting: 'info',
  delayed: 'warn',
  failed: 'bad',
  delivered: 'good',
  unknown: 'quiet',
  skipped: 'quiet',
}

/** What the source showed last of an item, and what each destination got of it. */
export function whereItIs({ seen, destinations }) {
  const known = facts([
    [t('item.seen'), seen ? time(seen.changed_at) : t('item.notSeen')],
    [t('item.hash'), seen && code(seen.hash)],
  ])
  const list = table({
    label: t('item.where'),
    columns: columns(),
    rows: destinations,
    keyOf: ({ name: target }) => target,
  })
  const hint = destinations.some(({ state }) => state === 'unknown')
    ? html`<p class="soft small">${t('item.unknownHint')}</p>`
    : null
  return panel(t('item.where'), [known, list, hint])
}

const columns = () => [
  {
    id: 'destination',
    title: t('item.destination'),
    cell: ({ name: target, type }) =>
      html`${name(target, { class: 'strong' })} <span class="soft small">${type}</span>`,
  },
  {
    id: 'state',
    title: t('item.state'),
    cell: ({
      state,
      still_there: isThere,
      same_identity: same,
      last_error: error,
      why,
      next_attempt_at: next,
      remembered,
    }) =>
      html`${badge(isThere ? 'warn' : stateTones[state], isThere ? t('state.stillThere') : word('state', state))}
      ${next ? html`<p class="soft small">${t('item.nextAttempt')}: ${whenNext(next)}</p>` : null}
      ${error ? html`<p class="small clip">${name(reasonText(why, error))}</p>` : null}
      ${same.length > 0 ? html`<p class="small">${t('item.sameIdentity')}: ${same.map(keyPart)}</p>` : null}
      ${remembered ? html`<p class="small soft">${t('item.remembered')}: ${listed(remembered)}</p>` : null}`,
  },
  {
    id: 'sync',
    title: t('item.inSync'),
    cell: ({ in_sync: inSync }) =>
      badge(inSync === null ? 'quiet' : inSync ? 'good' : 'warn', word('inSync', String(inSync))),
  },
  {
    id: 'attempts',
    title: t('item.attempts'),
    numeric: true,
    cell: ({ attempts }) => number(attempts),
  },
  { id: 'time', title: t('item.delivered'), cell: ({ delivered_at: at }) => time(at) },
]

const keyPart = (key, index) => html`${index > 0 ? ', ' : null}${code(key)}`

/** Values by their names. */
function listed(values) {
  return Object.entries(values).map(
    ([key, value], index) => html`${index > 0 ? ', ' : null}${key} ${code(String(value))}`,
  )
}

/** What went wrong with an item, newest first. */
export function errorsOf(app, errors) {
  return html`<section class="panel">
    <h2>${t('item.errors')}</h2>
    ${errors.length === 0 ? empty(t('item.noErrors')) : errorTable(app, t('item.errors'), errors)}
  </section>`
}
