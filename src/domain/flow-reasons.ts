import { fillSentence } from './fill-sentence.ts'
import { accessReasons } from './flow-reasons/access-reasons.ts'
import { alertReasons } from './flow-reasons/alerts-reasons.ts'
import { databaseReasons } from './flow-reasons/databases-reasons.ts'
import { definitionReasons } from './flow-reasons/definition-reasons.ts'
import { deliveryReasons } from './flow-reasons/deliveries-reasons.ts'
import { fileReasons } from './flow-reasons/files-reasons.ts'
import { itemReasons } from './flow-reasons/items-reasons.ts'
import { pauseReasons } from './flow-reasons/pauses-reasons.ts'
import { pollReasons } from './flow-reasons/polls-reasons.ts'
import type { ReasonTexts } from './flow-reasons/reason-texts.ts'
import { refusalReasons } from './flow-reasons/refusals-reasons.ts'
import { sourceReasons } from './flow-reasons/sources-reasons.ts'
import type { Language } from './language.ts'

/**
 * Why a flow is paused, a poll failed, a record was not taken, a delivery failed or was skipped, a definition is wrong, or a request
 * is refused: the sentences of each code, in the languages of the operators.
 */
export const reasonTexts = {
  ...pauseReasons,
  ...pollReasons,
  ...sourceReasons,
  ...fileReasons,
  ...itemReasons,
  ...deliveryReasons,
  ...databaseReasons,
  ...accessReasons,
  ...alertReasons,
  ...definitionReasons,
  ...refusalReasons,
} as const satisfies ReasonTexts

type Texts = typeof reasonTexts
export type ReasonCode = keyof Texts
export const reasonCodes = Object.keys(reasonTexts) as ReasonCode[]

/** The names in braces of a text; `{}`, `{ field: … }` and `{env:NAME}` hold none. */
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

/** A reason within another: a union of all with their data would be too large for the compiler there. */
type InnerReason = { readonly code: ReasonCode; readonly data?: object | undefined }
/** A part of a sentence: a reason is a sentence of its own, and several are joined by semicolons. */
export type ReasonValue = string | number | InnerReason | readonly InnerReason[]

/** What the sentences of a code name; what stands in brackets there may be missing. */
type DataOf<T extends string> = {
  readonly [Name in NamesIn<Unbracketed<T>>]: ReasonValue
} & { readonly [Name in NamesIn<T>]?: ReasonValue | undefined }

type TextOf<Code extends ReasonCode> = Texts[Code] extends {
  hint: { en: infer Hint extends string }
}
  ? `${Texts[Code]['en']}${Hint}`
  : Texts[Code]['en']

type ReasonOf<Code extends ReasonCode> = [NamesIn<TextOf<Code>>] extends [never]
  ? { readonly code: Code; readonly data?: undefined }
  : [NamesIn<Unbracketed<TextOf<Code>>>] extends [never]
    ? { readonly code: Code; readonly data?: DataOf<TextOf<Code>> | undefined }
    : { readonly code: Code; readonly data: DataOf<TextOf<Code>> }

/** Why something is as it is. No secrets. */
export type Reason = { [Code in ReasonCode]: ReasonOf<Code> }[ReasonCode]

/** As it is stored: a process of a newer version may have written a code that this one does not know. */
export type StoredReason = { code: string; data?: { [name: string]: unknown } | undefined }

/** The sentence of a reason; undefined when its code is not known here. Languages without texts of their own get English. */
export function sentenceOf(reason: Reason, language: Language): string
export function sentenceOf(reason: StoredReason, language: Language): string | undefined
export function sentenceOf(reason: StoredReason, language: Language) {
  const texts = textsOf(reason.code)
  return texts && filled(texts[language === 'es' ? 'es' : 'en'], reason, language)
}

/** A reason with its sentence in the reader's language, as an API shows it; null where only a sentence was recorded. */
export function shownReason(why: Reason | StoredReason | null, language: Language) {
  if (why === null) return null
  const { code, data = {} }: StoredReason = why
  return { code, data, message: sentenceOf(why as StoredReason, language) ?? null }
}

/** What to do about it, where that is not in the sentence; null when nothing is said of that. */
export function hintOf(reason: Reason, language: Language): string | null {
  const hint = textsOf(reason.code)?.hint
  return (hint && filled(hint[language === 'es' ? 'es' : 'en'], reason, language)) || null
}

function textsOf(code: string): ReasonTexts[string] | undefined {
  return Object.hasOwn(reasonTexts, code) ? reasonTexts[code as ReasonCode] : undefined
}

function filled(text: string, { data = {} }: StoredReason, language: Language): string {
  const values = Object.entries(data).map(([name, value]) => [name, valueText(value, language)])
  return fillSentence(text, Object.fromEntries(values))
}

function valueText(value: unknown, language: Language): string | undefined {
  if (value === null || value === undefined) return undefined
  if (typeof value !== 'object') return String(value)
  if (Array.isArray(value)) return value.map((one) => valueText(one, language)).join('; ')
  return 'code' in value
    ? (sentenceOf(value as StoredReason, language) ?? String(value.code))
    : undefined
}

const longestValue = 1_000

/** A reason as it is kept: no text of it is too long, and none has a NUL, which the database holds nowhere. */
export function keptReason(reason: Reason): Reason {
  return withTexts(reason, (whole) => {
    const text = whole.replaceAll('\0', '')
    return text.length > longestValue ? `${text.slice(0, longestValue - 1)}…` : text
  })
}

/** The same reason with each text of its data changed. */
export function withTexts(reason: Reason, change: (text: string) => string): Reason {
  const changed = (value: ReasonValue | undefined): ReasonValue | undefined => {
    if (typeof value === 'string') return change(value)
    if (value === undefined || typeof value !== 'object') return value
    return Array.isArray(value)
      ? value.map((one) => withTexts(one, change))
      : withTexts(value as Reason, change)
  }
  if (reason.data === undefined) return { code: reason.code } as Reason
  const data = Object.entries(reason.data).map(([name, value]) => [name, changed(value)])
  return { code: reason.code, data: Object.fromEntries(data) } as Reason
}

const kinds: Readonly<Record<string, Reason>> = {
  undefined: { code: 'KIND_MISSING' },
  object: { code: 'KIND_OBJECT' },
  string: { code: 'KIND_STRING' },
  number: { code: 'KIND_NUMBER' },
  boolean: { code: 'KIND_BOOLEAN' },
}

/** What a value is, without showing it. */
export function kindOf(value: unknown): Reason {
  if (value === null) return { code: 'KIND_NULL' }
  if (Array.isArray(value)) return { code: 'KIND_LIST' }
  return kinds[typeof value] ?? { code: 'KIND_OTHER', data: { type: typeof value } }
}

/** An error whose message is the English sentence of its reason. */
export class ReasonError extends Error {
  readonly why: Reason

  constructor(why: Reason, options?: ErrorOptions) {
    super(sentenceOf(why, 'en'), options)
    this.why = why
  }
}
