import type { Language } from './language.ts'

const formats = new Map<Language, Intl.NumberFormat>()

/** `18.034,40` of an amount of the API; `–` for none. Intl takes the digits as text, so nothing is rounded. */
export function localAmount(point: string | null | undefined, language: Language): string {
  if (point === null || point === undefined) return '–'
  const locale = { es: 'es-AR', en: 'en', pt: 'pt-BR' }[language]
  const known = formats.get(language)
  const format = known ?? new Intl.NumberFormat(locale, { minimumFractionDigits: 2 })
  if (!known) formats.set(language, format)
  return format.format(point as Intl.StringNumericLiteral)
}
