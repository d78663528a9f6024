import { t } from '../../shared/i18n.js'
import { html, live } from '../../shared/lit.js'

/** For sorting as people count: 2 before 10. */
export const naturally = new Intl.Collator(undefined, { numeric: true })

/**
 * A search field and the switch to problems only, above a list. `asked` is `{text, onlyProblems}`; `set(changes)` is a function
 * that makes the handler of a change.
 */
export function finder(asked, set, { field, label, placeholder }) {
  return html`<div class="finder">
    <input type="search" name=${field} maxlength="64" autocomplete="off" aria-label=${label}
      placeholder=${placeholder} .value=${live(asked.text)} @input=${(event) => set({ text: event.target.value })()}>
    <button type="button" class="button small" aria-pressed=${asked.onlyProblems ? 'true' : 'false'}
      @click=${set({ onlyProblems: !asked.onlyProblems })}>${t('boxes.onlyProblems')}</button>
  </div>`
}
