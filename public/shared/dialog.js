import { errorLines } from './errors.js'
import { t } from './i18n.js'
import { content as contentOf, render as draw, html, nothing } from './lit.js'

const open = new Set()

/**
 * A modal window of its own, outside the view, so no refresh touches it. `render(dialog)` describes its content;
 * `dialog.redraw()` shows what changed and `dialog.close()` ends it. While `dialog.busy` it cannot be closed by key.
 * `onClose` hears of its end, however it came.
 */
export function openDialog(render, { onClose } = {}) {
  const element = document.createElement('dialog')
  const dialog = {
    busy: false,
    redraw: () => draw(contentOf(render(dialog)), element),
    close: () => element.close(),
  }
  element.addEventListener('cancel', (event) => {
    if (dialog.busy) event.preventDefault()
  })
  element.addEventListener('close', () => {
    open.delete(dialog)
    element.remove()
    onClose?.()
  })
  open.add(dialog)
  document.body.append(element)
  dialog.redraw()
  element.setAttribute('aria-labelledby', 'dialog-title')
  element.showModal()
  return dialog
}

// The address names the view under a window: going back leaves both. What is still being done is told of to its end.
addEventListener('hashchange', () => {
  for (const dialog of [...open]) if (!dialog.busy) dialog.close()
})

/** Ends every window, for the end of a session. */
export function closeDialogs() {
  for (const dialog of [...open]) dialog.close()
}

/**
 * Asks before something is done. `content(form)` describes what it is about and may hold fields that write into `form`;
 * `check(form)` answers what keeps it from being done, if anything. `run(form)` does it: a failure is shown here and the
 * window stays; on success it closes, and `form` may be tried again otherwise. `onClose` is called at its end, also after `run`.
 */
export function ask({ title, content, confirm, danger, check, run, onClose }) {
  const form = {}
  let failure
  let complaint
  const dialog = openDialog(
    (self) => {
      const submit = async (event) => {
        event.preventDefault()
        if (self.busy) return
        failure = undefined
        complaint = check?.(form)
        if (complaint !== undefined) return self.redraw()
        self.busy = true
        self.redraw()
        try {
          await run(form)
          self.close()
        } catch (error) {
          failure = error
        }
        self.busy = false
        self.redraw()
      }
      const bad = (text) => html`<div class="note bad"><div>${text}</div></div>`
      return html`<form class="ask" @submit=${submit}>
      <h2 id="dialog-title">${title}</h2>
      ${contentOf(content(form, self))}
      <div role="alert">${complaint ? bad(contentOf(complaint)) : nothing}${failure ? bad(errorLines(failure)) : nothing}</div>
      <div class="buttons">
        <button type="button" class="button" ?disabled=${self.busy} @click=${() => self.close()}>${t('dialog.back')}</button>
        <button type="submit" class="button ${danger ? 'danger' : 'main'}" ?disabled=${self.busy}>
          ${self.busy ? t('dialog.busy') : typeof confirm === 'function' ? confirm(form) : confirm}
        </button>
      </div>
    </form>`
    },
    { onClose },
  )
  return dialog
}
