/** Languages of the texts for cashiers, and for owners who connect their shop. */
export const languages = ['es', 'en', 'pt'] as const
export type Language = (typeof languages)[number]

/** The first language of `Accept-Language` that has texts; else Spanish. */
export function preferredLanguage(acceptLanguage: string | undefined): Language {
  return namedLanguage(acceptLanguage) ?? 'es'
}

/** The same without a default: programs often send `*`, which names none. */
export function namedLanguage(acceptLanguage: string | undefined): Language | undefined {
  if (!acceptLanguage) return undefined
  const wanted = acceptLanguage
    .split(',')
    .map((part) => {
      const [tag = '', ...options] = part.trim().toLowerCase().split(';')
      const weight = options.find((option) => option.trim().startsWith('q='))
      return { language: tag.split('-')[0], quality: weight ? Number(weight.trim().slice(2)) : 1 }
    })
    .filter(({ quality }) => quality > 0)
    .sort((left, right) => right.quality - left.quality)
  for (const { language } of wanted) {
    const known = languages.find((candidate) => candidate === language)
    if (known) return known
  }
  return undefined
}
