import { createHash, hash, randomBytes, timingSafeEqual } from 'node:crypto'

/** A new key value: `mk_` and 64 hexadecimal characters (256 random bits). Shown once, never stored. */
export function newApiKey(): string {
  return `mk_${randomBytes(32).toString('hex')}`
}

/** SHA-256 in hexadecimal of any secret that is looked up by its value. */
export function hashSecret(value: string): string {
  return createHash('sha256').update(value).digest('hex')
}

/** `mk_1a2b…9f0e`: enough to recognise a key, and the ellipsis keeps it from ever being one. */
export function maskApiKey(value: string): string {
  return `${value.slice(0, 7)}…${value.slice(-4)}`
}

/**
 * Whether two secrets are equal, in a time that tells nothing about either. The digests make the lengths equal, which
 * timingSafeEqual insists on, and hide where the first difference is.
 */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b))
}

/** `sameSecret` against one that stays: its digest is taken once. */
export function isSecret(secret: string): (given: string) => boolean {
  const expected = digest(secret)
  return (given) => timingSafeEqual(digest(given), expected)
}

function digest(secret: string): Buffer {
  return hash('sha256', secret, 'buffer')
}
