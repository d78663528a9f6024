import { createHmac } from 'node:crypto'

/** Begins a secret of Standard Webhooks 1.0; base64 follows. */
export const secretPrefix = 'whsec_'
const base64 = /^[A-Za-z0-9+/]+={0,2}$/

/**
 * The key of a secret: the decoded part after `whsec_`, or the UTF-8 bytes of a secret without that prefix. `wrong`: it has the prefix,
 * and what follows is not base64.
 */
export function webhookKeyOf(secret: string): Buffer | 'wrong' {
  if (!secret.startsWith(secretPrefix)) return Buffer.from(secret, 'utf8')
  const encoded = secret.slice(secretPrefix.length)
  return base64.test(encoded) ? Buffer.from(encoded, 'base64') : 'wrong'
}

/** The headers of Standard Webhooks 1.0 for one attempt, with a signature for each key; without keys there is none. */
export function webhookHeaders(
  keys: readonly Buffer[],
  { id, at, body }: { id: string; at: Date; body: string },
): Record<string, string> {
  const timestamp = String(Math.floor(at.getTime() / 1_000))
  const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp }
  if (keys.length === 0) return headers
  const signatures = keys.map(
    (key) =>
      `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`,
  )
  return { ...headers, 'webhook-signature': signatures.join(' ') }
}
