import { createHash, hash } from 'node:crypto'
import { uuidOfHash } from './uuid.ts'

/*
 * How a thing of ours is named at the provider: the idempotency key of an operation, the reference of an order, and the
 * id of a store or box. Each depends only on its parts, so all machines compute the same.
 */

/**
 * The identity of a request, equal for all its repetitions, as 64 hex digits.
 */
export function requestKey(...parts: readonly (string | number)[]): string {
  return hash('sha256', JSON.stringify(parts))
}

/**
 * The provider's idempotency key for attempt `number` (from 1) of a request. It follows from the request. So a service with a restored database sends the same key again, and the provider answers
 * with what it made before.
 */
export function providerKey(request: string, number: number): string {
  return uuidOfHash(`${request} ${number}`)
}

/** What makes requests without an Idempotency-Key the same sale. */
export function saleKey(
  client: string,
  mpUserId: number,
  sale: { cajaId: string; externalReference: string; amountCents: number },
): string {
  const { cajaId, externalReference, amountCents } = sale
  const reference = externalReference.normalize('NFC')
  return requestKey('sale', client, mpUserId, cajaId, reference, amountCents)
}

const longestReference = 64
const plainReference = /^[A-Za-z0-9_-]{1,64}$/

/** The ending of an encoded text; only this file makes it. */
const encodedEnding = /_x[0-9a-f]{32}(?:-[0-9]+)?$/

/**
 * The `external_reference` sent to the provider, in `[A-Za-z0-9_-]{1,64}`.
 *
 * - Attempt 1 of a text in that alphabet is the text itself.
 * - Attempt n from 2 on ends in `-n`: "A" twice gives `A` and `A-2`.
 * - Any other text, one that is too long for its ending and one that ends like an encoded text becomes readable
 * characters, `_x` and 128 bits of SHA-256 over the text.
 *
 * Different texts never collide at attempt 1, nor do different attempts of one text. The second "A" does collide with
 * an ERP's own "A-2". The database keeps references unique per account, so the later order uses its next attempt.
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

/** The attempt of this text that the reference means; undefined when it means none. */
export function attemptOfReference(reference: string, text: string): number | undefined {
  const numbered = splitReference(reference)
  const attempts = numbered ? [1, numbered.attempt] : [1]
  return attempts.find((attempt) => encodeReference(text, attempt) === reference)
}

/** The base and number of a reference that may be a later attempt. "A-2" may also be a text of its own. */
export function splitReference(reference: string): { base: string; attempt: number } | undefined {
  const [, base, digits] = /^(.+)-([1-9][0-9]{0,8})$/.exec(reference) ?? []
  const attempt = Number(digits)
  return base === undefined || attempt < 2 ? undefined : { base, attempt }
}

/** Whether only this service can have made the reference: it ends like an encoded text. */
export function isEncodedReference(reference: string): boolean {
  return encodedEnding.test(reference)
}

/**
 * The `external_id` of a store (`max` 60) or POS (39): letters and digits only. A text of only these stays unchanged.
 * Any other becomes readable characters, `x` and 96 bits of SHA-256 over the text. Different texts give different ids,
 * unless those bits collide.
 */
export function encodeExternalId(text: string, max: number): string {
  const keep = /^[A-Za-z0-9]+$/.test(text) && text.length <= max && !/x[0-9a-f]{24}$/.test(text)
  if (keep) return text
  return `${readable(text, /[^A-Za-z0-9]+/g, '').slice(0, max - 25)}x${digest(text, 24)}`
}

function readable(text: string, others: RegExp, instead: string): string {
  return text.normalize('NFKD').replace(/\p{M}/gu, '').replace(others, instead)
}

/** UTF-16 keeps even malformed texts different; UTF-8 would make their broken halves equal. */
function digest(text: string, hexDigits: number): string {
  return createHash('sha256').update(text, 'utf16le').digest('hex').slice(0, hexDigits)
}
