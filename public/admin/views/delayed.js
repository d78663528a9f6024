import { code, name, number } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { table } from '../../shared/parts.js'
import { reasonText } from '../reason.js'
import { whenNext } from './flow-parts.js'
import { newest, panel } from './list-parts.js'

const shownAtMost = 50

/** What destinations did not take yet, of this flow or of all: the oldest. */
export async function readDelayed(app, flow, signal) {
  return (await app.api.get('/flows/delayed', { flow, limit: shownAtMost }, signal)).delayed
}

/** What waits for another attempt, and why; nothing when nothing does. `rows` are those of the page, with `links` to the others. */
export function delayedPanel(app, all, { rows, links }) {
  if (all.length === 0) return null
  const list = table({
    label: t('delayed.title'),
    columns: columns(app),
    rows,
    keyOf: ({ flow, destination, pk }) => JSON.stringify([flow, destination, pk]),
  })
  return panel(t('delayed.title'), [list, links, newest(all, shownAtMost, 'delayed.oldest')], {
    hint: t('stats.delayedHint'),
  })
}

function columns(app) {
  return [
    {
      id: 'flow',
      title: t('flow.one'),
      cell: ({ flow, destination }) =>
        html`${name(flow, { class: 'strong' })}<br />${name(destination, { class: 'soft small' })}`,
    },
    {
      id: 'pk',
      title: t('item.pk'),
      cell: ({ flow, pk }) =>
        html`<a class="clip" href=${app.link('item', { flow, pk })}>${code(pk)}</a>`,
    },
    {
      id: 'error',
      title: t('errors.error'),
      cell: ({ last_error: error, why }) =>
        error === null
          ? html`<span class="soft">${t('delayed.noError')}</span>`
          : name(reasonText(why, error), { class: 'clip' }),
    },
    {
      id: 'attempts',
      title: t('item.attempts'),
      numeric: true,
      cell: ({ attempts }) => number(attempts),
    },
    {
      id: 'next',
      title: t('item.nextAttempt'),
      cell: ({ next_attempt_at: next }) => (next === null ? t('flow.now') : whenNext(next)),
    },
  ]
}
