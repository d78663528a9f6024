import { otherLanguage } from './i18n.js'
import { html } from './lit.js'

const languages = { es: 'Español', en: 'English' }

/** Changes to the other language; it names itself in that language. */
export function languageButton(onLanguage) {
  const other = otherLanguage()
  return html`<button type="button" class="button quiet" lang=${other} @click=${() => onLanguage(other)}>${languages[other]}</button>`
}
