import { openDialog } from '../shared/dialog.js'
import { h } from '../shared/dom.js'
import { errorLines } from '../shared/errors.js'
import { duration, name } from '../shared/format.js'
import { t, word } from '../shared/i18n.js'
import { facts, note } from '../shared/parts.js'
import { poll } from './flow-actions.js'
import { previewReport } from './views/preview-report.js'

/** What is read at first, and what on request: the most that the service allows. */
const firstLimits = { max_seconds: 60, max_rows: 1_000_000 }
const mostLimits = { max_seconds: 600, max_rows: 10_000_000 }
/** The service ends a preview by itself; what comes so late is no answer any more. */
const graceMs = 30_000
/** Somebody else's preview or a run of the flow is over soon; it is asked again in these steps, and not for ever. */
const againMs = 2_000
const longestWaitMs = 60_000
const notNow = new Set([409, 429])

/**
 * Shows what a sync would do, before it is done: the service reads the source for that and writes nothing. Closing the
 * window ends the reading.
 */
export function openPreview(app, flow) {
  const closed = new AbortController()
  const state = { limits: firstLimits, startedAt: 0, isWaiting: false, answer: undefined }
  const dialog = openDialog(render, { onClose: () => closed.abort() })
  const ticking = setInterval(() => state.startedAt > 0 && dialog.redraw(), 1_000)
  closed.signal.addEventListener('abort', () => clearInterval(ticking))
  void look(firstLimits)

  async function look(limits) {
    Object.assign(state, { limits, failure: undefined, answer: undefined })
    const until = Date.now() + longestWaitMs
    try {
      for (;;) {
        Object.assign(state, { startedAt: Date.now(), isWaiting: false })
        dialog.redraw()
        try {
          state.answer = await ask(limits)
          break
        } catch (error) {
          if (!notNow.has(error.status) || Date.now() > until) throw error
        }
        state.isWaiting = true
        dialog.redraw()
        await pause(againMs, closed.signal)
      }
    } catch (error) {
      state.failure = error
    }
    state.startedAt = 0
    if (!closed.signal.aborted) dialog.redraw()
  }

  function ask(limits) {
    const path = `/sync/${encodeURIComponent(flow.name)}/preview`
    return app.api.get(path, limits, closed.signal, limits.max_seconds * 1_000 + graceMs)
  }

  function render(self) {
    const { answer, failure } = state
    return h(
      'div',
      { class: 'ask preview' },
      h('h2', { id: 'dialog-title' }, t('preview.title')),
      facts([[t('flow.one'), name(flow.name)]]),
      h(
        'div',
        { key: 'result', role: 'status', class: 'stack' },
        answer
          ? previewReport(answer, answer.cut_off !== null && canReadOn() ? readOn : undefined)
          : !failure && h('p', null, t(state.isWaiting ? 'preview.waiting' : 'preview.reading')),
      ),
      !answer && !failure && h('div', { key: 'clock', class: 'stack' }, clock()),
      answer?.paused && h('div', { key: 'paused' }, pausedNote(flow.status)),
      h(
        'div',
        { key: 'failure', role: 'alert' },
        failure && h('div', { class: 'note bad' }, errorLines(failure)),
      ),
      h('div', { key: 'buttons', class: 'buttons' }, buttons(self)),
    )
  }

  function canReadOn() {
    return state.limits !== mostLimits
  }

  function readOn() {
    void look(mostLimits)
  }

  /** How long it has taken, of how long it may. */
  function clock() {
    const most = state.limits.max_seconds
    const seconds = Math.min(most, Math.round((Date.now() - state.startedAt) / 1_000))
    return [
      h('progress', { max: most, value: seconds, 'aria-label': t('preview.clock') }),
      h(
        'p',
        { class: 'soft small' },
        t('preview.elapsed', {
          time: duration(seconds * 1_000),
          most: duration(most * 1_000),
        }),
      ),
    ]
  }

  function buttons(self) {
    const { answer, failure } = state
    const isPaused = answer?.paused === true
    return [
      h(
        'button',
        { key: 'back', type: 'button', class: 'button', autofocus: true, onclick: self.close },
        t(answer || failure ? 'dialog.back' : 'preview.cancel'),
      ),
      (answer || failure) &&
        h(
          'button',
          {
            key: 'again',
            type: 'button',
            class: 'button',
            onclick: () => void look(state.limits),
          },
          t('preview.again'),
        ),
      answer?.scan &&
        h(
          'button',
          {
            key: 'do',
            type: 'button',
            class: 'button main',
            onclick: () => {
              self.close()
              void poll(app, flow, 'sync', isPaused)
            },
          },
          t(isPaused ? 'sync.force' : 'do.sync'),
        ),
    ]
  }
}

/** A sync of a paused flow is done all the same, so who paused it is heard first. */
function pausedNote({ reason }) {
  return note(
    'warn',
    h('p', { class: 'strong' }, t('sync.pausedTitle')),
    reason && h('p', { class: 'clip' }, name(word('reason', reason))),
    h('p', null, t('sync.pausedText')),
  )
}

/** Rejects as soon as `signal` aborts. */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })
}
