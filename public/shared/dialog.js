import { h, patch } from './dom.js'
import { errorLines } from './errors.js'
import { t } from './i18n.js'

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
    redraw: () => patch(element, render(dialog)),
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

/** Ends every window, for the end of a session. */
export function closeDialogs() {
  for (const dialog of [...open]) dialog.close()
}

/**
 * Asks before something is done. `content(form)` describes what it is about and may hold fields that write into `form`;
 * `check(form)` answers what keeps it from being done, if anything. `run(form)` does it: a failure is shown here and the
 * window stays; on success it closes, and `form` may be tried again otherwise.
 */
export function ask({ title, content, confirm, danger, check, run }) {
  const form = {}
  let failure
  let complaint
  const dialog = openDialog((self) => {
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
    return h(
      'form',
      { class: 'ask', onsubmit: (event) => void submit(event) },
      h('h2', { id: 'dialog-title' }, title),
      content(form, self),
      h(
        'div',
        { key: 'failure', role: 'alert' },
        complaint && h('div', { class: 'note bad' }, complaint),
        failure && h('div', { class: 'note bad' }, errorLines(failure)),
      ),
      h(
        'div',
        { key: 'buttons', class: 'buttons' },
        h(
          'button',
          { type: 'button', class: 'button', disabled: self.busy, onclick: () => self.close() },
          t('dialog.back'),
        ),
        h(
          'button',
          { type: 'submit', class: danger ? 'button danger' : 'button main', disabled: self.busy },
          self.busy ? t('dialog.busy') : typeof confirm === 'function' ? confirm(form) : confirm,
        ),
      ),
    )
  })
  return dialog
}
