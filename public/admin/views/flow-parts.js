import { duration, name, number, relative, shortClock } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { badge, note } from '../../shared/parts.js'
import { now } from '../../shared/shop-clock.js'
import { askLimit, askPause, isBusy, removeLimit, resume, sync, tryNow } from '../flow-actions.js'
import { causeText, healthTone, healthWord, rests } from '../flow-health.js'
import { isOfLostAccess, reasonText } from '../reason.js'
import { smallRunButton } from './list-parts.js'

/** The address of all about one flow. */
export const flowHref = (app, { name: flow }) => app.link('flows', { flow })

/** Where the dashboard of charges shows what such a flow reads or writes; null where it does not. */
export function dashboardLink(app, { source, destinations }) {
  const place = [source, ...destinations.map(({ type }) => type)].find((type) => places[type])
  return place && app.dashboardPage
    ? html`<a class="button small" href="${app.dashboardPage}#/${places[place]}">${t(`dashboard.${places[place]}`)}</a>`
    : null
}

const places = {
  'payments.orders': 'orders',
  'payments.settlements': 'orders',
  'payments.closings': 'closings',
  'payments.stores': 'stores',
  'payments.pos': 'stores',
}

/** The switch: `Running`, `Paused`, or `N/M` while a limit counts; a limit that is used up stays beside the pause it caused. */
export function switchBadges({ paused, runLimit, runCount, polling }, waits = false) {
  const limit =
    runLimit === null
      ? null
      : html`<span class="badge info"
          >${number(runCount)}/${number(runLimit)}<span class="visually-hidden"> ${t('flow.runs')}</span></span
        >`
  return html`${polling ? html`<span class="badge quiet pulse">${t('flow.polling')}</span>` : null}
  ${limit} ${waits ? badge('info', t('flow.waiting')) : null}
  ${paused ? badge('warn', t('flow.paused')) : limit === null ? badge('quiet', t('flow.running')) : null}`
}

export const healthBadge = (health) => badge(healthTone(health), healthWord(health))

/** What is wrong, since when, when it is tried again, and the last error in the words of whoever refused. */
export function troubleOf(app, flow, health) {
  const { state, cause, since, destination } = health
  if (state === 'ok' || cause === null) return null
  const sending = destination?.sending
  const why = destination ? sending.why : flow.last_error_why
  const words = reasonText(why, destination ? sending.cause : flow.last_error)
  // No attempt helps there, and what does stands at the end of the words.
  const isLost = isOfLostAccess(why)
  return html`<div class="trouble">
    <p class="small">
      <span class="strong">${causeText(isLost && destination ? { ...health, cause: 'access_lost' } : health)}</span>
      ${since ? html`· ${relative(since)}` : null}
      ${sending && !isLost ? nextTry(sending) : null}
    </p>
    ${words ? html`<p class="small soft ${isLost ? '' : 'clip'}">${name(words)}</p>` : null}
    ${sending && rests(sending) && !isLost ? tryButton(app, flow, destination) : null}
  </div>`
}

/** `next try in 40 s`. */
export function nextTry({ next_attempt_at: next }) {
  if (!next || isPast(next)) return null
  return html`<span class="next-try">· ${t('flow.nextTry')} ${relative(next)}</span>`
}

/** What is due and has to wait for something else was not tried then. */
export function whenNext(at) {
  return isPast(at) ? t('flow.soon') : relative(at)
}

const isPast = (at) => new Date(at).getTime() < now()

export function tryButton(app, flow, destination) {
  return smallRunButton(app, {
    text: t('do.try'),
    disabled: isBusy(app, flow, `try ${destination.name}`),
    onclick: () => void tryNow(app, flow, destination.name),
  })
}

/** Pending deliveries of one destination, or by counts of several together. */
export function owedBadges(app, flow, { waiting, delayed, failed }) {
  const errors = app.link('errors', { flow: flow.name })
  const owed = (tone, key, many) =>
    many > 0 ? html`<a class="badge ${tone}" href=${errors}>${count(key, many)}</a>` : null
  if (waiting + delayed + failed === 0) return badge('quiet', t('target.idle'))
  return html`${waiting > 0 ? badge('info', count('target.waiting', waiting)) : null}
  ${owed('warn', 'target.delayed', delayed)} ${owed('bad', 'target.failed', failed)}`
}

export function totalOwed({ destinations }) {
  const sum = (of) => destinations.reduce((total, one) => total + one[of], 0)
  return { waiting: sum('waiting'), delayed: sum('delayed'), failed: sum('failed') }
}

export function pausedNote({ paused_at: at, paused_by: by, reason, why }) {
  return note(
    'warn',
    html`<p class="small">
        ${by === null ? t('flow.pausedSince') : t('flow.pausedBy', { who: word('actor', by) })}
        ${at ? relative(at) : null}
      </p>
      ${reason ? html`<p class="small ${by === 'service' ? '' : 'clip'}">${name(reasonText(why, reason))}</p>` : null}`,
  )
}

export const when = (at) => (at === null ? t('flow.never') : relative(at))

export function nextRun({ status, next_poll_at: at, poll_interval_ms: interval }) {
  if (status.paused) return t('flow.nextPaused')
  return html`${status.polling ? t('flow.now') : at === null ? t('flow.soon') : whenNext(at)}
    <span class="every soft small">${t('flow.every', { time: duration(interval) })}</span>`
}

/** The last part of a path, by which people know a file. */
const fileName = (path = '') => path.split(/[\\/]/).at(-1)

/** Which file is waited for and until when; null when none is. */
export function waitingNote({ waiting_for: wait }) {
  if (!wait) return null
  const { path, marker } = wait.why.data
  const words = { file: fileName(path), marker: fileName(marker) }
  const key = marker ? 'waiting.marker' : wait.until ? 'waiting.until' : 'waiting.file'
  return note(
    'info',
    html`<p class="small strong">${name(t(key, { ...words, time: wait.until ? shortClock(wait.until) : '' }))}</p>
      <p class="small soft clip">${name(reasonText(wait.why, ''))}</p>`,
  )
}

/** A button of a flow that says what it does, and that it is being done. */
export function deed(app, flow, action, onclick, extra = '') {
  const disabled = isBusy(app, flow, action)
  return smallRunButton(app, {
    text: t(disabled ? 'dialog.busy' : `do.${action}`),
    extra,
    disabled,
    onclick,
  })
}

/** What is done most. In a table the rest is a click away. */
export function mainDeeds(app, flow, { isShort = false } = {}) {
  const { paused, runLimit } = flow.status
  const one = (action, onclick, extra) => deed(app, flow, action, onclick, extra)
  return html`<div class="buttons">
    ${one('sync', () => sync(app, flow), isShort ? '' : 'main')}
    ${paused ? one('resume', () => void resume(app, flow)) : one('pause', () => askPause(app, flow))}
    ${
      isShort
        ? null
        : runLimit === null
          ? one('limit', () => askLimit(app, flow))
          : one('unlimit', () => void removeLimit(app, flow))
    }
  </div>`
}

/** What became of the last thing that was done to a flow, until somebody puts it away. */
export function resultOf(app, flow) {
  const result = app.results.get(flow.name)
  if (!result) return null
  const dismiss = () => {
    app.results.delete(flow.name)
    app.redraw()
  }
  return html`<div class="result note ${result.tone}">
    <div><p class="small clip">${name(result.text)}</p></div>
    <button type="button" class="button quiet small close" aria-label=${t('flow.dismiss')} @click=${dismiss}>✕</button>
  </div>`
}
