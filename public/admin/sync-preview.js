import { openDialog } from '../shared/dialog.js'
import { errorLines } from '../shared/errors.js'
import { duration, name } from '../shared/format.js'
import { t } from '../shared/i18n.js'
import { html } from '../shared/lit.js'
import { facts, note } from '../shared/parts.js'
import { poll } from './flow-actions.js'
import { reasonText } from './reason.js'
import { button } from './views/list-parts.js'
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
    const isReading = !answer && !failure
    return html`<div class="ask preview">
      <h2 id="dialog-title">${t('preview.title')}</h2>
      ${facts([[t('flow.one'), name(flow.name)]])}
      <div role="status" class="stack">
        ${answer ? previewReport(answer, answer.cut_off !== null && canReadOn() ? readOn : undefined) : null}
        ${isReading ? html`<p>${t(state.isWaiting ? 'preview.waiting' : 'preview.reading')}</p>` : null}
      </div>
      ${isReading ? html`<div class="stack">${clock()}</div>` : null}
      ${answer?.paused ? pausedNote(flow.status) : null}
      <div role="alert">
        ${failure ? html`<div class="note bad">${errorLines(failure)}</div>` : null}
      </div>
      <div class="buttons">${buttons(self)}</div>
    </div>`
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
    return html`<progress max=${most} value=${seconds} aria-label=${t('preview.clock')}></progress>
      <p class="soft small">
        ${t('preview.elapsed', { time: duration(seconds * 1_000), most: duration(most * 1_000) })}
      </p>`
  }

  function buttons(self) {
    const { answer, failure } = state
    const isPaused = answer?.paused === true
    const isOver = Boolean(answer || failure)
    const sync = () => {
      self.close()
      void poll(app, flow, 'sync', { force: isPaused })
    }
    return html`<button type="button" class="button" autofocus @click=${self.close}>
        ${t(isOver ? 'dialog.back' : 'preview.cancel')}
      </button>
      ${isOver ? button({ text: t('preview.again'), onclick: () => void look(state.limits) }) : null}
      ${
        answer?.scan
          ? button({ text: t(isPaused ? 'sync.force' : 'do.sync'), extra: 'main', onclick: sync })
          : null
      }`
  }
}

/** A sync of a paused flow is done all the same, so who paused it is heard first. */
function pausedNote({ reason, why }) {
  return note(
    'warn',
    html`<p class="strong">${t('sync.pausedTitle')}</p>
      ${reason ? html`<p class="clip">${name(reasonText(why, reason))}</p>` : null}
      <p>${t('sync.pausedText')}</p>`,
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
