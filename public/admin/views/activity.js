import { name, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { createFreshness, empty, pageOfRows, table } from '../../shared/parts.js'
import { flowFilter } from './flow-filter.js'
import { newest, waitingPart } from './list-parts.js'

const shownAtMost = 200

/** Who did what to which flow, and why. */
export function createActivity(app) {
  const fresh = createFreshness()
  let shown

  return {
    title: () => t('nav.activity'),
    async load(signal) {
      const { flow } = app.query
      const { activity } = await app.api.get(
        '/flows/activity',
        { flow, limit: shownAtMost },
        signal,
      )
      shown = { question: flow ?? '', activity }
    },
    body: () => html`${flowFilter(app)} ${shown ? list(app, shown, fresh) : app.placeholder()}`,
  }
}

function list(app, { question, activity }, fresh) {
  if (activity.length === 0) return empty(t('activity.none'), t('activity.noneHint'))
  const { rows, links } = pageOfRows(app.query, activity, (to) =>
    app.link('activity', { ...app.query, ...to }),
  )
  const shown = table({
    label: t('nav.activity'),
    columns: columns(app),
    rows,
    keyOf: ({ id }) => id,
    freshKeys: fresh(
      question,
      activity.map(({ id }) => id),
    ),
  })
  return waitingPart(app, html`${shown} ${links} ${newest(activity, shownAtMost)}`)
}

const nothingSaid = (text = '—') => html`<span class="soft">${text}</span>`

function columns(app) {
  return [
    { id: 'time', title: t('activity.time'), cell: ({ at }) => time(at) },
    {
      id: 'action',
      title: t('activity.action'),
      cell: ({ action }) => html`<span class="strong">${name(word('action', action))}</span>`,
    },
    {
      id: 'flow',
      title: t('flow.one'),
      cell: ({ flow }) =>
        flow === null
          ? nothingSaid(t('filter.all'))
          : html`<a href=${app.link('activity', { flow })}>${name(flow, { class: 'clip' })}</a>`,
    },
    {
      id: 'actor',
      title: t('activity.actor'),
      cell: ({ actor }) => name(word('actor', actor), { class: 'clip' }),
    },
    {
      id: 'detail',
      title: t('activity.detail'),
      cell: ({ action, detail, why }) =>
        detail === null
          ? nothingSaid()
          : name(why?.message ?? detailText(action, detail), { class: 'clip' }),
    },
  ]
}

/** What the service writes down in English beside an action, such as `5 changes`. */
const told = {
  synced: [/^(\d+) changes$/, 'activity.changes'],
  limited: [/^(\d+) runs$/, 'activity.runs'],
  retried: [/^(\d+) deliveries(.*)$/, 'activity.deliveries'],
}

function detailText(action, detail) {
  const [shape, key] = told[action] ?? []
  const [, many, rest = ''] = shape?.exec(detail) ?? []
  if (many !== undefined) return `${count(key, Number(many))}${rest}`
  const [, flows, problems] = /^(\d+) flows, (\d+) problems$/.exec(detail) ?? []
  if (action === 'reloaded' && problems !== undefined) {
    return `${count('reload.flows', Number(flows))}, ${count('activity.problems', Number(problems))}`
  }
  const [, arrived, all] = /^(\d+) of (\d+) arrived$/.exec(detail) ?? []
  return action === 'alerts tested' && all !== undefined
    ? t('activity.arrived', { arrived, all })
    : detail
}
