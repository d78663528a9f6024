import { createHash } from 'node:crypto'

const longestReference = 64
const plainReference = /^[A-Za-z0-9_-]{1,64}$/

/** The ending that only this file makes: of an encoded text. */
const encodedEnding = /_x[0-9a-f]{32}(?:-[0-9]+)?$/

/**
 * The `external_reference` sent to the provider, in `[A-Za-z0-9_-]{1,64}`.
 *
 * - Attempt 1 of a text in that alphabet is the text itself.
 * - Attempt n from 2 on ends in `-n`: "A" twice gives `A` and `A-2`.
 * - Any other text, one that is too long for its ending and one that ends like an encoded text becomes readable
 *   characters, `_x` and 128 bits of SHA-256 over the text.
 *
 * Different texts never meet at attempt 1, nor do different attempts of one text. The second "A" does meet an ERP's own
 * "A-2": the database keeps references unique per account, and whoever comes second takes its next attempt.
 */
export function encodeReference(text: string, attempt: number): string {
  if (!Number.isSafeInteger(attempt) || attempt < 1) {
    throw new RangeError('attempt must be a whole number from 1')
  }
  const ending = attempt === 1 ? '' : `-${attempt}`
  const room = longestReference - ending.length
  const keep = plainReference.test(text) && !encodedEnding.test(text) && text.length <= room
  const base = keep
    ? text
    : `${readable(text, /[^A-Za-z0-9_-]+/g, '-').slice(0, 12)}_x${digest(text, 32)}`
  return base + ending
}

/** Which attempt of this text the reference stands for; undefined when it stands for none. */
export function attemptOfReference(reference: string, text: string): number | undefined {
  const numbered = splitReference(reference)
  const attempts = numbered ? [1, numbered.attempt] : [1]
  return attempts.find((attempt) => encodeReference(text, attempt) === reference)
}

/** A reference that may be a later attempt: what it was made of and its number. "A-2" may also be a text of its own. */
export function splitReference(reference: string): { base: string; attempt: number } | undefined {
  const [, base, digits] = /^(.+)-([1-9][0-9]{0,8})$/.exec(reference) ?? []
  const attempt = Number(digits)
  return base === undefined || attempt < 2 ? undefined : { base, attempt }
}

/** Whether only this service can have made the reference: it ends as an encoded text does. */
export function isEncodedReference(reference: string): boolean {
  return encodedEnding.test(reference)
}

/**
 * The `external_id` of a store (`max` 60) or POS (39): letters and digits only. A text that is so already stays, any other
 * becomes readable characters, `x` and 96 bits of SHA-256 over the text. Different texts give different ids, short of a
 * collision of those bits.
 */
export function encodeExternalId(text: string, max: number): string {
  const keep = /^[A-Za-z0-9]+$/.test(text) && text.length <= max && !/x[0-9a-f]{24}$/.test(text)
  if (keep) return text
  return `${readable(text, /[^A-Za-z0-9]+/g, '').slice(0, max - 25)}x${digest(text, 24)}`
}

function readable(text: string, others: RegExp, instead: string): string {
  return text.normalize('NFKD').replace(/\p{M}/gu, '').replace(others, instead)
}

/** UTF-16 keeps apart even texts that are not well formed; UTF-8 would make their broken halves equal. */
function digest(text: string, hexDigits: number): string {
  return createHash('sha256').update(text, 'utf16le').digest('hex').slice(0, hexDigits)
}
