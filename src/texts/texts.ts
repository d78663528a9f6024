import { en } from './en.ts'
import { es } from './es.ts'
import type { Language } from './language.ts'
import { pt } from './pt.ts'

/**
 * All that the service says to people, by key and language. `{name}` is filled with a value, `{count:word|words}` with the word for
 * one or for several. A part in brackets that names a value is left out when the value is not known.
 */
export const texts: Readonly<Record<Language, Readonly<Partial<Record<TextKey, string>>>>> = {
  en,
  es: es satisfies Record<TextKey, string>,
  pt,
}

type English = typeof en
export type TextKey = keyof English

/** The names in braces of a text; `{}`, `{ field: … }`, `{env:NAME}` and `{count:word|words}` hold none. */
type NamesIn<T extends string> = T extends `${string}{${infer Rest}`
  ? Rest extends `${infer Name}}${infer After}`
    ? Name extends '' | `${string}${' ' | '{' | ':' | '…'}${string}`
      ? NamesIn<Rest>
      : Name | NamesIn<After>
    : never
  : never
type Unbracketed<T extends string> = T extends `${infer Before}[${string}]${infer After}`
  ? `${Before}${Unbracketed<After>}`
  : T

/** A text within another, by its key: several are joined by semicolons. */
type InnerText = { readonly code: TextKey; readonly data?: object | undefined }
export type TextValue = string | number | InnerText | readonly InnerText[]

/** The values of a text; those in brackets may be missing. */
type DataOf<T extends string> = { readonly [Name in NamesIn<Unbracketed<T>>]: TextValue } & {
  readonly [Name in NamesIn<T>]?: TextValue | undefined
}
export type ValuesOf<Text extends string> = [NamesIn<Text>] extends [never]
  ? undefined
  : [NamesIn<Unbracketed<Text>>] extends [never]
    ? DataOf<Text> | undefined
    : DataOf<Text>

type ValuesFor<Key extends TextKey> = Key extends TextKey ? ValuesOf<English[Key]> : never

/** The text of a key with its values. A language without it has the English one. */
export function textIn<Key extends TextKey>(
  language: Language,
  key: Key,
  ...[values]: undefined extends ValuesFor<Key>
    ? [values?: ValuesFor<Key>]
    : [values: ValuesFor<Key>]
): string {
  return filled(language, key, values ?? {})
}

/** Whether there is a text of this key: stored ones may come from another version. */
export function isTextKey(key: string): key is TextKey {
  return Object.hasOwn(en, key)
}

/** Like `textIn`, for values that were stored with their key. */
export function filled(
  language: Language,
  key: TextKey,
  values: Readonly<Record<string, unknown>>,
): string {
  const known = Object.entries(values).map(([name, value]) => [name, valueText(value, language)])
  return fill(texts[language][key] ?? en[key], Object.fromEntries(known))
}

function valueText(value: unknown, language: Language): string | undefined {
  if (value === null || value === undefined) return undefined
  if (typeof value !== 'object') return String(value)
  if (Array.isArray(value)) return value.map((one) => valueText(one, language)).join('; ')
  if (!('code' in value)) return undefined
  const { code, data } = value as { code: string; data?: Record<string, unknown> }
  return isTextKey(code) ? filled(language, code, data ?? {}) : String(code)
}

/** A name without a value is a dash. */
function fill(text: string, values: Readonly<Record<string, string | undefined>>): string {
  const textOf = (name: string) => (Object.hasOwn(values, name) ? values[name] : undefined)
  const isKnown = (part: string) =>
    [...part.matchAll(/\{(\w+)\}/g)].every(([, name]) => textOf(name as string) !== undefined)
  return text
    .replace(/\[([^[\]]*\{\w+\}[^[\]]*)\]/g, (_, part: string) => (isKnown(part) ? part : ''))
    .replace(
      /\{(\w+)(?::([^{}|]*)\|([^{}|]*))?\}/g,
      (_, name: string, one?: string, several?: string) =>
        one === undefined ? (textOf(name) ?? '—') : ((textOf(name) === '1' ? one : several) ?? ''),
    )
}
