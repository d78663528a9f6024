import { createHash, randomBytes } from 'node:crypto'

/** 256 random bits in base64url: 43 characters, the shortest verifier that RFC 7636 allows. */
export function randomToken(): string {
  return randomBytes(32).toString('base64url')
}

/** The S256 challenge of a verifier (RFC 7636, section 4.2). */
export function codeChallenge(verifier: string): string {
  return createHash('sha256').update(verifier).digest('base64url')
}
