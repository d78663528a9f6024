import { errorBox, failureText } from '../../shared/errors.js'
import { code, name, number, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html, live, nothing } from '../../shared/lit.js'
import {
  badge,
  createFreshness,
  empty,
  field,
  howMany,
  note,
  pageOf,
  pageQuery,
} from '../../shared/parts.js'
import { midnight } from '../../shared/shop-clock.js'
import '../history-page-texts.js'
import { whoText } from '../who.js'
import { pagedTable } from './paged-table.js'

const actions = [
  'person.invited',
  'person.changed',
  'person.reset',
  'person.revoked',
  'closing.signed',
  'order.created',
  'order.canceled',
  'order.asked',
  'order.settled',
  'order.refund_settled',
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
  'settlement.taken_in',
  'settlement.fetch_wanted',
  'charge_class.set',
  'webhook.replayed',
  'consumer.created',
  'consumer.moved',
  'consumer.deleted',
  'session.started',
  'session.ended',
  'session.refused',
  'control.entered',
  'control.refused',
  'flow.paused',
  'flow.resumed',
  'flow.limited',
  'flow.limit_removed',
  'flow.reset',
  'flow.item_reset',
  'flow.synced',
  'flow.item_synced',
  'flow.retried',
  'flow.alerts_tested',
  'flow.reloaded',
  'flow.file_created',
  'flow.file_changed',
  'flow.dry_run',
]

/** For the administrator: who did what, and whether the log is whole. */
export function createActivity(app) {
  const fresh = createFreshness()
  const opened = new Set()
  let shown
  let check
  let people = []

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
      app.isAdmin &&
      html`<button type="button" class="button" ?disabled=${check?.busy} @click=${() => void verify()}>
        ${t(check?.busy ? 'chain.busy' : 'chain.check')}
      </button>`,
    async load(signal) {
      const { action, status, order, from, to } = app.query
      const answer = await app.api.get(
        '/admin/activity',
        {
          action,
          status,
          order_id: order,
          person_id: app.query.person,
          from: midnight(from),
          to: midnight(to, 1),
          client: app.client,
          ...pageQuery(app.query),
        },
        signal,
      )
      people = (await app.api.get('/people', { client: app.client }, signal)).people
      shown = { question: JSON.stringify(app.query), page: pageOf(app.query), ...answer }
    },
    body: () => html`<div role="status">${check ? chainState(check) : nothing}</div>
      ${filters(app, people)}
      ${shown ? list(app, shown, fresh, opened) : app.placeholder()}`,
  }
}

function chainState({ result, failure }) {
  if (failure) return errorBox(failure)
  if (!result) return nothing
  const { valid, entries, head, unsealed, broken_at: at, reason } = result
  return valid
    ? note(
        'good',
        html`<p class="strong">${count('chain.whole', entries)}</p>
          <p class="small">${t('chain.head', { seq: head.seq })} ${code(head.hash)}</p>
          ${unsealed > 0 ? html`<p class="small">${count('chain.unsealed', unsealed)}</p>` : nothing}`,
      )
    : note(
        'bad',
        html`<p class="strong">${t('chain.broken', { seq: at ?? '?' })}</p>
          ${reason ? html`<p>${word('chain', reason)}</p>` : nothing}`,
      )
}

function filters(app, people) {
  const { query } = app
  const option = (filter, value, text) =>
    html`<option value=${value} .selected=${live((query[filter] ?? '') === value)}>${text}</option>`
  const select = (filter, values, group) =>
    html`<select name=${filter} @change=${(event) =>
      app.setQuery({ [filter]: event.target.value, page: undefined, cursor: undefined })}>
      ${option(filter, '', t('filter.any'))}
      ${values.map((value) => option(filter, value, word(group, value)))}
    </select>`
  const input = (filter, type) =>
    html`<input name=${filter} type=${type} .value=${live(query[filter] ?? '')} @change=${(event) =>
      app.setQuery({ [filter]: event.target.value.trim(), page: undefined, cursor: undefined })}>`
  const person = html`<select name="person" @change=${(event) =>
    app.setQuery({ person: event.target.value, page: undefined, cursor: undefined })}>
      ${option('person', '', t('filter.any'))}
      ${people.map((one) => option('person', one.id, one.name))}
    </select>`
  return html`<form class="filters" @submit=${(event) => event.preventDefault()}>
    ${field(t('activity.action'), select('action', actions, 'action'))}
    ${field(t('activity.order'), input('order', 'search'))}
    ${field(t('activity.person'), person)}
    ${field(t('filter.from'), input('from', 'date'))}
    ${field(t('filter.to'), input('to', 'date'))}
    ${field(t('order.status'), select('status', ['success', 'failed'], 'result'))}
    ${
      query.action || query.status || query.order || query.person || query.from || query.to
        ? html`<a class="button" href=${app.link('activity')}>${t('filter.clear')}</a>`
        : nothing
    }
  </form>`
}

function list(app, { logs, ...shown }, fresh, opened) {
  if (logs.length === 0) return empty(t('activity.none'))
  const details = (log) =>
    html`<pre tabindex="0" role="group" aria-label=${t('activity.details')}>${JSON.stringify(detailsOf(log), null, 2)}</pre>`
  return html`<div class="stack ${app.isWaiting ? 'waiting' : ''}" aria-busy=${app.isWaiting ? 'true' : nothing}>
    ${howMany('activity.count', shown.total)}
    ${pagedTable(app, shown, {
      label: t('nav.activity'),
      columns: columns(app, opened),
      rows: logs,
      keyOf: ({ id }) => id,
      fresh,
      extra: (log) => opened.has(log.id) && details(log),
    })}
  </div>`
}

function columns(app, opened) {
  return [
    { id: 'time', title: t('activity.time'), cell: ({ created_at: at }) => time(at) },
    {
      id: 'action',
      title: t('activity.action'),
      cell: ({ action, error_message: message }) =>
        html`<span class="strong">${word('action', action)}</span>${
          message ? html`<p class="soft small clip">${name(failureText(message))}</p>` : nothing
        }`,
    },
    { id: 'who', title: t('activity.who'), cell: ({ who }) => name(whoText(who)) },
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
      cell: (log) => {
        const isOpen = opened.has(log.id)
        const toggle = () => {
          if (!opened.delete(log.id)) opened.add(log.id)
          app.redraw()
        }
        return html`<button type="button" class="button small" aria-expanded=${isOpen ? 'true' : 'false'} @click=${toggle}>
          ${t(isOpen ? 'webhooks.less' : 'webhooks.details')}
        </button>`
      },
    },
  ]
}

function detailsOf({ metadata, error_message: error, seq, hash }) {
  return { ...metadata, ...(error !== null && { error }), seq, hash }
}

function resourceOf(app, { resource_type: type, resource_id: id, client_name: client }) {
  const shown = html`<span class="clip">${code(id)}</span>`
  return type === 'order' && id && client
    ? html`<a href=${app.orderLink({ order_id: id, client })}>${shown}</a>`
    : shown
}
