import { hash, timingSafeEqual } from 'node:crypto'

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
