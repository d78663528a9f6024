import type { ChannelDefinition, ChannelDeps, Notification, SendResult } from './channel.ts'
import { maskedAddress } from './masked-address.ts'
import { post } from './post.ts'
import { SigningSecretError, signatureHeaders } from './webhook-signature-headers.ts'

type WebhookDefinition = Extract<ChannelDefinition, { type: 'webhook' }>

export function openWebhook(definition: WebhookDefinition, deps: ChannelDeps) {
  const url = definition.url.reveal()
  return {
    target: maskedAddress(definition.url),
    async send(message: Notification, signal?: AbortSignal): Promise<SendResult> {
      const { type, data } = message.event
      const body = JSON.stringify({ type, timestamp: message.at, data })
      try {
        const headers = signatureHeaders(definition.secret?.reveal(), {
          id: message.id,
          at: deps.now(),
          body,
        })
        return await post(deps, { url, headers, body, signal })
      } catch (error) {
        if (!(error instanceof SigningSecretError)) throw error
        return { ok: false, why: error.why }
      }
    },
  }
}
