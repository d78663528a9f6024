import { ask } from '../../shared/dialog.js'
import { relative, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { toast } from '../../shared/notices.js'
import { badge, facts, field, note, table } from '../../shared/parts.js'
import '../people-page-texts.js'

/** What a signed-in person changes of his own: password, codes of an authenticator app, sessions. */
export function createAccount(app) {
  let shown
  return {
    title: () => t('nav.account'),
    async load(signal) {
      shown = await app.api.get('/account', {}, signal)
    },
    body() {
      if (!shown) return app.placeholder()
      const { person, sessions } = shown
      return html`${flowsNote(app)}<section class="panel">
          ${facts([
            [t('people.name'), person.name],
            [t('people.role'), word('role', person.role)],
            [t('order.client'), person.client],
            [t('people.stores'), person.stores?.join(', ')],
          ])}
          <p><button type="button" class="button" @click=${() => askPassword(app)}>${t('account.changePassword')}</button></p>
        </section>
        <section class="panel">
          <h2>${t('account.codes')}</h2>
          <p>${t(person.totp ? 'account.codesOn' : 'account.codesOff')}</p>
          <p>${
            person.totp
              ? html`<button type="button" class="button" @click=${() => askRemoval(app)}>${t('account.removeCodes')}</button>`
              : html`<button type="button" class="button main" @click=${() => void setUpCodes(app)}>${t('account.setUpCodes')}</button>`
          }</p>
        </section>
        <section>
          <h2>${t('account.sessions')}</h2>
          ${table({
            label: t('account.sessions'),
            columns: columns(app),
            rows: sessions,
            keyOf: ({ id }) => id,
          })}
        </section>`
    },
  }
}

/** A role of the flow pages has nothing else here. */
function flowsNote(app) {
  const page = app.health?.flows_page
  if (!page || app.may('see')) return ''
  return note(
    'info',
    html`<p>${t('account.flowsOnly')} <a href=${page}>${t('account.toFlows')}</a></p>`,
  )
}

function columns(app) {
  const end = (session) => async () => {
    await app.api.delete(`/account/sessions/${session.id}`, {})
    app.reload()
  }
  return [
    { id: 'since', title: t('account.since'), cell: ({ created_at: at }) => time(at) },
    { id: 'used', title: t('account.used'), cell: ({ used_at: at }) => relative(at) },
    { id: 'from', title: t('account.from'), cell: ({ ip_address: ip }) => ip ?? '—' },
    {
      id: 'actions',
      title: t('actions'),
      cell: (session) =>
        session.is_current
          ? badge('good', t('account.thisOne'))
          : html`<button type="button" class="button small" @click=${() => void end(session)()}>${t('signOut')}</button>`,
    },
  ]
}

const secret = (label, key, form, complete) =>
  field(
    label,
    html`<input name=${key} type="password" required maxlength="200" autocomplete=${complete} @input=${(
      event,
    ) => {
      form[key] = event.target.value
    }}>`,
  )

function askPassword(app) {
  ask({
    title: t('account.changePassword'),
    content: (form) => [
      secret(t('account.password'), 'current', form, 'current-password'),
      secret(t('account.newPassword'), 'password', form, 'new-password'),
      html`<p class="soft small">${t('account.passwordHint')}</p>`,
    ],
    confirm: t('account.changePassword'),
    check: (form) => ((form.password ?? '').length < 12 ? t('account.passwordHint') : undefined),
    async run(form) {
      const body = { current: form.current ?? '', password: form.password }
      await app.api.post('/account/password', { body })
      toast(t('account.passwordChanged'))
      app.reload()
    },
  })
}

async function setUpCodes(app) {
  const { secret: text, qr } = await app.api.post('/account/totp', {})
  ask({
    title: t('account.setUpCodes'),
    content: (form) => [
      html`<p>${t('account.scan')}</p>
        <svg class="qr" viewBox="-2 -2 ${qr.size + 4} ${qr.size + 4}" role="img" aria-label=${t('account.qr')}>
          <rect x="-2" y="-2" width=${qr.size + 4} height=${qr.size + 4} fill="white"></rect>
          <path d=${qr.path} fill="black"></path>
        </svg>
        <p class="wrap small">${t('account.typeSecret')} <code>${text}</code></p>`,
      field(
        t('signIn.code'),
        html`<input name="code" required inputmode="numeric" maxlength="7" autocomplete="one-time-code" @input=${(
          event,
        ) => {
          form.code = event.target.value
        }}>`,
      ),
    ],
    confirm: t('account.confirmCode'),
    async run(form) {
      await app.api.post('/account/totp/confirm', { body: { code: (form.code ?? '').trim() } })
      toast(t('account.codesOn'))
      app.reload()
    },
  })
}

function askRemoval(app) {
  ask({
    title: t('account.removeCodes'),
    content: (form) => secret(t('account.password'), 'password', form, 'current-password'),
    confirm: t('account.removeCodes'),
    danger: true,
    async run(form) {
      await app.api.post('/account/totp/remove', { body: { password: form.password ?? '' } })
      app.reload()
    },
  })
}
