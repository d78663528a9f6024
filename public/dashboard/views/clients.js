import { h } from '../../shared/dom.js'
import { code, name, number, relative, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { badge, empty, howMany, table } from '../../shared/parts.js'
import {
  askInvitation,
  askKey,
  askRevoke,
  askRevokeOne,
  connectAddress,
} from '../client-actions.js'
import { readSetUp, setUpPanel } from './set-up.js'

const connectionTones = { connected: 'good', expired: 'warn', lost: 'bad', none: 'quiet' }

/** For the administrator: who is connected, with which keys, and what to do about it. */
export function createClients(app) {
  let shown

  return {
    title: () => t('nav.clients'),
    actions: () =>
      h(
        'button',
        { type: 'button', class: 'button main', onclick: () => askInvitation(app) },
        t('clients.new'),
      ),
    async load(signal) {
      const [{ clients, total }, { keys }] = await Promise.all([
        app.api.get('/admin/clients', {}, signal),
        app.api.get('/api-keys', {}, signal),
      ])
      app.clients = clients
      const chosen = clients.find(({ client }) => client === app.client)
      const setUp = chosen && (await readSetUp(app, chosen, signal))
      shown = { clients, total, keys, setUp }
    },
    body() {
      if (!shown) return app.placeholder()
      const isShown = ({ client }) => app.client === undefined || client === app.client
      const clients = shown.clients.filter(isShown)
      const keys = shown.keys.filter(isShown)
      return [
        shown.setUp && shown.setUp.row.client === app.client && setUpPanel(app, shown.setUp),
        howMany('clients.count', app.client === undefined ? shown.total : clients.length),
        clients.length === 0
          ? empty(t('clients.none'), t('clients.noneHint'))
          : table({
              label: t('nav.clients'),
              columns: clientColumns(app),
              rows: clients,
              keyOf: ({ client }) => client,
            }),
        keys.length > 0 && keySection(app, keys),
      ]
    },
  }
}

function clientColumns(app) {
  return [
    {
      id: 'client',
      title: t('order.client'),
      cell: ({ client }) => name(client, { class: 'clip strong' }),
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
        live !== null && [
          ' ',
          h('span', { class: 'soft small' }, live ? t('clients.live') : t('clients.test')),
        ],
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

function clientActions(app, row) {
  const button = (key, text, onclick, style = '') =>
    h(
      'button',
      { key, type: 'button', class: `button small ${style}`, onclick },
      text,
      h('span', { class: 'visually-hidden' }, ` (${row.client})`),
    )
  const isConnected = row.connection === 'connected'
  return h(
    'div',
    { class: 'buttons' },
    !isConnected &&
      h(
        'a',
        { key: 'connect', class: 'button small', href: connectAddress(row.client) },
        t('clients.connect'),
      ),
    !isConnected && button('invite', t('clients.invite'), () => askInvitation(app, row.client)),
    isConnected && button('key', t('clients.newKey'), () => askKey(app, row.client)),
    row.active_keys > 0 &&
      button('revoke', t('clients.revoke'), () => askRevoke(app, row), 'danger'),
  )
}

function keySection(app, keys) {
  return h(
    'section',
    { key: 'keys', class: 'stack' },
    h('h2', null, t('keys.title')),
    table({
      label: t('keys.title'),
      columns: [
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
            key.active &&
            h(
              'button',
              {
                type: 'button',
                class: 'button small danger',
                onclick: () => askRevokeOne(app, key),
              },
              t('keys.revoke'),
              h('span', { class: 'visually-hidden' }, ` (${key.key})`),
            ),
        },
      ],
      rows: keys,
      keyOf: ({ id }) => id,
    }),
  )
}
