import { createHmac } from 'node:crypto'
import type { Secret } from '../domain/flow-secret.ts'
import type { ChannelDefinition, ChannelDeps, Notification, SendResult } from './channel.ts'
import { post } from './post.ts'

type WebhookDefinition = Extract<ChannelDefinition, { type: 'webhook' }>

export function openWebhook({ url: address, secret }: WebhookDefinition, deps: ChannelDeps) {
  const url = address.reveal()
  return {
    target: maskedAddress(address),
    async send(message: Notification, signal?: AbortSignal): Promise<SendResult> {
      const { type, data } = message.event
      const body = JSON.stringify({ type, timestamp: message.at, data })
      const key = secret && keyOf(secret.reveal())
      if (key === 'wrong') {
        return { ok: false, why: { code: 'SIGNING_SECRET_WRONG', data: { prefix } } }
      }
      const headers = signatureHeaders(key, { id: message.id, at: deps.now(), body })
      return await post(deps, { url, headers, body, signal })
    },
  }
}

const mask = '***'
const marker = '\u0000'

/** An address without its query, and without path parts that the flow file does not show itself. */
function maskedAddress(url: Secret): string {
  const { origin, pathname, search } = new URL(url.reveal())
  const shown = new Set(url.templateWith(marker).split(/[/?#]/))
  const path = pathname
    .split('/')
    .map((segment) => (segment === '' || shown.has(segment) ? segment : mask))
    .join('/')
  return `${origin}${path}${search && `?${mask}`}`
}

/** The headers of Standard Webhooks 1.0 for one attempt, without a signature if no secret is set. */
function signatureHeaders(
  key: Buffer | undefined,
  { id, at, body }: { id: string; at: Date; body: string },
): Record<string, string> {
  const timestamp = Math.floor(at.getTime() / 1_000)
  const headers = { 'webhook-id': id, 'webhook-timestamp': String(timestamp) }
  if (!key) return headers
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { ...headers, 'webhook-signature': `v1,${signature}` }
}

const prefix = 'whsec_'
const base64 = /^[A-Za-z0-9+/]+={0,2}$/

/**
 * The decoded part after `whsec_`, or the UTF-8 bytes of a secret without that prefix. `wrong`: it has the prefix, and what
 * follows is not base64.
 */
function keyOf(secret: string): Buffer | 'wrong' {
  if (!secret.startsWith(prefix)) return Buffer.from(secret, 'utf8')
  const encoded = secret.slice(prefix.length)
  return base64.test(encoded) ? Buffer.from(encoded, 'base64') : 'wrong'
}
