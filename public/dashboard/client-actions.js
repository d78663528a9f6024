import { copyButton } from '../shared/copy.js'
import { ask, openDialog } from '../shared/dialog.js'
import { h } from '../shared/dom.js'
import { code, fullTime, name } from '../shared/format.js'
import { count, t } from '../shared/i18n.js'
import { toast } from '../shared/notices.js'
import { facts, field, note } from '../shared/parts.js'

/**
 * Where a browser connects the account of a client; it comes back here afterwards. A first connection needs an
 * invitation instead where the service asks for one.
 */
export function connectAddress(client) {
  const url = new URL('/oauth/login', location.origin)
  url.searchParams.set('client', client)
  url.searchParams.set('target_url', `${location.origin}/dashboard#/clients`)
  return url.href
}

/** Asks for a new client's name and makes the link with which its owner connects the account. */
export function askInvitation(app, client) {
  ask({
    title: client === undefined ? t('invite.titleNew') : t('invite.title'),
    content: (form, dialog) => [
      h('p', null, t('invite.text')),
      client === undefined
        ? field(
            t('invite.name'),
            h('input', {
              key: 'name',
              name: 'client',
              required: true,
              maxlength: 100,
              autocomplete: 'off',
              autofocus: true,
              disabled: dialog.busy,
              oninput: (event) => {
                form.client = event.target.value
                dialog.redraw()
              },
            }),
            t('invite.nameHint'),
          )
        : facts([[t('order.client'), name(client)]]),
      client === undefined &&
        form.client?.trim() &&
        h(
          'p',
          { key: 'here' },
          h('a', { href: connectAddress(form.client.trim()) }, t('clients.connectHere')),
        ),
    ],
    confirm: t('invite.confirm'),
    check: (form) =>
      client === undefined && !form.client?.trim() ? t('invite.nameMissing') : undefined,
    async run(form) {
      const made = await app.api.post('/admin/invitations', {
        body: { client: client ?? form.client.trim() },
      })
      showOnce({
        title: t('invite.made'),
        intro: t('invite.madeText'),
        pairs: [
          [t('order.client'), name(made.client)],
          [t('invite.validUntil'), fullTime(made.expires_at)],
        ],
        label: t('invite.link'),
        value: made.url,
      })
      app.reload()
    },
  })
}

/** Makes a key and shows it this one time. */
export function askKey(app, client) {
  ask({
    title: t('key.title'),
    content: (form, dialog) => [
      facts([[t('order.client'), name(client)]]),
      field(
        t('key.description'),
        h('input', {
          name: 'description',
          maxlength: 200,
          autocomplete: 'off',
          autofocus: true,
          disabled: dialog.busy,
          oninput: (event) => {
            form.description = event.target.value
          },
        }),
        t('key.descriptionHint'),
      ),
      h('p', { class: 'soft' }, t('key.overlap')),
    ],
    confirm: t('key.confirm'),
    async run(form) {
      const description = form.description?.trim()
      const made = await app.api.post('/api-keys', {
        body: { client, ...(description && { description }) },
      })
      showOnce({
        title: t('key.made'),
        intro: t('key.madeText'),
        pairs: [
          [t('order.client'), name(made.client)],
          [t('key.account'), name(`${made.nickname ?? ''} (${made.mp_user_id})`.trim())],
        ],
        label: t('key.value'),
        value: made.key,
      })
      app.reload()
    },
  })
}

export function askRevoke(app, { client, active_keys: keys }) {
  ask({
    title: t('revoke.title'),
    content: () => [
      facts([[t('order.client'), name(client)]]),
      note('warn', h('p', null, count('revoke.text', keys))),
    ],
    confirm: t('revoke.confirm'),
    danger: true,
    async run() {
      await app.api.post('/api-keys/revoke', { body: { client } })
      toast(t('revoke.done', { client }))
      app.reload()
    },
  })
}

/** Ends one key; the others of its client work on. */
export function askRevokeOne(app, { id, key, client, description }) {
  ask({
    title: t('revokeOne.title'),
    content: () => [
      facts([
        [t('order.client'), name(client)],
        [t('keys.key'), code(key)],
        [t('keys.description'), description ? name(description) : undefined],
      ]),
      note('warn', h('p', null, t('revokeOne.text'))),
    ],
    confirm: t('revoke.confirm'),
    danger: true,
    async run() {
      await app.api.post('/api-keys/revoke', { body: { key_id: id } })
      toast(t('revokeOne.done', { key }))
      app.reload()
    },
  })
}

/** A value that is gone when the window closes. */
function showOnce({ title, intro, pairs, label, value }) {
  openDialog((dialog) => [
    h('h2', { id: 'dialog-title' }, title),
    h('p', null, intro),
    facts(pairs),
    field(
      label,
      h('input', {
        class: 'secret',
        readonly: true,
        value,
        onfocus: (event) => event.target.select(),
      }),
    ),
    h(
      'div',
      { class: 'buttons' },
      copyButton(value),
      h(
        'button',
        { type: 'button', class: 'button main', onclick: () => dialog.close() },
        t('dialog.stored'),
      ),
    ),
  ])
}
