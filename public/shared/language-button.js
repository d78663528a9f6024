import { h } from './dom.js'
import { language } from './i18n.js'

const languages = { es: 'Español', en: 'English' }

/** Changes to the other language; it names itself in that language. */
export function languageButton(onLanguage) {
  const other = language() === 'es' ? 'en' : 'es'
  return h(
    'button',
    {
      key: 'language',
      type: 'button',
      class: 'button quiet',
      lang: other,
      onclick: () => onLanguage(other),
    },
    languages[other],
  )
}
