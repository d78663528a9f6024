import { h } from '../../shared/dom.js'
import { errorBox } from '../../shared/errors.js'
import { code, name, number, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import {
  badge,
  createFreshness,
  empty,
  field,
  howMany,
  note,
  pageOf,
  pageQuery,
  pager,
  table,
} from '../../shared/parts.js'

const actions = [
  'order.created',
  'order.canceled',
  'order.refunded',
  'order.adopted',
  'order.simulated',
  'store.created',
  'store.deleted',
  'pos.created',
  'pos.deleted',
  'terminal.mode_changed',
  'terminal.freed',
  'api_key.created',
  'api_key.revoked',
  'oauth.connected',
  'oauth.refreshed',
  'oauth.logout',
  'invitation.created',
  'client.tokens_read',
  'client.unpinned',
  'webhook.replayed',
]

/** For the administrator: who did what, and whether the log is whole. */
export function createActivity(app) {
  const fresh = createFreshness()
  const opened = new Set()
  let shown
  let check

  const verify = async () => {
    check = { busy: true }
    app.redraw()
    try {
      check = { result: await app.api.get('/admin/activity/verify') }
    } catch (error) {
      check = { failure: error }
    }
    app.redraw()
  }

  return {
    title: () => t('nav.activity'),
    actions: () =>
      h(
        'button',
        { type: 'button', class: 'button', disabled: check?.busy, onclick: () => void verify() },
        t(check?.busy ? 'chain.busy' : 'chain.check'),
      ),
    async load(signal) {
      const { action, status } = app.query
      const answer = await app.api.get(
        '/admin/activity',
        { action, status, client: app.client, ...pageQuery(app.query) },
        signal,
      )
      shown = { question: JSON.stringify(app.query), page: pageOf(app.query), ...answer }
    },
    body: () => [
      h('div', { key: 'chain', role: 'status' }, check && chainState(check)),
      filters(app),
      shown ? list(app, shown, fresh, opened) : app.placeholder(),
    ],
  }
}

function chainState({ result, failure }) {
  if (failure) return errorBox(failure)
  if (!result) return null
  return result.valid
    ? note(
        'good',
        h('p', { class: 'strong' }, count('chain.whole', result.entries)),
        h(
          'p',
          { class: 'small' },
          t('chain.head', { seq: result.head.seq }),
          ' ',
          code(result.head.hash),
        ),
      )
    : note(
        'bad',
        h('p', { class: 'strong' }, t('chain.broken', { seq: result.broken_at ?? '?' })),
        result.reason && h('p', null, word('chain', result.reason)),
      )
}

function filters(app) {
  const { query } = app
  const select = (filter, values, group) =>
    h(
      'select',
      {
        name: filter,
        value: query[filter] ?? '',
        onchange: (event) =>
          app.setQuery({ [filter]: event.target.value, page: undefined, cursor: undefined }),
      },
      h('option', { value: '' }, t('filter.any')),
      values.map((value) => h('option', { key: value, value }, word(group, value))),
    )
  return h(
    'form',
    { key: 'filters', class: 'filters', onsubmit: (event) => event.preventDefault() },
    field(t('activity.action'), select('action', actions, 'action')),
    field(t('order.status'), select('status', ['success', 'failed'], 'result')),
    (query.action || query.status) &&
      h('a', { key: 'clear', class: 'button', href: app.link('activity') }, t('filter.clear')),
  )
}

function list(app, { question, logs, total, ...place }, fresh, opened) {
  if (logs.length === 0) return empty(t('activity.none'))
  return h(
    'div',
    {
      key: 'list',
      class: app.isWaiting ? 'stack waiting' : 'stack',
      'aria-busy': app.isWaiting ? 'true' : null,
    },
    howMany('activity.count', total),
    table({
      label: t('nav.activity'),
      columns: columns(app, opened),
      rows: logs,
      keyOf: ({ id }) => id,
      freshKeys: fresh(
        question,
        logs.map(({ id }) => id),
      ),
      extra: (log) =>
        opened.has(log.id) &&
        h(
          'pre',
          { tabindex: '0', 'aria-label': t('activity.details') },
          JSON.stringify(detailsOf(log), null, 2),
        ),
    }),
    pager({
      ...place,
      total,
      hrefOf: (to) => app.link('activity', undefined, { ...app.query, ...to }),
    }),
  )
}

function columns(app, opened) {
  return [
    { id: 'time', title: t('activity.time'), cell: ({ created_at: at }) => time(at) },
    {
      id: 'action',
      title: t('activity.action'),
      cell: ({ action, error_message: message }) => [
        h('span', { class: 'strong' }, word('action', action)),
        message && h('p', { class: 'soft small clip' }, name(failureText(message))),
      ],
    },
    {
      id: 'result',
      title: t('activity.result'),
      cell: ({ status }) => badge(status === 'success' ? 'good' : 'bad', word('result', status)),
    },
    {
      id: 'client',
      title: t('order.client'),
      cell: ({ client_name: client }) => (client ? name(client, { class: 'clip' }) : '—'),
    },
    { id: 'resource', title: t('activity.resource'), cell: (log) => resourceOf(app, log) },
    { id: 'ip', title: t('activity.ip'), cell: ({ ip_address: ip }) => code(ip) },
    {
      id: 'duration',
      title: t('webhooks.duration'),
      numeric: true,
      cell: ({ duration_ms: ms }) => `${number(ms)} ms`,
    },
    {
      id: 'actions',
      title: t('actions'),
      cell: (log) =>
        h(
          'button',
          {
            type: 'button',
            class: 'button small',
            'aria-expanded': opened.has(log.id) ? 'true' : 'false',
            onclick: () => {
              if (!opened.delete(log.id)) opened.add(log.id)
              app.redraw()
            },
          },
          t(opened.has(log.id) ? 'webhooks.less' : 'webhooks.details'),
        ),
    },
  ]
}

/** The log keeps `CODE: sentence in English`; the reader's language knows the code. */
function failureText(message) {
  const code = /^([A-Z_]+)(?=:|$)/.exec(message)?.[1]
  const known = word('error', code)
  return code === undefined || known === code ? message : known
}

function detailsOf({ metadata, error_message: error, seq, hash }) {
  return { ...metadata, ...(error !== null && { error }), seq, hash }
}

function resourceOf(app, { resource_type: type, resource_id: id, client_name: client }) {
  const shown = h('span', { class: 'clip' }, code(id))
  return type === 'order' && id && client
    ? h('a', { href: app.orderLink({ order_id: id, client }) }, shown)
    : shown
}
