import { openDialog } from '../shared/dialog.js'
import { errorLines } from '../shared/errors.js'
import { name, number } from '../shared/format.js'
import { t } from '../shared/i18n.js'
import { html, nothing } from '../shared/lit.js'

/**
 * Asks once, and then does `work(item)` for each item in turn, in a window that shows how far it is and can be stopped. What fails is
 * listed with its reason, and the others go on. `work` is safe to repeat, so after a stop the same action goes on with the rest.
 */
export function runForEach({ title, text, items, labelOf, confirm, work, onEnd }) {
  const failures = []
  let done = 0
  let isStopped = false
  let state = 'asking'

  const dialog = openDialog((self) => {
    const run = async (event) => {
      event.preventDefault()
      state = 'running'
      self.busy = true
      self.redraw()
      for (const item of items) {
        if (isStopped) break
        try {
          await work(item)
        } catch (error) {
          failures.push({ item, error })
          // Without a session or the service nothing that follows would succeed.
          if (error.status === undefined || error.status === 401) isStopped = true
        }
        done += 1
        self.redraw()
      }
      state = 'done'
      self.busy = false
      self.redraw()
      onEnd()
    }
    const stop = () => {
      isStopped = true
      self.redraw()
    }
    const counts = { done: number(done), total: number(items.length) }
    return html`<form class="ask" @submit=${run}>
        <h2 id="dialog-title">${title}</h2>
        ${state === 'asking' ? html`<p>${text}</p>` : nothing}
        ${
          state === 'asking'
            ? nothing
            : html`<p role="status">${t(state === 'done' ? 'batch.done' : 'batch.progress', counts)}</p>
              <progress max=${items.length} value=${done} aria-label=${title}></progress>`
        }
        ${
          failures.length === 0
            ? nothing
            : html`<div role="alert"><p class="strong">${t('batch.failed', { count: number(failures.length) })}</p>
              <ul class="batch-failures">${failures.map(
                ({ item, error }) =>
                  html`<li>${name(labelOf(item), { class: 'strong' })} ${errorLines(error)}</li>`,
              )}</ul></div>`
        }
        <div class="buttons">${
          state === 'asking'
            ? html`<button type="button" class="button" @click=${() => self.close()}>${t('dialog.back')}</button>
              <button type="submit" class="button main">${confirm}</button>`
            : state === 'running'
              ? html`<button type="button" class="button" ?disabled=${isStopped} @click=${stop}>${t('batch.stop')}</button>`
              : html`<button type="button" class="button main" @click=${() => self.close()}>${t('batch.close')}</button>`
        }</div>
      </form>`
  })
  return dialog
}
