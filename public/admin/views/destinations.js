import { name, relative } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { badge, empty, pageOfRows, table } from '../../shared/parts.js'
import { reasonText } from '../reason.js'
import { askStop, destinationsOf, queueNumber, stopNote, stopOfAll, stopsOf } from '../sending.js'
import { ratePanel } from './destination-rate.js'
import { flowHref, nextTry, owedBadges, tryButton } from './flow-parts.js'
import { smallRunButton } from './list-parts.js'

/** Destinations by name, whatever flows send to them, and all about one. */
export function createDestinations(app) {
  let shown
  return {
    title: () => app.query.name ?? t('nav.destinations'),
    async load(signal) {
      const { name: wanted } = app.query
      if (wanted === undefined) return
      shown = await app.api
        .get(`/destinations/${encodeURIComponent(wanted)}`, {}, signal)
        .catch(unlessUnknown)
    },
    body() {
      if (!app.flows) return app.placeholder()
      const all = destinationsOf(app.flows)
      const wanted = app.query.name
      if (wanted === undefined) return list(app, all)
      const one = all.find((row) => row.name === wanted)
      const back = html`<p><a href=${app.link('destinations')}>← ${t('destinations.all')}</a></p>`
      return html`${back} ${one ? destinationPage(app, one, shown?.name === wanted ? shown : undefined) : empty(t('destinations.unknown'))}`
    },
  }
}

function unlessUnknown(error) {
  if (error.status !== 404) throw error
  return undefined
}

/** The address of all about one destination. */
export const destinationHref = (app, destination) => app.link('destinations', { name: destination })

function list(app, all) {
  if (all.length === 0) return empty(t('destinations.none'))
  const stops = stopsOf(app.flows)
  const { rows, links } = pageOfRows(app.query, all, (to) =>
    app.link('destinations', { ...app.query, ...to }),
  )
  return html`${stops.map((stop) => stopNote(app, stop))}
  ${table({
    label: t('nav.destinations'),
    columns: [
      {
        id: 'destination',
        title: t('item.destination'),
        cell: (row) =>
          html`<a class="row-link strong" href=${destinationHref(app, row.name)}>${name(row.name)}</a>
            <span class="soft small">${count('stop.used', row.targets.length)}</span>`,
      },
      { id: 'state', title: t('destinations.state'), cell: ({ targets }) => stateBadges(targets) },
      {
        id: 'queue',
        title: t('destinations.queue'),
        numeric: true,
        cell: ({ targets }) => queueNumber(targets),
      },
      {
        id: 'failed',
        title: t('stats.failed'),
        numeric: true,
        cell: ({ targets }) =>
          targets.reduce((sum, { destination }) => sum + destination.failed, 0),
      },
      { id: 'do', title: t('flow.do'), cell: (row) => stopButton(app, row) },
    ],
    rows,
    keyOf: (row) => row.name,
  })}
  ${links}`
}

/** Each state of sending once; what flows is said only where nothing is in the way of anything. */
function stateBadges(targets) {
  const states = new Set(targets.map(({ destination }) => destination.sending.state))
  states.delete('flowing')
  return states.size === 0
    ? badge('good', t('destinations.flowing'))
    : html`<span class="badges">${[...states].map((state) => badge('warn', t(`sending.${state}`)))}</span>`
}

function stopButton(app, { name: destination, targets }) {
  if (stopOfAll(targets)) return null
  return smallRunButton(app, {
    text: t('stop.this'),
    onclick: () => askStop(app, { flow: null, destination }),
  })
}

function destinationPage(app, row, report) {
  const flows = row.targets.map(({ flow, destination }) => ({
    ...flow,
    destinations: [destination],
  }))
  const { rows, links } = pageOfRows(
    app.query,
    row.targets,
    (to) => app.link('destinations', { ...app.query, ...to }),
    { onPhone: 6 },
  )
  return html`<div class="stack">
    ${stopsOf(flows).map((stop) => stopNote(app, stop))}
    <div class="buttons">${stopButton(app, row)}</div>
    ${report ? ratePanel(report.flows) : app.placeholder()}
    ${table({
      label: t('nav.flows'),
      columns: [
        {
          id: 'flow',
          title: t('flow.one'),
          cell: ({ flow }) =>
            html`<a class="row-link strong" href=${flowHref(app, flow)}>${name(flow.name)}</a>`,
        },
        {
          id: 'state',
          title: t('destinations.state'),
          cell: ({ flow, destination }) => inTheWay(app, flow, destination),
        },
        {
          id: 'owed',
          title: t('flow.owed'),
          cell: ({ flow, destination }) =>
            html`<span class="badges">${owedBadges(app, flow, destination)}</span>`,
        },
        {
          id: 'oldest',
          title: t('target.oldest'),
          cell: ({ destination }) =>
            destination.oldest_waiting_at ? relative(destination.oldest_waiting_at) : '—',
        },
        {
          id: 'do',
          title: t('flow.do'),
          cell: ({ flow, destination }) =>
            destination.sending.stop
              ? null
              : smallRunButton(app, {
                  text: t('stop.this'),
                  onclick: () => askStop(app, { flow: flow.name, destination: row.name }),
                }),
        },
      ],
      rows,
      keyOf: ({ flow }) => flow.name,
    })}
    ${links}
  </div>`
}

function inTheWay(app, flow, destination) {
  const { state, cause, why } = destination.sending
  if (state === 'flowing') return badge('good', t('destinations.flowing'))
  return html`${badge('warn', t(`sending.${state}`))} ${nextTry(destination.sending)}
  <p class="small soft clip">${name(reasonText(why, cause))}</p>
  ${state === 'stopped' ? null : tryButton(app, flow, destination)}`
}
