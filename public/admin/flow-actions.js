import { ConnectionError } from '../shared/api.js'
import { ask, openDialog } from '../shared/dialog.js'
import { errorLines, errorSentence } from '../shared/errors.js'
import { name, number } from '../shared/format.js'
import { count, t } from '../shared/i18n.js'
import { html } from '../shared/lit.js'
import { announce } from '../shared/notices.js'
import { badge, facts, field, note } from '../shared/parts.js'
import { reasonText } from './reason.js'

/** A poll is answered when it is over, and a big source takes its time. */
const pollTimeoutMs = 15 * 60_000

export function isBusy(app, flow, action) {
  return app.busy.has(`${flow.name} ${action}`)
}

/** The path of a flow's own switch, such as `/flow/<name>/pause`. */
export function flowPath(flow, rest) {
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
    result = { tone: 'bad', text: `${t(`do.${action.split(' ')[0]}`)}: ${text}` }
  }
  app.busy.delete(key)
  app.results.set(flow.name, result)
  announce(result.text)
  app.redraw()
  app.reload()
}

const flowFact = (flow) => facts([[t('flow.one'), name(flow.name)]])

/** Polls now. A paused flow is asked about first: it was paused for some reason. */
export function sync(app, flow) {
  if (!flow.status.paused) return void poll(app, flow, 'sync', { force: false })
  ask({
    title: t('sync.pausedTitle'),
    content: () => html`${flowFact(flow)} ${pauseFacts(flow)}<p>${t('sync.pausedText')}</p>`,
    confirm: t('sync.force'),
    async run() {
      void poll(app, flow, 'sync', { force: true })
    },
  })
}

/** Polls, or resyncs, all destinations or one, and leaves word of the changes on the card. */
export async function poll(app, flow, action, { force, destination }) {
  await perform(app, flow, action, async () => {
    const answer = await app.api.post(`/${action}/${encodeURIComponent(flow.name)}`, {
      query: { force: force ? 'true' : undefined, destination },
      timeoutMs: pollTimeoutMs,
    })
    if (answer.reason) return { tone: 'warn', text: reasonText(answer.why, answer.reason) }
    if (answer.skipped === 'paused') return { tone: 'warn', text: t(`${action}.skipped`) }
    if (answer.skipped === 'polling') return { tone: 'warn', text: t('sync.follows') }
    if (answer.deliveries !== undefined)
      return { tone: 'good', text: count('resync.queued', answer.deliveries) }
    return {
      tone: 'good',
      text: answer.changes === 0 ? t('sync.none') : count('sync.done', answer.changes),
    }
  })
}

/** Who paused the flow and why, for questions that go against it. */
function pauseFacts({ status }) {
  return status.reason
    ? note('warn', html`<p class="clip">${name(reasonText(status.why, status.reason))}</p>`)
    : null
}

export function askPause(app, flow) {
  ask({
    title: t('pause.title'),
    content: (form, dialog) =>
      html`${flowFact(flow)} ${pauseChoice(form, dialog)} ${reasonField(form, dialog)}`,
    confirm: t('do.pause'),
    async run(form) {
      await app.api.post(flowPath(flow, 'pause'), { body: reasonBody(form) })
      if (form.stops) {
        await app.api.post('/sending/stop', { body: { flow: flow.name, ...reasonBody(form) } })
      }
      tell(app, flow, t(form.stops ? 'pause.everythingDone' : 'pause.done', { flow: flow.name }))
    },
  })
}

/** Whether only reading stops, or sending too, and what goes on either way. */
export function pauseChoice(form, dialog) {
  const one = (key, stops) =>
    html`<label class="choice">
      <input type="radio" name="what" ?disabled=${dialog.busy} .checked=${(form.stops ?? false) === stops}
        @change=${() => {
          form.stops = stops
        }} />
      <span><span class="strong">${t(`pause.${key}`)}</span>
        <span class="soft small">${t(`pause.${key}Text`)}</span></span>
    </label>`
  return html`<fieldset>
    <legend>${t('pause.what')}</legend>
    ${one('reading', false)} ${one('everything', true)}
  </fieldset>`
}

