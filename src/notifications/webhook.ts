import type { Secret } from '../domain/flow-secret.ts'
import { secretPrefix, webhookHeaders, webhookKeyOf } from '../outbound/standard-webhook.ts'
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
      const key = secret && webhookKeyOf(secret.reveal())
      if (key === 'wrong') {
        return { ok: false, why: { code: 'SIGNING_SECRET_WRONG', data: { prefix: secretPrefix } } }
      }
      const headers = webhookHeaders(key ? [key] : [], { id: message.id, at: deps.now(), body })
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
