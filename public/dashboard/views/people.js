import { copyButton } from '../../shared/copy.js'
import { ask, openDialog } from '../../shared/dialog.js'
import { fullTime, name, relative, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { toast } from '../../shared/notices.js'
import { badge, empty, field, note, pageOfRows, table } from '../../shared/parts.js'
import { readStores, storePicker } from '../store-picker.js'
import '../people-page-texts.js'

const tones = { active: 'good', invited: 'info', expired: 'warn', revoked: 'quiet' }
const rolesOfClient = ['supervisor', 'viewer', 'administrator']
const rolesOfService = ['administrator', 'flow_operator', 'viewer']

/** For administrators: who may sign in, as what, and what to do about it. */
export function createPeople(app) {
  let shown
  /** Names of the stores of the client that is shown, by id. */
  let stores = { of: undefined, names: new Map() }

  return {
    title: () => t('nav.people'),
    actions: () =>
      html`<button type="button" class="button main" @click=${() => invite(app)}>${t('people.invite')}</button>`,
    async load(signal) {
      const { client } = app
      const answer = await app.api.get('/people', { client }, signal)
      const isDue = client !== undefined && stores.of !== client
      if (isDue && answer.people.some((one) => one.stores)) {
        const list = await readStores(app, client)
        stores = { of: client, names: new Map(list.map((one) => [one.id, one.name])) }
      }
      shown = answer
    },
    body() {
      if (!shown) return app.placeholder()
      if (shown.people.length === 0) return empty(t('people.none'), t('people.noneHint'))
      const { rows, links } = pageOfRows(
        app.query,
        shown.people,
        (to) => app.link('people', undefined, { ...app.query, ...to }),
        { onPhone: 6 },
      )
      const list = table({
        label: t('nav.people'),
        columns: columns(app, stores.of === app.client ? stores.names : new Map()),
        rows,
        keyOf: ({ id }) => id,
      })
      return [list, links]
    },
  }
}

function columns(app, storeNames) {
  return [
    {
      id: 'name',
      title: t('people.name'),
      cell: (one) => html`<span class="strong">${name(one.name)}</span>`,
    },
    { id: 'role', title: t('people.role'), cell: ({ role }) => word('role', role) },
    {
      id: 'of',
      title: t('people.of'),
      cell: ({ client, stores }) => [
        client === null ? t('people.service') : name(client),
        stores
          ? html`<p class="soft small">${stores.map((id) => storeNames.get(id) ?? id).join(', ')}</p>`
          : '',
      ],
    },
    {
      id: 'state',
      title: t('people.state'),
      cell: ({ state, totp }) => [
        badge(tones[state], word('personState', state)),
        totp ? [' ', badge('quiet', t('people.withCode'))] : '',
      ],
    },
    {
      id: 'seen',
      title: t('people.seen'),
      cell: ({ signed_in_at: at }) => (at ? relative(at) : '—'),
    },
    {
      id: 'actions',
      title: t('actions'),
      cell: (one) => (one.state === 'revoked' ? '' : actionsOf(app, one)),
    },
  ]
}

function actionsOf(app, one) {
  const button = (key, act) =>
    html`<button type="button" class="button small" @click=${act}>${t(`people.${key}`)}</button> `
  return [
    button('change', () => change(app, one)),
    button('sessions', () => void showSessions(app, one)),
    button('reset', () => confirmed(app, one, 'reset')),
    button('revoke', () => confirmed(app, one, 'revoke')),
  ]
}

function roleFields(app, form, dialog, { client, isFixed }) {
  const roles = client === null ? rolesOfService : rolesOfClient
  if (!roles.includes(form.role)) form.role = roles[0]
  const option = (role) =>
    html`<option value=${role} .selected=${role === form.role}>${word('role', role)}</option>`
  return [
    isFixed
      ? ''
      : field(
          t('people.name'),
          html`<input name="name" required minlength="3" maxlength="100" autocomplete="off" @input=${(
            event,
          ) => {
            form.name = event.target.value
          }}>`,
          t('people.nameHint'),
        ),
    field(
      t('people.role'),
      html`<select name="role" @change=${(event) => {
        form.role = event.target.value
        dialog.redraw()
      }}>${roles.map(option)}</select>`,
      t(
        client === null && form.role === 'viewer'
          ? 'roleHint.viewerOfFlows'
          : `roleHint.${form.role}`,
      ),
    ),
    form.role === 'supervisor' ? storePicker(app, client, form, dialog) : '',
  ]
}

const storesOf = ({ role, stores }) => (role === 'supervisor' ? stores : null)

const noStore = (form) => (storesOf(form)?.length === 0 ? t('people.storesMissing') : undefined)

function invite(app) {
  const client = app.client ?? null
  ask({
    title: t('people.inviteTitle'),
    content: (form, dialog) => [
      html`<p>${client === null ? t('people.inviteService') : t('people.inviteClient', { client })}</p>`,
      ...roleFields(app, form, dialog, { client, isFixed: false }),
    ],
    confirm: t('people.invite'),
    check: noStore,
    async run(form) {
      const body = {
        name: (form.name ?? '').trim(),
        role: form.role,
        client,
        stores: storesOf(form),
      }
      showInvitation(await app.api.post('/people', { body }))
      app.reload()
    },
  })
}

function change(app, one) {
  ask({
    title: t('people.changeTitle', { name: one.name }),
    content: (form, dialog) => {
      form.role ??= one.role
      form.stores ??= [...(one.stores ?? [])]
      return roleFields(app, form, dialog, { client: one.client, isFixed: true })
    },
    confirm: t('people.change'),
    check: noStore,
    async run(form) {
      const body = { role: form.role, stores: storesOf(form) }
      await app.api.patch(`/people/${one.id}`, { body })
      toast(t('people.changed', { name: one.name }))
      app.reload()
    },
  })
}

function confirmed(app, one, act) {
  ask({
    title: t(`people.${act}Title`, { name: one.name }),
    content: () => html`<p>${t(`people.${act}Text`)}</p>`,
    confirm: t(`people.${act}`),
    danger: true,
    async run() {
      const answer = await app.api.post(`/people/${one.id}/${act}`, {})
      if (answer.invitation) showInvitation(answer)
      else toast(t('people.revoked', { name: one.name }))
      app.reload()
    },
  })
}

/** The link is shown once: only its hash is stored. */
function showInvitation({ person, invitation }) {
  openDialog((dialog) => [
    html`<h2 id="dialog-title">${t('people.linkTitle', { name: person.name })}</h2>
      <p>${t('people.linkText', { until: fullTime(invitation.expires_at) })}</p>
      <p class="wrap"><code>${invitation.link}</code></p>`,
    note('warn', html`<p>${t('people.linkOnce')}</p>`),
    html`<div class="buttons">
      ${copyButton(invitation.link)}
      <button type="button" class="button main" autofocus @click=${() => dialog.close()}>${t('people.linkDone')}</button>
    </div>`,
  ])
}

async function showSessions(app, one) {
  const { sessions } = await app.api.get(`/people/${one.id}/sessions`, {})
  ask({
    title: t('people.sessionsTitle', { name: one.name }),
    content: () =>
      sessions.length === 0
        ? html`<p>${t('people.noSessions')}</p>`
        : html`<ul>${sessions.map(
            (session) =>
              html`<li>${time(session.created_at)} · ${session.ip_address ?? ''} <span class="soft small">${session.user_agent ?? ''}</span></li>`,
          )}</ul>`,
    confirm: t('people.endSessions'),
    danger: true,
    async run() {
      await app.api.delete(`/people/${one.id}/sessions`, {})
      toast(t('people.sessionsEnded', { name: one.name }))
    },
  })
}
