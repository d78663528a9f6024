import { storedLanguage, storeLanguage } from './session.js'
import { texts as en } from './texts/en.js'
import { texts as es } from './texts/es.js'

/** What the pages have in common; each adds its own. */
const all = { es: { ...es }, en: { ...en } }

let current = choose()

/** `es` or `en`: the stored choice, else English for browsers that ask for it, else Spanish. */
function choose() {
  const stored = storedLanguage()
  if (stored !== null && Object.hasOwn(all, stored)) return stored
  return navigator.language.toLowerCase().startsWith('en') ? 'en' : 'es'
}

/** Adds the texts of a page: `{ es, en }`. */
export function useTexts(texts) {
  for (const [language, own] of Object.entries(texts)) Object.assign(all[language], own)
}

export function language() {
  return current
}

export function setLanguage(language) {
  current = language
  storeLanguage(language)
  document.documentElement.lang = language
}

/** For Intl: Argentine forms for Spanish, plain English otherwise. */
export function locale() {
  return current === 'es' ? 'es-AR' : 'en'
}

/** The text of `key` with `{name}` replaced. A key without a text is a mistake and shows itself. */
export function t(key, values = {}) {
  const text = all[current][key] ?? key
  return text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole))
}

/** The text of a word of the API, such as a status; the word itself when there is none. */
export function word(group, value) {
  return all[current][`${group}.${value}`] ?? String(value ?? '')
}

/** One form for 1 and another for the rest: keys `<key>.one` and `<key>.other`. */
export function count(key, number) {
  const shown = new Intl.NumberFormat(locale()).format(number)
  return t(`${key}.${number === 1 ? 'one' : 'other'}`, { count: shown })
}

document.documentElement.lang = current
