import { createHmac, timingSafeEqual } from 'node:crypto'

export type SignatureInput = {
  /** Header `x-signature`; a repeated header (array) is refused. */
  xSignature: string | string[] | undefined
  xRequestId: string | string[] | undefined
  /** `data.id` of the query string, as received. */
  dataId: string | string[] | undefined
  /** All are tried, because secrets rotate. */
  secrets: readonly string[]
  now: Date
}

type SignatureCheck =
  | {
      valid: true
      /** Whether the id was signed in lower case or, if that differs, as received. */
      form: 'lower' | 'as_received'
      /** When it was signed, in milliseconds since 1970. */
      tsMs: number
    }
  | { valid: false; reason: 'missing' | 'malformed' | 'mismatch' | 'too_old' }

/** The provider repeats a delivery for about a day. A captured one must not be valid for ever. */
const oldestMs = 48 * 3600_000
/** A signature may be from the future by this: clocks differ. */
const newestMs = 3600_000

const hexDigest = /^[0-9a-f]{64}$/
const clockDigits = /^(?:[0-9]{10}|[0-9]{13})$/
const separator = /[;\p{Cc}]/u

/**
 * Checks a webhook's signature (provider file 6.4): HMAC-SHA256 over `id:…;request-id:…;ts:…;`, absent parts left out.
 * The documentation signs the id in lower case, the provider's SDKs as received: both are accepted. `ts` of 13 digits
 * is milliseconds, of 10 digits seconds. Neither the body nor the letter case of the id is signed.
 */
export function verifySignature(input: SignatureInput): SignatureCheck {
  const { xSignature, xRequestId, dataId } = input
  if (xSignature === undefined || xSignature === '') return { valid: false, reason: 'missing' }
  if (Array.isArray(xSignature) || Array.isArray(xRequestId) || Array.isArray(dataId)) {
    return { valid: false, reason: 'malformed' }
  }
  const parts = parseHeader(xSignature)
  // With a separator inside a part, one signature would fit several splits of the same manifest.
  const split = separator.test(dataId ?? '') || separator.test(xRequestId ?? '')
  if (!parts || split) return { valid: false, reason: 'malformed' }

  const form = matchingForm(parts, dataId ?? '', xRequestId ?? '', input.secrets)
  if (!form) return { valid: false, reason: 'mismatch' }
  const tsMs = parts.ts.length === 13 ? Number(parts.ts) : Number(parts.ts) * 1000
  const ageMs = input.now.getTime() - tsMs
  if (ageMs > oldestMs || ageMs < -newestMs) return { valid: false, reason: 'too_old' }
  return { valid: true, form, tsMs }
}

function parseHeader(header: string): { ts: string; v1: string } | undefined {
  const parts = new Map<string, string>()
  for (const part of header.split(',')) {
    const at = part.indexOf('=')
    const name = part.slice(0, Math.max(at, 0)).trim()
    if (at < 1 || parts.has(name)) return undefined
    parts.set(name, part.slice(at + 1).trim())
  }
  const ts = parts.get('ts') ?? ''
  const v1 = parts.get('v1') ?? ''
  return clockDigits.test(ts) && hexDigest.test(v1) ? { ts, v1 } : undefined
}

function matchingForm(
  parts: { ts: string; v1: string },
  dataId: string,
  requestId: string,
  secrets: readonly string[],
): 'lower' | 'as_received' | undefined {
  const given = Buffer.from(parts.v1, 'hex')
  const lower = dataId.toLowerCase()
  for (const secret of secrets) {
    if (secret === '') continue
    if (matches(secret, manifest(lower, requestId, parts.ts), given)) return 'lower'
    if (lower !== dataId && matches(secret, manifest(dataId, requestId, parts.ts), given)) {
      return 'as_received'
    }
  }
  return undefined
}

function manifest(dataId: string, requestId: string, ts: string): string {
  const id = dataId === '' ? '' : `id:${dataId};`
  const request = requestId === '' ? '' : `request-id:${requestId};`
  return `${id}${request}ts:${ts};`
}

function matches(secret: string, text: string, given: Buffer): boolean {
  return timingSafeEqual(createHmac('sha256', secret).update(text).digest(), given)
}
