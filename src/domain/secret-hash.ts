import { hash, timingSafeEqual } from 'node:crypto'

/** SHA-256 in hexadecimal of a secret that is looked up by its value. */
export function hashSecret(value: string): string {
  return hash('sha256', value)
}

/**
 * Whether two secrets are equal, in constant time. The digests make the lengths equal, which timingSafeEqual requires,
 * and hide where the first difference is.
 */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b))
}

/** Whether two results of `hashSecret` are equal, in constant time: they are equally long. */
export function sameHash(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(a), Buffer.from(b))
}

/** `sameSecret` against a fixed secret: its digest is computed once. */
export function isSecret(secret: string): (given: string) => boolean {
  const expected = digest(secret)
  return (given) => timingSafeEqual(digest(given), expected)
}

function digest(secret: string): Buffer {
  return hash('sha256', secret, 'buffer')
}
