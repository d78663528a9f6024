import { createHmac } from 'node:crypto'
import { ReasonError } from '../domain/flow-reasons.ts'

const prefix = 'whsec_'
const base64 = /^[A-Za-z0-9+/]+={0,2}$/

/** The secret has the prefix of Standard Webhooks, and what follows is not base64. */
export class SigningSecretError extends ReasonError {
  override readonly name = 'SigningSecretError'

  constructor() {
    super({ code: 'SIGNING_SECRET_WRONG', data: { prefix } })
  }
}

/**
 * The headers of Standard Webhooks 1.0 for one attempt, without a signature if no secret is set. The key is the
 * decoded part after `whsec_`, or the UTF-8 bytes of a secret without that prefix.
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
