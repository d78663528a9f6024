import { code, name, number, relative, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import { badge, empty, howMany, table } from '../../shared/parts.js'
import {
  askExchange,
  askKey,
  askRevoke,
  askRevokeInvitation,
  askRevokeOne,
  keptPanels,
} from '../client-actions.js'
import { isTesting, readTestCharge, testChargePanel } from '../test-charge.js'
import { createSetUp, readSetUp } from './set-up.js'

const connectionTones = { connected: 'good', expired: 'warn', lost: 'bad', none: 'quiet' }
/** While a client is set up: nobody tells that a terminal was paired. */
const setUpEveryMs = 4000
/** What else is told of a client, each in a view of its own. */
const views = ['orders', 'stores', 'closings', 'events', 'webhooks', 'activity']

/** For the administrator: who is connected, with which keys, and what to do about it. */
export function createClients(app) {
  const setUp = createSetUp(app)
  let shown
  let timer

  return {
    isOfOne: true,
    title: () => t('nav.clients'),
    actions: () =>
      html`<a class="button main" href=${app.link('clients', undefined, { client: undefined, new: '1' })}>${t('clients.new')}</a>`,
    async load(signal) {
      const { client: chosen } = app
      const [{ clients, total }, { keys }, { invitations }] = await Promise.all([
        app.api.get('/admin/clients', {}, signal),
        app.api.get('/api-keys', {}, signal),
        app.api.get('/admin/invitations', {}, signal),
        chosen !== undefined && readTestCharge(app, chosen, signal),
      ])
      app.clients = clients
      const row =
        clients.find(({ client }) => client === chosen) ??
        (app.scope !== undefined && { client: chosen, connection: 'none', active_keys: 0 })
      const state = row ? await readSetUp(app, row, signal) : undefined
      shown = { clients, total, keys, invitations, state }
      clearTimeout(timer)
      const isPairing = state?.done.boxes && !state.done.terminal
      if (isPairing || isTesting(app, chosen)) {
        timer = setTimeout(() => {
          if (app.name === 'clients' && !document.hidden) app.reload()
        }, setUpEveryMs)
      }
    },
    body() {
      if (!shown) return app.placeholder()
      const isShown = ({ client }) => app.client === undefined || client === app.client
      const clients = shown.clients.filter(isShown)
      const keys = shown.keys.filter(isShown)
      // Of those who are not connected yet too, which are no clients so far.
      const invitations = shown.invitations.filter(
        ({ client }) => app.scope === undefined || client === app.scope,
      )
      const isOne = app.client !== undefined
      return html`
        ${keptPanels(app, shown.keys)}
        ${app.query.new ? setUp.begin() : nothing}
        ${isOne ? testChargePanel(app, app.client) : nothing}
        ${!app.query.new && shown.state && shown.state.row.client === app.client ? setUp.panel(shown.state, invitations.filter(isShown)) : nothing}
        ${invitations.length > 0 ? invitationSection(app, invitations) : nothing}
        ${isOne && clients.length > 0 ? waysOn(app) : nothing}
        ${isOne && clients.length === 0 ? nothing : clientSection(app, clients, isOne ? clients.length : shown.total)}
        ${keys.length > 0 ? keySection(app, keys) : nothing}`
    },
  }
}

function waysOn(app) {
  const way = (view) => html`<a href=${app.link(view)}>${t(`nav.${view}`)}</a>`
  return html`<p class="ways-on">${views.filter(app.has).map(way)}</p>`
}

function clientSection(app, clients, total) {
  if (clients.length === 0) return empty(t('clients.none'), t('clients.noneHint'))
  return html`${howMany('clients.count', total)}
    ${table({
      label: t('nav.clients'),
      columns: clientColumns(app),
      rows: clients,
      keyOf: ({ client }) => client,
    })}`
}

function clientColumns(app) {
  return [
    {
      id: 'client',
      title: t('order.client'),
      cell: ({ client }) =>
        html`<a href=${app.link('clients', undefined, { client })}>${name(client, { class: 'clip strong' })}</a>`,
    },
    {
      id: 'account',
      title: t('clients.account'),
      cell: ({ nickname }) => (nickname ? name(nickname) : '—'),
    },
    {
      id: 'connection',
      title: t('clients.connection'),
      cell: ({ connection, live_mode: live }) => [
        badge(connectionTones[connection], word('connection', connection)),
        live === null
          ? nothing
          : html` <span class="soft small">${live ? t('clients.live') : t('clients.test')}</span>`,
      ],
    },
    {
      id: 'expires',
      title: t('clients.expires'),
      cell: ({ expires_at: at }) => (at ? relative(at) : '—'),
    },
    {
      id: 'keys',
      title: t('clients.keys'),
      numeric: true,
      cell: ({ active_keys: keys }) => number(keys),
    },
    { id: 'actions', title: t('actions'), cell: (client) => clientActions(app, client) },
  ]
}

/** A small button of a row; what it is about is told to those who do not see the row. */
function rowButton(text, about, onClick, style = '') {
  return html`<button type="button" class="button small ${style}" @click=${onClick}>
    ${text}<span class="visually-hidden"> (${about})</span></button>`
}

function clientActions(app, row) {
  const { client } = row
  return html`<div class="buttons">
    ${
      row.connection === 'connected'
        ? rowButton(t('clients.newKey'), client, () => askKey(app, client))
        : html`<a class="button small" href=${app.link('clients', undefined, { client })}>${t('clients.setUp')}<span
            class="visually-hidden"> (${client})</span></a>`
    }
    ${row.active_keys > 0 ? rowButton(t('clients.revoke'), client, () => askRevoke(app, row), 'danger') : nothing}
  </div>`
}

function invitationSection(app, invitations) {
  return html`<section class="stack">
    <h2>${t('invitations.title')}</h2>
    <p class="soft small">${t('invitations.hint')}</p>
    ${table({
      label: t('invitations.title'),
      columns: [
        { id: 'client', title: t('order.client'), cell: ({ client }) => name(client) },
        { id: 'created', title: t('keys.created'), cell: ({ created_at: at }) => relative(at) },
        {
          id: 'until',
          title: t('invite.validUntil'),
          cell: ({ expires_at: at }) => time(at),
        },
        {
          id: 'actions',
          title: t('actions'),
          cell: (one) =>
            rowButton(t('keys.revoke'), one.client, () => askRevokeInvitation(app, one), 'danger'),
        },
      ],
      rows: invitations,
      keyOf: ({ id }) => id,
    })}
  </section>`
}

function keySection(app, keys) {
  const columns = [
    { id: 'key', title: t('keys.key'), cell: ({ key }) => code(key) },
    {
      id: 'client',
      title: t('order.client'),
      cell: ({ client }) => name(client, { class: 'clip' }),
    },
    {
      id: 'description',
      title: t('keys.description'),
      cell: ({ description }) => (description ? name(description, { class: 'clip' }) : '—'),
    },
    {
      id: 'state',
      title: t('order.status'),
      cell: ({ active }) =>
        badge(active ? 'good' : 'quiet', t(active ? 'keys.active' : 'keys.revoked')),
    },
    { id: 'created', title: t('keys.created'), cell: ({ created_at: at }) => time(at) },
    {
      id: 'used',
      title: t('keys.used'),
      cell: ({ last_used_at: at }) => (at ? relative(at) : t('keys.never')),
    },
    {
      id: 'actions',
      title: t('actions'),
      cell: (key) =>
        key.active
          ? html`<div class="buttons">
              ${rowButton(t('keys.exchange'), key.key, () => askExchange(app, key))}
              ${rowButton(t('keys.revoke'), key.key, () => askRevokeOne(app, key), 'danger')}
            </div>`
          : nothing,
    },
  ]
  return html`<section class="stack">
    <h2>${t('keys.title')}</h2>
    ${table({ label: t('keys.title'), columns, rows: keys, keyOf: ({ id }) => id })}
  </section>`
}