/** Says what was done to those who do not see it. */
function tell(app, flow, text) {
  app.results.delete(flow.name)
  announce(text)
  app.reload()
}

export function reasonField(form, dialog) {
  return field(
    t('pause.reason'),
    html`<input
      name="reason"
      maxlength="500"
      autocomplete="off"
      autofocus
      ?disabled=${dialog.busy}
      @input=${(event) => {
        form.reason = event.target.value
      }}
    />`,
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

/** Attempts now the pending deliveries of a destination, although sending is suspended. */
export function tryNow(app, flow, destination) {
  return perform(app, flow, `try ${destination}`, async () => {
    await app.api.post(flowPath(flow, 'try'), { body: { destination } })
    return { tone: 'good', text: t('try.done', { destination }) }
  })
}

/** Items that a question names. */
const itemsNamed = 20
const answers = ['keep', 'send', 'send_without_deletes']

/**
 * Shows what a flow asks and takes the answer. About a changed definition: what it would send, by destination and with examples. About
 * deletes: which; `chosen` are some of the missing items, `{ pk, name }`.
 */
export async function askQuestion(app, flow, chosen) {
  const path = flowPath(flow, 'question')
  const asked = await app.api.get(path, {}).catch(() => null)
  if (asked?.state !== 'asked') return app.reload()
  const isAboutDeletes = asked.about === 'deletes'
  // What the source lost is deleted or not; without anything else there is one way to do either.
  const offered = answers.filter(
    (one) => one !== 'send_without_deletes' || (asked.missing > 0 && !isAboutDeletes),
  )
  const items = chosen ?? (isAboutDeletes ? asked.missing_items : [])
  const kind = isAboutDeletes ? 'deletes' : 'answer'
  ask({
    title: t(`question.${asked.about}`),
    content: (form, dialog) =>
      html`${flowFact(flow)}
      ${isAboutDeletes ? note('warn', html`<p class="clip">${name(reasonText(asked.why, asked.reason))}</p>`) : null}
      ${items.length > 0 ? html`<ul class="clip">${items.slice(0, itemsNamed).map((item) => html`<li>${name(itemWords(item))}</li>`)}</ul>` : null}
      <ul class="targets">
        ${asked.destinations.map(
          (one) =>
            html`<li>
              <span class="strong">${name(one.name)}</span>
              ${one.is_moved ? html`<span class="small">${t('question.moved')}</span>` : null}
              ${facts(
                ['new', 'changed', 'not_mappable', 'excluded', 'unchanged'].map((kind) => [
                  t(`question.${kind}`),
                  one[kind] === 0 && kind !== 'changed' ? null : number(one[kind]),
                ]),
              )}
            </li>`,
        )}
      </ul>
      ${facts([
        [
          t('question.missing'),
          asked.missing === 0 ? null : number(chosen?.length ?? asked.missing),
        ],
        [t('question.ofSource'), asked.of_source === 0 ? null : number(asked.of_source)],
      ])}
      ${
        asked.examples.length === 0
          ? null
          : html`<details open>
              <summary>${t('question.examples')}</summary>
              <ul class="plain-list">
                ${asked.examples.map(
                  ({ destination, pk, body }) =>
                    html`<li class="small"><span class="strong">${name(pk)}</span> → ${name(destination)} <code class="clip">${body}</code></li>`,
                )}
              </ul>
            </details>`
      }
      <fieldset>
        <legend>${t('question.what')}</legend>
        ${offered.map(
          (one) => html`<label class="choice">
            <input type="radio" name="answer" ?disabled=${dialog.busy} .checked=${form.answer === one}
              @change=${() => {
                form.answer = one
              }} />
            <span><span class="strong">${t(`${kind}.${one}`)}</span>
              <span class="soft small">${t(`${kind}.${one}Text`)}</span></span>
          </label>`,
        )}
      </fieldset>`,
    confirm: t('do.answer'),
    danger: true,
    check: (form) => (form.answer ? undefined : t('question.choose')),
    async run(form) {
      const pks = chosen && { pks: chosen.map(({ pk }) => pk) }
      await app.api.post(path, { body: { number: asked.number, answer: form.answer, ...pks } })
      tell(app, flow, t('question.done', { flow: flow.name }))
    },
  })
}

/** An item as people know it. */
export const itemWords = ({ pk, name: words }) => (words === null ? pk : `${words} (${pk})`)

const limitShape = /^[1-9]\d{0,5}$|^1000000$/

export function askLimit(app, flow) {
  ask({
    title: t('limit.title'),
    content: (form, dialog) =>
      html`${flowFact(flow)}
      ${field(
        t('limit.count'),
        html`<input
          name="count"
          inputmode="numeric"
          maxlength="7"
          required
          autocomplete="off"
          autofocus
          ?disabled=${dialog.busy}
          @input=${(event) => {
            form.count = event.target.value.trim()
          }}
        />`,
        t('limit.hint'),
      )}
      ${flow.status.paused ? note('warn', html`<p>${t('limit.paused')}</p>`) : null}`,
    confirm: t('limit.confirm'),
    check: (form) => (limitShape.test(form.count ?? '') ? undefined : t('limit.wrong')),
    async run(form) {
      await app.api.post(flowPath(flow, `limit/${form.count}`))
      tell(app, flow, t('limit.done', { flow: flow.name, count: form.count }))
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
function everythingAgain(flow, destinations = flow.destinations) {
  return html`${facts([
    [t('flow.one'), name(flow.name)],
    [t('flow.items'), number(flow.items)],
  ])}
  ${note(
    'warn',
    html`<p class="strong">${count('again.items', flow.items)}</p>
      <ul>
        ${destinations.map(
          ({ name: target, type }) =>
            html`<li>${name(target)} <span class="small">${type}</span></li>`,
        )}
      </ul>`,
  )}
  <p class="soft small">
    ${t(destinations.length < flow.destinations.length ? 'again.oneText' : 'again.text')}
  </p>`
}

export function askReset(app, flow) {
  ask({
    title: t('reset.title'),
    content: () =>
      html`${everythingAgain(flow)}
        <p>${t(flow.status.paused ? 'reset.paused' : 'reset.text')}</p>`,
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

/** Sends everything again: to all destinations, or to one alone. */
export function askResync(app, flow, destination) {
  const whom = destination && flow.destinations.filter(({ name: one }) => one === destination)
  ask({
    title: t(whom ? 'resync.oneTitle' : 'resync.title'),
    content: (form, dialog) =>
      html`${everythingAgain(flow, whom)}
      ${flow.status.paused ? forceChoice(flow, form, dialog) : null}`,
    confirm: t('do.resync'),
    danger: true,
    async run(form) {
      void poll(app, flow, 'resync', { force: form.force === true, destination })
    },
  })
}

function forceChoice(flow, form, dialog) {
  return html`${pauseFacts(flow)}
    <label class="choice">
      <input
        type="checkbox"
        name="force"
        ?disabled=${dialog.busy}
        @change=${(event) => {
          form.force = event.target.checked
        }}
      />
      ${t('resync.force')}
    </label>
    <p class="soft small">${t('resync.paused')}</p>`
}

/** Sends a test message to every channel and shows what became of each. */
export function testAlerts(app, flow) {
  let answer
  let failure
  const dialog = openDialog(
    (self) =>
      html`<h2 id="dialog-title">${t('alerts.title')}</h2>
        ${flowFact(flow)}
        <div role="status">
          ${
            failure
              ? html`<div class="note bad">${errorLines(failure)}</div>`
              : answer
                ? html`<ul class="plain-list channels">
                    ${answer.results.map(channel)}
                  </ul>`
                : html`<p>${t('alerts.busy')}</p>`
          }
        </div>
        <div class="buttons">
          <button type="button" class="button main" autofocus @click=${() => self.close()}>
            ${t('dialog.close')}
          </button>
        </div>`,
  )
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

function channel({ type, target, ok, error, why }) {
  return html`<li>
    ${badge(ok ? 'good' : 'bad', t(ok ? 'alerts.ok' : 'alerts.failed'))}
    <span class="strong">${type}</span> ${name(target)}
    ${ok ? null : html`<p class="small clip">${name(reasonText(why, error))}</p>`}
  </li>`
}
