import { en } from './en.ts'
import type { Language } from './language.ts'
import { publishedCode } from './published-codes.ts'
import { filled, isTextKey, type TextKey, type TextValue, type ValuesOf } from './texts.ts'

/**
 * Why a flow is paused, a poll failed, a record was not taken, a delivery failed or was skipped, a definition is wrong, or a request
 * is refused. A key without a point is such a reason.
 */
export type ReasonCode = Exclude<TextKey, `${string}.${string}`>

export const reasonCodes = Object.keys(en).filter(isReasonCode)

/** Whether there is such a reason: stored ones may come from another version. */
export function isReasonCode(code: string): code is ReasonCode {
  return !code.includes('.') && isTextKey(code)
}

type HintOf<Code extends ReasonCode> = `${Code}.hint` extends TextKey
  ? (typeof en)[`${Code}.hint`]
  : ''
type ReasonOf<Code extends ReasonCode> =
  ValuesOf<`${(typeof en)[Code]}${HintOf<Code>}`> extends infer Data
    ? undefined extends Data
      ? { readonly code: Code; readonly data?: Data | undefined }
      : { readonly code: Code; readonly data: Data }
    : never

/** Why something is as it is. No secrets. */
export type Reason = { [Code in ReasonCode]: ReasonOf<Code> }[ReasonCode]

/** As it is stored: a process of a newer version may have written a code that this one does not know. */
export type StoredReason = { code: string; data?: { [name: string]: unknown } | undefined }

/** The sentence of a reason; undefined when its code is not known here. Languages without texts of their own get English. */
export function sentenceOf(reason: Reason, language: Language): string
export function sentenceOf(reason: StoredReason, language: Language): string | undefined
export function sentenceOf({ code, data = {} }: StoredReason, language: Language) {
  return isTextKey(code) ? filled(language, code, data) : undefined
}

/** A reason as an API shows it, with its sentence in the reader's language; null where only a sentence was recorded. */
export function shownReason(why: Reason | StoredReason | null, language: Language) {
  if (why === null) return null
  const stored = why as StoredReason
  return { ...publishedReason(stored), message: sentenceOf(stored, language) ?? null }
}

/** These say at which source or file another reason was found, in `what`. */
const places: readonly string[] = ['AT_SOURCE', 'AT_ADDRESS', 'IN_FILE']

/** Its published code. A reason without a code of its own has no data: they are names within its sentence. */
function publishedReason({ code, data = {} }: StoredReason): Required<StoredReason> {
  if (places.includes(code) && isReason(data.what)) return publishedReason(data.what)
  const shown = publishedCode(code)
  if (shown !== code) return { code: shown, data: {} }
  const values = Object.entries(data).map(([name, value]) => [name, publishedValue(value)])
  return { code, data: Object.fromEntries(values) }
}

function publishedValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(publishedValue)
  return isReason(value) ? publishedReason(value) : value
}

function isReason(value: unknown): value is StoredReason {
  return typeof value === 'object' && value !== null && 'code' in value
}

/** What to do about it, where that is not in the sentence; null when nothing is said of that. */
export function hintOf({ code, data = {} }: Reason, language: Language): string | null {
  const key = `${code}.hint`
  return (isTextKey(key) && filled(language, key, data)) || null
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
  const changed = (value: TextValue | undefined): TextValue | undefined => {
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
