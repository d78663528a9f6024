import { name } from '../shared/format.js'
import { frame } from '../shared/frame.js'
import { t } from '../shared/i18n.js'
import { html, live, nothing, repeat } from '../shared/lit.js'
import { href } from '../shared/router.js'
import { shopZone, shownZone } from '../shared/shop-clock.js'

/** The frame of the dashboard. */
export function dashboardFrame(app, { views, view, problem, place, onLanguage }) {
  const current = app.name === 'order' ? 'orders' : app.name
  return frame(app, {
    home: app.link('overview'),
    banner: sandboxBanner(app.health),
    who: clientPicker(app),
    lamp: lampOf(app),
    ways: views.map((way) => ({ href: app.link(way), name: way, isCurrent: way === current })),
    other: app.health?.flows_page && { href: app.health.flows_page, text: t('page.flows') },
    signOut: () => app.signOut(),
    onLanguage,
    view,
    problem,
    start: problem && startOf(app, problem),
    aside: [roleNote(app), zoneNote()],
    place,
  })
}

/** Why a person who reads sees no button of what others do. */
function roleNote({ person, may }) {
  return person && !may('move_money') && may('see')
    ? html`<p class="role-note soft small">${t('role.readsOnly')}</p>`
    : nothing
}

/** With shops in several zones a time is of none of them, so it says whose it is. */
function zoneNote() {
  if (shopZone()) return nothing
  return html`<p class="zone soft small">${t('zone.browser', { zone: shownZone() })}</p>`
}

/** The view as it opens by itself; without the client when that may be what is not there. An order leads back anyway. */
function startOf(app, { status }) {
  if (app.name === 'order') return undefined
  return status === 404 ? href(app.name) : app.link(app.name)
}

function sandboxBanner(health) {
  if (health?.mode !== 'sandbox') return nothing
  return html`<aside class="sandbox"><strong>SANDBOX</strong> ${t('sandbox')}</aside>`
}

function lampOf({ isLost, health }) {
  const isDegraded = health?.checks?.provider.status === 'degraded'
  const state = isLost ? 'lost' : isDegraded ? 'degraded' : 'live'
  return { state, text: t(`lamp.${state}`) }
}

function clientPicker(app) {
  if (!app.isAdmin) return html`<span class="client">${name(app.client, { class: 'clip' })}</span>`
  const known = (app.clients ?? []).map(({ client }) => client)
  // A name from the address that is no client any more must still be shown as chosen.
  const names = app.scope && !known.includes(app.scope) ? [...known, app.scope] : known
  const option = (value, text) =>
    html`<option value=${value} .selected=${live(value === (app.scope ?? ''))}>${text}</option>`
  return html`<label class="client">
    <span class="visually-hidden">${t('client.label')}</span>
    <select name="client" @change=${(event) => app.setScope(event.target.value)}>
      ${option('', t('client.all'))}${repeat(
        names,
        (client) => client,
        (client) => option(client, client),
      )}
    </select>
  </label>`
}
