import type { ChannelDefinition, ChannelDeps, SendResult } from './channel.ts'
import { maskedAddress } from './mask.ts'
import { type AlertMessage, retryCall } from './message.ts'
import { post } from './post.ts'
import { SigningSecretError, signatureHeaders } from './signature.ts'

type WebhookDefinition = Extract<ChannelDefinition, { type: 'webhook' }>

const types = {
  test: 'flow.test',
  failed: 'flow.failed',
  reminder: 'flow.failed.reminder',
  recovered: 'flow.recovered',
  degraded: 'flow.degraded',
  restored: 'flow.restored',
} as const satisfies Record<AlertMessage['kind'], string>

export function openWebhook(definition: WebhookDefinition, deps: ChannelDeps) {
  const url = definition.url.reveal()
  return {
    target: maskedAddress(definition.url),
    async send(message: AlertMessage, signal?: AbortSignal): Promise<SendResult> {
      const body = JSON.stringify(webhookBody(message))
      try {
        const headers = signatureHeaders(definition.secret?.reveal(), {
          id: message.id,
          at: deps.now(),
          body,
        })
        return await post(deps, { url, headers, body, signal })
      } catch (error) {
        if (!(error instanceof SigningSecretError)) throw error
        return { ok: false, error: error.message }
      }
    },
  }
}

function webhookBody({ id: _id, at, kind, ...data }: AlertMessage) {
  const retry =
    'destination' in data && (kind === 'failed' || kind === 'reminder')
      ? { retry: retryCall(data.flow, data.destination) }
      : {}
  return { type: types[kind], timestamp: at, data: { ...data, ...retry } }
}
