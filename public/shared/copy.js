import { t } from './i18n.js'
import { html } from './lit.js'
import { toast } from './notices.js'

/** A button that copies `text`. */
export function copyButton(text, label = t('copy')) {
  return html`<button type="button" class="button small" @click=${(event) => void copy(text, event.currentTarget)}>
    ${label}
  </button>`
}

async function copy(text, near) {
  const done = (await copyModern(text)) || copyOld(text, near)
  toast(t(done ? 'copy.done' : 'copy.failed'))
}

async function copyModern(text) {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return false
  }
}

/** Over plain http in a shop's network there is no clipboard interface; a selection can still be copied. */
function copyOld(text, near) {
  const area = document.createElement('textarea')
  area.value = text
  area.className = 'visually-hidden'
  near.after(area)
  area.select()
  const done = document.execCommand('copy')
  area.remove()
  near.focus()
  return done
}
