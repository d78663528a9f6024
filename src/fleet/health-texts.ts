import type { Language } from '../texts/language.ts'
import { filled } from '../texts/texts.ts'
import { causes } from './causes.ts'
import type { Health } from './health-states.ts'

/** The text about a state; null for a state without a problem, and for a cause of a newer version. */
export function messageOf(
  { cause, since, about }: Pick<Health, 'cause' | 'since' | 'about'>,
  language: Language,
  now: Date,
): string | null {
  if (cause === null || !Object.hasOwn(causes, cause)) return null
  const values: Record<string, string | undefined> = {
    ...Object.fromEntries(Object.entries(about).map(([name, value]) => [name, String(value)])),
    for: since ? lengthInWords(now.getTime() - since.getTime(), language) : undefined,
    nextTryIn: about.nextTryAt
      ? lengthInWords(new Date(about.nextTryAt).getTime() - now.getTime(), language)
      : undefined,
  }
  return filled(language, `fleet.${cause}`, values)
}

const steps = [
  { unit: 'day', ms: 86_400_000 },
  { unit: 'hour', ms: 3_600_000 },
  { unit: 'minute', ms: 60_000 },
  { unit: 'second', ms: 1_000 },
] as const

/** Creating a format is slow, and a chain has a sentence for each of a thousand boxes. */
const formats = new Map<string, Intl.NumberFormat>()

/** A duration by its largest unit, such as "3 minutes". */
export function lengthInWords(ms: number, language: Language): string {
  const { ms: unitMs, unit } = steps.find((one) => ms >= one.ms) ?? steps[3]
  const key = `${language} ${unit}`
  const format =
    formats.get(key) ??
    new Intl.NumberFormat(language, { style: 'unit', unit, unitDisplay: 'long' })
  formats.set(key, format)
  return format.format(Math.max(1, Math.floor(ms / unitMs)))
}
