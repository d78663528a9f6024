import { ask } from '../shared/dialog.js'
import { errorSentence } from '../shared/errors.js'
import { duration, name, relativeText } from '../shared/format.js'
import { count, t } from '../shared/i18n.js'
import { html, nothing } from '../shared/lit.js'
import { toast } from '../shared/notices.js'
import { facts, field, note } from '../shared/parts.js'
import { keep } from './kept.js'
import './events-page-texts.js'

const pathOf = ({ id }, what = '') => `/events/endpoints/${id}${what}`

/** Sends a change of an endpoint. The administrator names its client. */
const send = (app, path, body = {}) => app.api.post(path, { query: app.clientQuery(), body })

/** What an endpoint is, above what is done with it. */
const about = ({ url }) => facts([[t('events.address'), name(url)]])

/** Makes an endpoint and shows its secret until it is stored. */
export function askNewEndpoint(app) {
  ask({
    title: t('events.createTitle'),
    content: (form, dialog) => [
      html`<p>${t('events.createText')}</p>`,
      contentFields(form, dialog),
    ],
    confirm: t('events.create'),
    async run(form) {
      const made = await send(app, '/events/endpoints', contentOf(form))
      keepSecret(app, made)
    },
  })
}

export function askChange(app, endpoint) {
  const { url, types, caja_id: box, sucursal_id: store } = endpoint
  const before = { url, types: types?.join(', ') ?? '', box: box ?? '', store: store ?? '' }
  ask({
    title: t('events.changeTitle'),
    content(form, dialog) {
      for (const [key, value] of Object.entries(before)) form[key] ??= value
      return [html`<p>${t('events.changeText')}</p>`, contentFields(form, dialog)]
    },
    confirm: t('events.save'),
    async run(form) {
      await app.api.patch(pathOf(endpoint), { query: app.clientQuery(), body: contentOf(form) })
      app.reload()
    },
  })
}

function contentFields(form, { busy }) {
  const input = (key, type, hint) =>
    field(
      t(`events.${key}`),
      html`<input name=${key} type=${type} maxlength="2000" autocomplete="off" ?required=${key === 'url'}
        ?disabled=${busy} .value=${form[key] ?? ''} @input=${({ target }) => {
          form[key] = target.value
        }}>`,
      t(hint),
    )
  return [
    input('url', 'url', 'events.urlHint'),
    input('types', 'text', 'events.typesHint'),
    input('box', 'text', 'events.idHint'),
    input('store', 'text', 'events.idHint'),
  ]
}

function contentOf({ url = '', types = '', box = '', store = '' }) {
  const named = types.split(/[\s,]+/).filter((type) => type !== '')
  return {
    url: url.trim(),
    types: named.length > 0 ? named : null,
    caja_id: box.trim() || null,
    sucursal_id: store.trim() || null,
  }
}

function keepSecret(app, { id, client, secret }) {
  keep(app, { kind: 'endpointSecret', client, id, value: secret })
  app.reload()
}

export function askResume(app, endpoint) {
  const { waiting, oldest_at: oldest } = endpoint
  ask({
    title: t('events.resumeTitle'),
    content: () => [
      about(endpoint),
      html`<p>${
        waiting === 0
          ? t('events.resumeNone')
          : [
              count('events.resumeText', waiting),
              ' ',
              t('events.oldest', { time: relativeText(oldest) }),
            ]
      }</p>`,
    ],
    confirm: t('events.resume'),
    async run() {
      await send(app, pathOf(endpoint, '/resume'))
      toast(t('events.resumed'))
      app.reload()
    },
  })
}

export function askStop(app, endpoint) {
  ask({
    title: t('events.stopTitle'),
    content: () => [about(endpoint), html`<p>${t('events.stopText')}</p>`],
    confirm: t('events.stop'),
    danger: true,
    async run() {
      await send(app, pathOf(endpoint, '/stop'))
      toast(t('events.wasStopped'))
      app.reload()
    },
  })
}

export function askSkip(app, endpoint) {
  ask({
    title: t('events.skipTitle'),
    content: () => [
      about(endpoint),
      note('warn', html`<p>${count('events.skipText', endpoint.waiting)}</p>`),
    ],
    confirm: t('events.skip'),
    danger: true,
    async run() {
      await send(app, pathOf(endpoint, '/skip'))
      toast(t('events.skipped'))
      app.reload()
    },
  })
}

export function askPing(app, endpoint) {
  ask({
    title: t('events.pingTitle'),
    content: () => html`<p>${t('events.pingText', { host: new URL(endpoint.url).host })}</p>`,
    confirm: t('events.ping'),
    async run() {
      const { status, failure, duration_ms: ms } = await send(app, pathOf(endpoint, '/ping'))
      toast(
        status === null
          ? t('events.pingFailed', { reason: t(`events.failure.${failure}`) })
          : t('events.pinged', { status, took: duration(ms) }),
      )
      app.reload()
    },
  })
}

