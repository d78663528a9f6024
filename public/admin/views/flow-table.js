import { name, number } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { table } from '../../shared/parts.js'
import {
  flowHref,
  healthBadge,
  mainDeeds,
  owedBadges,
  resultOf,
  switchBadges,
  totalOwed,
  troubleOf,
  when,
} from './flow-parts.js'

/** Many flows in lines. `rows` are `{ flow, health }`. */
export function flowTable(app, rows) {
  return table({
    label: t('nav.flows'),
    columns: columns(app),
    rows,
    keyOf: ({ flow }) => flow.name,
    extra: ({ flow }) => resultOf(app, flow),
  })
}

function columns(app) {
  return [
    {
      id: 'flow',
      title: t('flow.one'),
      cell: ({ flow }) =>
        html`<a class="row-link strong" href=${flowHref(app, flow)}>${name(flow.name)}</a>
          ${flow.description ? html`<p class="soft small clip one-line">${name(flow.description)}</p>` : null}`,
    },
    {
      id: 'switch',
      title: t('flow.switch'),
      cell: ({ flow }) =>
        html`<span class="badges">${switchBadges(flow.status, flow.waiting_for !== null)}</span>`,
    },
    {
      id: 'health',
      title: t('flow.health'),
      cell: ({ flow, health }) => html`${healthBadge(health)} ${troubleOf(app, flow, health)}`,
    },
    {
      id: 'owed',
      title: t('flow.owed'),
      cell: ({ flow }) => {
        const owed = totalOwed(flow)
        return owed.waiting + owed.delayed + owed.failed === 0
          ? html`<span class="soft none">—</span>`
          : html`<span class="badges">${owedBadges(app, flow, owed)}</span>`
      },
    },
    { id: 'run', title: t('flow.lastRun'), cell: ({ flow }) => when(flow.last_poll_at) },
    {
      id: 'today',
      title: t('flow.changesToday'),
      numeric: true,
      cell: ({ flow }) => number(flow.changes_today),
    },
    {
      id: 'do',
      title: t('flow.do'),
      cell: ({ flow }) => mainDeeds(app, flow, { isShort: true }),
    },
  ]
}
