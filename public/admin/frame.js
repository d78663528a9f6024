import { number } from '../shared/format.js'
import { frame } from '../shared/frame.js'
import { count, t } from '../shared/i18n.js'
import { html, nothing } from '../shared/lit.js'

/** The frame of the flows' page. */
export function flowsFrame(app, { views, view, problem, place, onLanguage }) {
  return frame(app, {
    home: app.link('flows'),
    beside: html`<span class="soft">${t('brand.flows')}</span>`,
    lamp: { state: app.isLost ? 'lost' : '', text: t(lampText(app)) },
    ways: views.map((name) => ({
      href: app.link(name),
      name,
      isCurrent: name === app.name,
      extra: name === 'errors' ? failedCount(app) : nothing,
    })),
    other: app.dashboardPage && { href: app.dashboardPage, text: t('page.dashboard') },
    signOut: app.hasToken ? () => app.signOut() : undefined,
    onLanguage,
    view,
    problem,
    start: app.link(app.name),
    place,
  })
}

function lampText({ isLost, flows }) {
  if (isLost) return 'lamp.lost'
  return flows === undefined ? 'lamp.connecting' : 'lamp.live'
}

function failedCount({ flows = [] }) {
  const failed = flows
    .flatMap(({ destinations }) => destinations)
    .reduce((sum, destination) => sum + destination.failed, 0)
  if (failed === 0) return nothing
  return html`<span class="badge bad count"><span aria-hidden="true">${number(failed)}</span
    ><span class="visually-hidden">${count('nav.failed', failed)}</span></span>`
}
