import { ConnectionError } from '../shared/api.js'
import { ask, openDialog } from '../shared/dialog.js'
import { h } from '../shared/dom.js'
import { errorLines, errorSentence } from '../shared/errors.js'
import { name, number } from '../shared/format.js'
import { count, t } from '../shared/i18n.js'
import { announce } from '../shared/notices.js'
import { badge, facts, field, note } from '../shared/parts.js'

/** A poll is answered when it is over, and a big source takes its time. */
const pollTimeoutMs = 15 * 60_000

export function isBusy(app, flow, action) {
  return app.busy.has(`${flow.name} ${action}`)
}

/** The path of a flow's own switch, such as `/flow/<name>/pause`. */
function flowPath(flow, rest) {
  return `/flow/${encodeURIComponent(flow.name)}/${rest}`
}

/** Does something to a flow and leaves word of it on the flow's card. `run` answers `{ tone, text }`. */
export async function perform(app, flow, action, run) {
  const key = `${flow.name} ${action}`
  if (app.busy.has(key)) return
  app.busy.add(key)
  app.results.delete(flow.name)
  app.redraw()
  let result
  try {
    result = await run()
  } catch (error) {
    const text = error instanceof ConnectionError ? t('do.noAnswer') : errorSentence(error)
    result = { tone: 'bad', text: `${t(`do.${action}`)}: ${text}` }
  }
  app.busy.delete(key)
  app.results.set(flow.name, result)
  announce(result.text)
  app.redraw()
  app.reload()
}

/** Polls now. A paused flow is asked about first: it was paused for some reason. */
export function sync(app, flow) {
  if (!flow.status.paused) return void poll(app, flow, 'sync', false)
  ask({
    title: t('sync.pausedTitle'),
    content: () => [
      facts([[t('flow.one'), name(flow.name)]]),
      pauseFacts(flow),
      h('p', null, t('sync.pausedText')),
    ],
    confirm: t('sync.force'),
    async run() {
      void poll(app, flow, 'sync', true)
    },
  })
}

/** Polls, or resyncs, and leaves word of the changes on the card. */
export async function poll(app, flow, action, force) {
  await perform(app, flow, action, async () => {
    const answer = await app.api.post(`/${action}/${encodeURIComponent(flow.name)}`, {
      query: force ? { force: 'true' } : {},
      timeoutMs: pollTimeoutMs,
    })
    if (answer.skipped === 'paused') return { tone: 'warn', text: t(`${action}.skipped`) }
    return {
      tone: 'good',
      text: answer.changes === 0 ? t('sync.none') : count('sync.done', answer.changes),
    }
  })
}

/** Who paused the flow and why, for questions that go against it. */
function pauseFacts({ status }) {
  if (!status.reason) return null
  return note('warn', h('p', { class: 'clip' }, name(status.reason)))
}

export function askPause(app, flow) {
  ask({
    title: t('pause.title'),
    content: (form, dialog) => [
      facts([[t('flow.one'), name(flow.name)]]),
      reasonField(form, dialog),
      h('p', { class: 'soft small' }, t('pause.text')),
    ],
    confirm: t('do.pause'),
    async run(form) {
      await app.api.post(flowPath(flow, 'pause'), { body: reasonBody(form) })
      app.results.delete(flow.name)
      announce(t('pause.done', { flow: flow.name }))
      app.reload()
    },
  })
}

export function reasonField(form, dialog) {
  return field(
    t('pause.reason'),
    h('input', {
      name: 'reason',
      maxlength: 500,
      autocomplete: 'off',
      autofocus: true,
      disabled: dialog.busy,
      oninput: (event) => {
        form.reason = event.target.value
      },
    }),
    t('pause.reasonHint'),
  )
}

export function reasonBody(form) {
  const reason = form.reason?.trim()
  return reason ? { reason } : {}
}

export function resume(app, flow) {
  return perform(app, flow, 'resume', async () => {
    await app.api.post(flowPath(flow, 'resume'))
    return { tone: 'good', text: t('resume.done') }
  })
}

const limitShape = /^[1-9]\d{0,5}$|^1000000$/

