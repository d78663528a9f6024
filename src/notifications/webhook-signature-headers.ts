import { createHmac } from 'node:crypto'

const prefix = 'whsec_'
const base64 = /^[A-Za-z0-9+/]+={0,2}$/

/** The secret has the prefix of Standard Webhooks, and what follows is not base64. */
export class SigningSecretError extends Error {
  constructor() {
    super(`the secret begins with ${prefix}, but what follows is not base64`)
    this.name = 'SigningSecretError'
  }
}

/**
 * The headers of Standard Webhooks 1.0 for one attempt; the signature is left out without a secret. The key is what
 * `whsec_` encodes, or the UTF-8 bytes of a secret without that prefix.
 *
 * @throws SigningSecretError
 */
export function signatureHeaders(
  secret: string | undefined,
  message: { id: string; at: Date; body: string },
): Record<string, string> {
  const timestamp = Math.floor(message.at.getTime() / 1_000)
  const headers = { 'webhook-id': message.id, 'webhook-timestamp': String(timestamp) }
  if (secret === undefined) return headers
  const signature = createHmac('sha256', keyOf(secret))
    .update(`${message.id}.${timestamp}.${message.body}`)
    .digest('base64')
  return { ...headers, 'webhook-signature': `v1,${signature}` }
}

function keyOf(secret: string): Buffer {
  if (!secret.startsWith(prefix)) return Buffer.from(secret, 'utf8')
  const encoded = secret.slice(prefix.length)
  if (!base64.test(encoded)) throw new SigningSecretError()
  return Buffer.from(encoded, 'base64')
}
