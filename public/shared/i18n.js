import { storedLanguage, storeLanguage } from './session.js'

/** The texts that are there by now. Those of the language that is shown come with the script, the others later. */
const all = { es: undefined, en: undefined }
/** Those of views that are fetched later, which bring their own. */
const added = { es: {}, en: {} }
let readers

let current = choose()

/** `es` or `en`: the stored choice, else English for browsers that ask for it, else Spanish. */
function choose() {
  const stored = storedLanguage()
  if (stored === 'es' || stored === 'en') return stored
  return navigator.language.toLowerCase().startsWith('en') ? 'en' : 'es'
}

/**
 * Takes the texts of a page: `{ es, en }`, functions that import them. What it shows first waits for this; that costs a trip
 * only where the service could not know which language was chosen.
 */
export async function useTexts(of) {
  readers = of
  try {
    await readTexts(current)
  } catch {
    // The script came with those.
    current = otherLanguage()
    await readTexts(current)
  }
  document.documentElement.lang = current
}

async function readTexts(language) {
  all[language] ??= (await readers[language]()).texts
}

/** Takes the texts that a later view brings: `{ es, en }`. */
export function addTexts({ es, en }) {
  Object.assign(added.es, es)
  Object.assign(added.en, en)
}

function find(key) {
  return all[current][key] ?? added[current][key]
}

/** So that somebody who changes the language does not wait for the line, which may be gone by then. */
export function readOtherTexts() {
  return readTexts(otherLanguage())
}

export function otherLanguage() {
  return current === 'es' ? 'en' : 'es'
}

export function language() {
  return current
}

export async function setLanguage(language) {
  await readTexts(language)
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
  const text = find(key) ?? key
  return text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole))
}

/** The text of a word of the API, such as a status; the word itself when there is none. */
export function word(group, value) {
  return find(`${group}.${value}`) ?? String(value ?? '')
}

/** One form for 1 and another for the rest: keys `<key>.one` and `<key>.other`. */
export function count(key, number) {
  const shown = new Intl.NumberFormat(locale()).format(number)
  return t(`${key}.${number === 1 ? 'one' : 'other'}`, { count: shown })
}