export function askLimit(app, flow) {
  ask({
    title: t('limit.title'),
    content: (form, dialog) => [
      facts([[t('flow.one'), name(flow.name)]]),
      field(
        t('limit.count'),
        h('input', {
          name: 'count',
          inputmode: 'numeric',
          maxlength: 7,
          required: true,
          autocomplete: 'off',
          autofocus: true,
          disabled: dialog.busy,
          oninput: (event) => {
            form.count = event.target.value.trim()
          },
        }),
        t('limit.hint'),
      ),
      flow.status.paused && note('warn', h('p', null, t('limit.paused'))),
    ],
    confirm: t('limit.confirm'),
    check: (form) => (limitShape.test(form.count ?? '') ? undefined : t('limit.wrong')),
    async run(form) {
      await app.api.post(flowPath(flow, `limit/${form.count}`))
      app.results.delete(flow.name)
      announce(t('limit.done', { flow: flow.name, count: form.count }))
      app.reload()
    },
  })
}

export function removeLimit(app, flow) {
  return perform(app, flow, 'unlimit', async () => {
    const { status } = await app.api.delete(flowPath(flow, 'limit'))
    return { tone: 'good', text: t(`unlimit.${status}`) }
  })
}

/** What sending everything again means: how much, and to whom. */
function everythingAgain(flow) {
  return [
    facts([
      [t('flow.one'), name(flow.name)],
      [t('flow.items'), number(flow.items)],
    ]),
    note(
      'warn',
      h('p', { class: 'strong' }, count('again.items', flow.items)),
      h(
        'ul',
        null,
        flow.destinations.map(({ name: target, type }) =>
          h('li', { key: target }, name(target), ' ', h('span', { class: 'small' }, type)),
        ),
      ),
    ),
    h('p', { class: 'soft small' }, t('again.text')),
  ]
}

export function askReset(app, flow) {
  ask({
    title: t('reset.title'),
    content: () => [
      everythingAgain(flow),
      h('p', null, t(flow.status.paused ? 'reset.paused' : 'reset.text')),
    ],
    confirm: t('do.reset'),
    danger: true,
    async run() {
      await app.api.delete(`/reset/${encodeURIComponent(flow.name)}`)
      app.results.set(flow.name, { tone: 'good', text: t('reset.done') })
      announce(t('reset.done'))
      app.reload()
    },
  })
}

export function askResync(app, flow) {
  ask({
    title: t('resync.title'),
    content: (form, dialog) => [
      everythingAgain(flow),
      flow.status.paused && [
        pauseFacts(flow),
        h(
          'label',
          { class: 'choice' },
          h('input', {
            type: 'checkbox',
            name: 'force',
            disabled: dialog.busy,
            onchange: (event) => {
              form.force = event.target.checked
            },
          }),
          t('resync.force'),
        ),
        h('p', { class: 'soft small' }, t('resync.paused')),
      ],
    ],
    confirm: t('do.resync'),
    danger: true,
    async run(form) {
      void poll(app, flow, 'resync', form.force === true)
    },
  })
}

/** Sends a test message to every channel and shows what became of each. */
export function testAlerts(app, flow) {
  let answer
  let failure
  const dialog = openDialog((self) => [
    h('h2', { id: 'dialog-title' }, t('alerts.title')),
    facts([[t('flow.one'), name(flow.name)]]),
    h(
      'div',
      { key: 'answer', role: 'status' },
      failure
        ? h('div', { class: 'note bad' }, errorLines(failure))
        : answer
          ? h('ul', { class: 'plain-list channels' }, answer.results.map(channel))
          : h('p', null, t('alerts.busy')),
    ),
    h(
      'div',
      { key: 'buttons', class: 'buttons' },
      h(
        'button',
        { type: 'button', class: 'button main', autofocus: true, onclick: () => self.close() },
        t('dialog.close'),
      ),
    ),
  ])
  const run = async () => {
    try {
      answer = await app.api.post(flowPath(flow, 'test-alerts'))
    } catch (error) {
      failure = error
    }
    dialog.redraw()
  }
  void run()
}

function channel({ type, target, ok, error }) {
  return h(
    'li',
    null,
    badge(ok ? 'good' : 'bad', t(ok ? 'alerts.ok' : 'alerts.failed')),
    ' ',
    h('span', { class: 'strong' }, type),
    ' ',
    name(target),
    error && h('p', { class: 'small clip' }, name(error)),
  )
}
