import { ask, openDialog } from '../shared/dialog.js'
import { errorLines } from '../shared/errors.js'
import { name, number, relative } from '../shared/format.js'
import { count, t, word } from '../shared/i18n.js'
import { html } from '../shared/lit.js'
import { toast } from '../shared/notices.js'
import { badge, note } from '../shared/parts.js'
import { reasonBody, reasonField } from './flow-actions.js'
import { smallRunButton } from './views/list-parts.js'

/** What a stop is about: `{ flow, destination }`, null for every one. */
const bodyOf = ({ flow, destination }) => ({
  ...(flow !== null && { flow }),
  ...(destination !== null && { destination }),
})

/** Stops sending; `form` may hold why. */
export async function stopSending(app, scope, form = {}) {
  await app.api.post('/sending/stop', { body: { ...bodyOf(scope), ...reasonBody(form) } })
}

/** Every destination by its name, with the flows that have it: `{ name, targets: [{ flow, destination }] }`. */
export function destinationsOf(flows) {
  const byName = Map.groupBy(
    flows.flatMap((flow) => flow.destinations.map((destination) => ({ flow, destination }))),
    ({ destination }) => destination.name,
  )
  return [...byName]
    .map(([destination, targets]) => ({ name: destination, targets }))
    .sort((a, b) => a.name.localeCompare(b.name))
}

/** The stops in force that concern these flows, the widest first, each once. */
export function stopsOf(flows) {
  const stops = new Map()
  for (const { destinations } of flows) {
    for (const { sending } of destinations) {
      const { stop } = sending
      if (stop) stops.set(JSON.stringify([stop.flow, stop.destination]), stop)
    }
  }
  return [...stops.values()]
}

/** How much waits of these targets. */
export function queueOf(targets) {
  return targets.reduce(
    (sum, { destination }) => sum + destination.waiting + destination.delayed,
    0,
  )
}

/** The stop of all that goes to a destination, whatever flow it is of. */
export function stopOfAll(targets) {
  return targets
    .map(({ destination }) => destination.sending.stop)
    .find((stop) => stop?.flow === null)
}

export function stopText({ flow, destination }) {
  const which =
    flow === null
      ? destination === null
        ? 'all'
        : 'destination'
      : destination === null
        ? 'flow'
        : 'both'
  return t(`stop.of.${which}`, { flow, destination })
}

/** Who stopped sending, when and why, with the button that ends it. */
export function stopNote(app, stop) {
  return note(
    'warn',
    html`<p class="small strong">${name(stopText(stop))}</p>
      <p class="small">${t('stop.by', { who: word('actor', stop.by) })} ${relative(stop.since)}</p>
      ${stop.reason ? html`<p class="small clip">${name(stop.reason)}</p>` : null}
      ${smallRunButton(app, { text: t('stop.start'), onclick: () => askStart(app, stop) })}`,
  )
}

export const stopNotes = (app, flows) => stopsOf(flows).map((stop) => stopNote(app, stop))

/** Stops sending to one destination, or of one flow: with a reason. */
export function askStop(app, scope) {
  ask({
    title: stopText(scope),
    content: (form, dialog) =>
      html`${reasonField(form, dialog)}
        <p class="soft small">${t('stop.text')}</p>`,
    confirm: t('stop.this'),
    async run(form) {
      await stopSending(app, scope, form)
      toast(t('stop.done'))
      app.reload()
    },
  })
}

function askStart(app, stop) {
  ask({
    title: t('stop.startTitle'),
    content: () =>
      html`<p class="strong">${name(stopText(stop))}</p>
        ${stop.reason ? html`<p class="clip">${name(stop.reason)}</p>` : null}
        <p>${t('stop.startText')}</p>`,
    confirm: t('stop.start'),
    async run() {
      const { stops } = await app.api.post('/sending/start', { body: bodyOf(stop) })
      toast(t(stops.length > 0 ? 'stop.startLeft' : 'stop.startDone'))
      app.reload()
    },
  })
}

/** Everything and each destination, each with its own button: whoever has to stop something has no time for a second question. */
export function openStops(app) {
  const form = {}
  let failure
  const rows = destinationsOf(app.flows)
  const dialog = openDialog((self) => {
    const stop = async (scope) => {
      if (self.busy) return
      self.busy = true
      failure = undefined
      self.redraw()
      try {
        await stopSending(app, scope, form)
        self.close()
        toast(stopText(scope))
        app.reload()
      } catch (error) {
        failure = error
      }
      self.busy = false
      self.redraw()
    }
    const row = (title, hint, scope, isStopped) =>
      html`<li>
        <span><span class="strong">${title}</span> <span class="soft small">${hint}</span></span>
        ${
          isStopped
            ? badge('warn', t('stop.stopped'))
            : html`<button type="button" class="button small danger" ?disabled=${self.busy}
                aria-label="${t('stop.do')}: ${title}" @click=${() => void stop(scope)}>${t('stop.do')}</button>`
        }
      </li>`
    const isAllStopped = stopsOf(app.flows).some(
      ({ flow, destination }) => flow === null && destination === null,
    )
    return html`<h2 id="dialog-title">${t('stop.title')}</h2>
      <p class="soft small">${t('stop.text')}</p>
      ${reasonField(form, self)}
      <div role="alert">${failure ? html`<div class="note bad">${errorLines(failure)}</div>` : null}</div>
      <ul class="plain-list stops">
        ${row(t('stop.all'), t('stop.allHint'), { flow: null, destination: null }, isAllStopped)}
        ${rows.map(({ name: destination, targets }) =>
          row(
            destination,
            `${count('stop.used', targets.length)} · ${count('target.waiting', queueOf(targets))}`,
            { flow: null, destination },
            isAllStopped || stopOfAll(targets) !== undefined,
          ),
        )}
      </ul>
      <div class="buttons">
        <button type="button" class="button" ?disabled=${self.busy} @click=${() => self.close()}>${t('dialog.back')}</button>
      </div>`
  })
  return dialog
}

/** `5 waiting` of a destination, for lists. */
export const queueNumber = (targets) => number(queueOf(targets))
