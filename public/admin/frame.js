import { name, number } from '../shared/format.js'
import { frame } from '../shared/frame.js'
import { count, t } from '../shared/i18n.js'
import { html, nothing } from '../shared/lit.js'
import { shopZone, shownZone } from '../shared/shop-clock.js'

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
    who:
      app.person && html`<span class="client">${name(app.person.name, { class: 'clip' })}</span>`,
    signOut: app.hasToken || app.person ? () => app.signOut() : undefined,
    signIn: app.hasToken || app.person ? undefined : () => app.signIn(),
    onLanguage,
    view,
    problem,
    start: app.link(app.name),
    aside: [roleNote(app), zoneNote()],
    place,
  })
}

/** Why some buttons are not there. */
function roleNote({ may }) {
  return may('run_flows')
    ? nothing
    : html`<p class="role-note soft small">${t('role.readsFlows')}</p>`
}

/** By whose clocks times are shown: those of the shops where they have one zone, as on the dashboard. */
function zoneNote() {
  const zone = shownZone()
  return html`<p class="zone soft small">${t(shopZone() ? 'zone.shops' : 'zone.browser', { zone })}</p>`
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
