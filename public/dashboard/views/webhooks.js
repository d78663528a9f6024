import { errorSentence, failureText } from '../../shared/errors.js'
import { code, name, number, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import { toast } from '../../shared/notices.js'
import {
  badge,
  createFreshness,
  empty,
  facts,
  howMany,
  pageOf,
  pageQuery,
} from '../../shared/parts.js'
import '../history-page-texts.js'
import { pagedTable } from './paged-table.js'

const tones = {
  received: 'info',
  processed: 'good',
  duplicate: 'quiet',
  ignored: 'quiet',
  failed: 'bad',
  rejected: 'warn',
}

/** For the administrator: what the provider sent, whether it was really he, and what came of it. */
export function createWebhooks(app) {
  const fresh = createFreshness()
  const opened = new Set()
  let shown

  return {
    title: () => t('nav.webhooks'),
    async load(signal) {
      const answer = await app.api.get(
        '/admin/webhooks/logs',
        { client: app.client, ...pageQuery(app.query) },
        signal,
      )
      shown = { question: JSON.stringify(app.query), page: pageOf(app.query), ...answer }
    },
    body() {
      if (!shown) return app.placeholder()
      const { logs, ...rest } = shown
      if (logs.length === 0 && rest.page === 1) {
        return empty(t('webhooks.none'), t('webhooks.noneHint'))
      }
      return html`${howMany('webhooks.count', rest.total)}
        ${pagedTable(app, rest, {
          label: t('nav.webhooks'),
          columns: columns(app, opened),
          rows: logs,
          keyOf: ({ id }) => id,
          fresh,
          extra: (log) => opened.has(log.id) && expanded(log),
        })}`
    },
  }
}

function columns(app, opened) {
  return [
    { id: 'time', title: t('webhooks.received'), cell: ({ received_at: at }) => time(at) },
    {
      id: 'status',
      title: t('order.status'),
      cell: ({ status }) => badge(tones[status], word('webhook', status)),
    },
    {
      id: 'signature',
      title: t('webhooks.signature'),
      cell: ({ signature_valid: valid }) =>
        badge(valid ? 'good' : 'bad', t(valid ? 'webhooks.valid' : 'webhooks.invalid')),
    },
    {
      id: 'event',
      title: t('webhooks.event'),
      cell: ({ action, topic }) => name(word('event', action ?? topic ?? '—'), { class: 'clip' }),
    },
    {
      id: 'client',
      title: t('order.client'),
      cell: ({ client }) => (client ? name(client, { class: 'clip' }) : '—'),
    },
    { id: 'order', title: t('webhooks.order'), cell: (log) => orderOf(app, log) },
    {
      id: 'deliveries',
      title: t('webhooks.deliveries'),
      numeric: true,
      cell: ({ deliveries }) => number(deliveries),
    },
    { id: 'actions', title: t('actions'), cell: (log) => rowActions(app, log, opened) },
  ]
}

function orderOf(app, { order_id: id, client, resource_id: resource }) {
  if (!id || !client) return html`<span class="clip">${code(resource)}</span>`
  const href = app.orderLink({ order_id: id, client })
  return html`<a href=${href}><span class="clip">${code(resource ?? id)}</span></a>`
}

function rowActions(app, log, opened) {
  const isOpen = opened.has(log.id)
  const toggle = () => {
    if (!opened.delete(log.id)) opened.add(log.id)
    app.redraw()
  }
  return html`<div class="buttons">
    <button type="button" class="button small" aria-expanded=${isOpen ? 'true' : 'false'} @click=${toggle}>
      ${t(isOpen ? 'webhooks.less' : 'webhooks.details')}
    </button>
    ${
      log.signature_valid
        ? html`<button type="button" class="button small"
            @click=${(event) => void replay(app, log, event.currentTarget)}>${t('webhooks.replay')}</button>`
        : nothing
    }
  </div>`
}

async function replay(app, log, button) {
  button.disabled = true
  try {
    const { webhook } = await app.api.post(`/admin/webhooks/${log.id}/replay`)
    toast(t('webhooks.replayed', { status: word('webhook', webhook.status) }))
    app.reload()
  } catch (error) {
    toast(errorSentence(error))
  }
  button.disabled = false
}

function expanded(log) {
  return html`${facts([
    [t('webhooks.problem'), log.error_message && name(failureText(log.error_message))],
    [t('webhooks.event'), code(log.action ?? log.topic)],
    [t('webhooks.resource'), code(log.resource_id)],
    [t('webhooks.account'), log.mp_user_id === null ? null : code(String(log.mp_user_id))],
    [t('webhooks.request'), code(log.request_id)],
    [t('webhooks.form'), log.signature_form && code(log.signature_form)],
    [t('webhooks.processed'), log.processed_at && time(log.processed_at)],
    [t('webhooks.duration'), log.duration_ms === null ? null : `${number(log.duration_ms)} ms`],
  ])}
    <h3>${t('webhooks.payload')}</h3>
    ${
      log.payload === null
        ? html`<p class="soft">${t('webhooks.noPayload')}</p>`
        : html`<pre tabindex="0" role="group" aria-label=${t('webhooks.payload')}>${JSON.stringify(log.payload, null, 2)}</pre>`
    }`
}