/** What failed is sent at once; events of a time are counted before they are sent. */
export function askReplay(app, endpoint) {
  const path = pathOf(endpoint, '/replay')
  ask({
    title: t('events.replayTitle'),
    content: (form, dialog) => [
      about(endpoint),
      endpoint.failed > 0 ? failedField(form, dialog) : nothing,
      form.failed
        ? html`<p>${count('events.replayFailed', endpoint.failed)}</p>`
        : spanFields(form, dialog, () => countSpan(app, path, form, dialog)),
    ],
    confirm: t('events.replay'),
    check: ({ failed, counted }) =>
      failed || counted !== undefined ? undefined : t('events.replayCountFirst'),
    async run(form) {
      const body = form.failed ? { failed: true } : spanOf(form)
      const { events } = await send(app, path, body)
      toast(count('events.replayed', events))
      app.reload()
    },
  })
}

function spanOf({ from, to }) {
  return {
    from: new Date(from).toISOString(),
    ...(to && { to: new Date(to).toISOString() }),
  }
}

async function countSpan(app, path, form, dialog) {
  form.problem = undefined
  dialog.busy = true
  dialog.redraw()
  try {
    form.counted = (await send(app, path, { ...spanOf(form), dry_run: true })).events
  } catch (error) {
    form.problem = errorSentence(error)
  }
  dialog.busy = false
  dialog.redraw()
}

function failedField(form, dialog) {
  const change = ({ target }) => {
    form.failed = target.checked
    dialog.redraw()
  }
  return html`<label class="choice"><input type="checkbox" name="failed" ?disabled=${dialog.busy}
    .checked=${form.failed ?? false} @change=${change}> ${t('events.replayFailedNow')}</label>`
}

function spanFields(form, dialog, onCount) {
  const input = (key, label, hint) =>
    field(
      t(label),
      html`<input type="datetime-local" name=${key} ?disabled=${dialog.busy} .value=${form[key] ?? ''}
        @input=${({ target }) => {
          form[key] = target.value
          // Another time has another number.
          form.counted = undefined
          dialog.redraw()
        }}>`,
      hint && t(hint),
    )
  return [
    input('from', 'events.replayFrom'),
    input('to', 'events.replayTo', 'events.replayToHint'),
    html`<button type="button" class="button small" ?disabled=${dialog.busy || !form.from} @click=${onCount}>${t('events.replayCount')}</button>`,
    html`<p role="status" class="strong">${
      form.problem ??
      (form.counted === undefined ? '' : count('events.replayCounted', form.counted))
    }</p>`,
  ]
}

export function askReplayOne(app, endpoint, event) {
  ask({
    title: t('events.replayOneTitle'),
    content: () => [
      facts([
        [t('events.event'), name(event.type)],
        [t('events.address'), name(endpoint.url)],
      ]),
      html`<p>${t('events.replayOneText')}</p>`,
    ],
    confirm: t('events.replay'),
    async run() {
      const { events } = await send(app, pathOf(endpoint, '/replay'), { event_id: event.id })
      toast(count('events.replayed', events))
      app.reload()
    },
  })
}

const overlaps = [0, 3_600, 86_400, 604_800]

export function askRotate(app, endpoint) {
  ask({
    title: t('events.rotateTitle'),
    content(form, dialog) {
      form.overlap ??= 86_400
      const option = (seconds) =>
        html`<option value=${seconds} ?selected=${seconds === form.overlap}>${t(`events.overlap.${seconds}`)}</option>`
      return [
        about(endpoint),
        html`<p>${t('events.rotateText')}</p>`,
        field(
          t('events.overlap'),
          html`<select name="overlap" ?disabled=${dialog.busy} @change=${({ target }) => {
            form.overlap = Number(target.value)
          }}>${overlaps.map(option)}</select>`,
        ),
      ]
    },
    confirm: t('events.rotate'),
    async run({ overlap }) {
      const made = await send(app, pathOf(endpoint, '/rotate'), { overlap_seconds: overlap })
      keepSecret(app, made)
    },
  })
}

export function askDelete(app, endpoint) {
  const { waiting } = endpoint
  ask({
    title: t('events.deleteTitle'),
    content: () => [
      about(endpoint),
      note(
        'warn',
        html`<p>${waiting === 0 ? t('events.deleteNone') : count('events.deleteText', waiting)}</p>`,
      ),
    ],
    confirm: t('events.delete'),
    danger: true,
    async run() {
      await app.api.delete(pathOf(endpoint), { query: app.clientQuery() })
      toast(t('events.deleted'))
      location.hash = app.link('events')
      app.reload()
    },
  })
}
