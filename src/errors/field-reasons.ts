import { type Language, namedLanguage } from '../texts/language.ts'
import { filled, type TextKey } from '../texts/texts.ts'

/** Why the payment API refuses a field: the keys of texts that begin with `field.`. */
export type FieldReasonCode =
  Extract<TextKey, `field.${string}`> extends `field.${infer Code}` ? Code : never
export type FieldReason = {
  code: FieldReasonCode
  data?: Readonly<Record<string, string | number>> | undefined
}

/** The sentence, which follows the name of the field. The English one is the `message` of a detail. */
export function fieldSentence({ code, data = {} }: FieldReason, language: Language): string {
  return filled(language, `field.${code}`, data)
}

/** A reason as answers show it, with its sentence in the language that an Accept-Language names; undefined where it names none. */
export function shownFieldReason(why: FieldReason, acceptLanguage: string | undefined) {
  const language = namedLanguage(acceptLanguage)
  if (!language) return undefined
  const isOwn = why.code === 'FIELD_UNKNOWN' || why.code === 'FIELD_MISSING'
  return {
    code: isOwn ? why.code : ('VALUE_WRONG' as const),
    message: fieldSentence(why, language),
  }
}

const prefix = '{"field":'

/** A reason as the message of a Zod issue, which must be a text. `fieldReasonIn` decodes it. */
export function fieldMessage(reason: FieldReason): string {
  return JSON.stringify({ field: reason })
}

/** Undefined for Zod's own messages. */
export function fieldReasonIn(message: string): FieldReason | undefined {
  return message.startsWith(prefix)
    ? (JSON.parse(message) as { field: FieldReason }).field
    : undefined
}
