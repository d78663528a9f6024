import { copyButton } from '../shared/copy.js'
import { ask } from '../shared/dialog.js'
import { code, fullTime, name, relative } from '../shared/format.js'
import { count, t } from '../shared/i18n.js'
import { html, nothing, repeat } from '../shared/lit.js'
import { toast } from '../shared/notices.js'
import { facts, field, note } from '../shared/parts.js'
import { addressOf } from '../shared/place.js'
import { keep, keptBy, letGo } from './kept.js'

/**
 * Where a browser connects the account of a client; it comes back to its set-up afterwards. A first connection needs an
 * invitation instead where the service asks for one.
 */
export function connectAddress(client) {
  const url = addressOf('/oauth/login')
  url.searchParams.set('client', client)
  const back = `/dashboard#/clients?client=${encodeURIComponent(client)}`
  url.searchParams.set('target_url', addressOf(back).href)
  return url.href
}

/** Makes the link with which the owner of an account connects it, and shows it until it is stored. */
export async function invite(app, client) {
  const made = await app.api.post('/admin/invitations', { body: { client } })
  keep(app, {
    ...{ kind: 'link', client: made.client, id: made.id },
    ...{ value: made.url, until: made.expires_at },
  })
  app.reload()
}

/** Makes a key and shows it until it is stored. `replaces` is the key that it is to take the place of. */
export async function makeKey(app, client, { description, replaces } = {}) {
  const made = await app.api.post('/api-keys', {
    body: { client, ...(description && { description }) },
  })
  const account = `${made.nickname ?? ''} (${made.mp_user_id})`.trim()
  keep(app, { kind: 'key', client, id: made.id, value: made.key, account, replaces })
  app.reload()
}

/** Ends an invitation that nobody has used; with it what was kept of it. */
export function askRevokeInvitation(app, { id, client }) {
  ask({
    title: t('invite.revokeTitle'),
    content: () => [
      facts([[t('order.client'), name(client)]]),
      html`<p>${t('invite.revokeText')}</p>`,
    ],
    confirm: t('revoke.confirm'),
    danger: true,
    async run() {
      await app.api.delete(`/admin/invitations/${id}`)
      const link = keptBy(app).find((one) => one.kind === 'link' && one.id === id)
      if (link) letGo(app, link)
      toast(t('invite.revoked'))
      app.reload()
    },
  })
}

export function askKey(app, client) {
  ask({
    title: t('key.title'),
    content: (form, dialog) => [
      facts([[t('order.client'), name(client)]]),
      field(
        t('key.description'),
        html`<input name="description" maxlength="200" autocomplete="off" autofocus ?disabled=${dialog.busy}
          @input=${(event) => {
            form.description = event.target.value
          }}>`,
        t('key.descriptionHint'),
      ),
      html`<p class="soft">${t('key.overlap')}</p>`,
    ],
    confirm: t('key.confirm'),
    run: ({ description }) => makeKey(app, client, { description: description?.trim() }),
  })
}

/** Changes a key without a cut: the new one first, and the old one ended once the ERP uses the new one. */
export function askExchange(app, old) {
  ask({
    title: t('exchange.title'),
    content: () => [aboutKey(old), html`<p>${t('exchange.text')}</p>`],
    confirm: t('exchange.confirm'),
    run: () =>
      makeKey(app, old.client, { description: old.description ?? undefined, replaces: old }),
  })
}

export function askRevoke(app, { client, active_keys: keys }) {
  ask({
    title: t('revoke.title'),
    content: () => [
      facts([[t('order.client'), name(client)]]),
      note('warn', html`<p>${count('revoke.text', keys)}</p>`),
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
export function askRevokeOne(app, key, onDone) {
  ask({
    title: t('revokeOne.title'),
    content: () => [aboutKey(key), note('warn', html`<p>${t('revokeOne.text')}</p>`)],
    confirm: t('revoke.confirm'),
    danger: true,
    async run() {
      await app.api.post('/api-keys/revoke', { body: { key_id: key.id } })
      toast(t('revokeOne.done', { key: key.key }))
      onDone?.()
      app.reload()
    },
  })
}

function aboutKey({ key, client, description }) {
  return facts([
    [t('order.client'), name(client)],
    [t('keys.key'), code(key)],
    [t('keys.description'), description ? name(description) : undefined],
  ])
}

/** Keys and links that were made and are not stored yet, and exchanges of keys that wait for their second half. */
export function keptPanels(app, keys) {
  const panel = (secret) => (secret.isStored ? exchangePanel : secretPanel)(app, secret, keys)
  return html`<div class="contents" role="status">${repeat(keptBy(app), ({ value }) => value, panel)}</div>`
}

function secretPanel(app, secret) {
  const { kind, client, value, until, account, replaces } = secret
  const store = () => {
    if (!replaces) return letGo(app, secret)
    // The value is not needed for the second half.
    secret.isStored = true
    app.redraw()
  }
  return html`<section class="panel kept">
    <h2>${t(`${kind}.made`)}</h2>
    <p>${t(`${kind}.madeText`)}</p>
    ${facts([
      [t('order.client'), name(client)],
      [t('key.account'), account && name(account)],
      [t('invite.validUntil'), until && fullTime(until)],
    ])}
    ${field(
      t(`${kind}.value`),
      html`<input class="secret" readonly .value=${value} @focus=${(event) => event.target.select()}>`,
    )}
    <div class="buttons">
      ${copyButton(value)}
      <button type="button" class="button main" @click=${store}>${t('dialog.stored')}</button>
    </div>
  </section>`
}

function exchangePanel(app, secret, keys) {
  const { id, client, replaces } = secret
  const used = keys.find((key) => key.id === id)?.last_used_at
  const old = keys.find((key) => key.id === replaces.id) ?? replaces
  const end = () => askRevokeOne(app, old, () => letGo(app, secret))
  return html`<section class="panel kept">
    <h2>${t('exchange.second', { client })}</h2>
    <p>${used ? html`${t('exchange.used')} ${relative(used)}` : t('exchange.unused')}</p>
    <p class="soft">${t('exchange.old', { key: old.key })} ${old.last_used_at ? relative(old.last_used_at) : t('keys.never')}</p>
    <div class="buttons">
      <button type="button" class="button ${used ? 'main' : ''}" @click=${end}>${t('exchange.end')}</button>
      <button type="button" class="button" @click=${() => letGo(app, secret)}>${t('exchange.later')}</button>
    </div>
    ${used ? nothing : html`<p class="soft small">${t('exchange.wait')}</p>`}
  </section>`
}
