import { Agent, request } from 'undici'
import type { Webhook } from './rows.ts'
import { applicationOf, type Context } from './sandbox-context.ts'
import { signatureManifest, signManifest } from './webhook-signing.ts'

/** The provider waits this long for a 200 (provider facts 6.1). */
const answerMs = 22_000
const atOnce = 16
const keptDeliveries = 1000

export type WebhookSender = {
  /** Starts every due attempt, at most 16 at once. */
  sendDue: () => void
  /** When the next attempt is due, in milliseconds of the sandbox's clock; undefined for none. */
  nextAt: () => number | undefined
  close: () => Promise<void>
}

/** Sends the webhooks of the ledger and retries them. A webhook leaves the ledger at its first 2xx. */
export function createWebhookSender(ctx: Context): WebhookSender {
  const agent = new Agent({ connections: atOnce })
  const inFlight = new Set<string>()
  const stop = new AbortController()

  function mayGo(webhook: Webhook): boolean {
    if (inFlight.has(webhook.id)) return false
    const waiting = ctx.waitingForNext.get(webhook.id)
    if (waiting !== undefined && waiting.after !== null) {
      const other = ctx.state.tables.webhooks.get(waiting.after)
      return other === undefined || other.attempts > 0
    }
    return webhook.nextAt <= ctx.nowMs()
  }

  async function send(webhook: Webhook, url: string): Promise<void> {
    inFlight.add(webhook.id)
    ctx.waitingForNext.delete(webhook.id)
    let status: number | null = null
    let error: string | null = null
    try {
      const separator = url.includes('?') ? '&' : '?'
      const target = `${url}${separator}data.id=${encodeURIComponent(webhook.dataId)}&type=${encodeURIComponent(webhook.type)}`
      const answer = await request(target, {
        method: 'POST',
        dispatcher: agent,
        signal: AbortSignal.any([stop.signal, AbortSignal.timeout(answerMs)]),
        headers: webhookHeaders(ctx, webhook),
        body: JSON.stringify(webhook.body),
      })
      status = answer.statusCode
      await answer.body.dump()
    } catch (cause) {
      error = cause instanceof Error ? cause.message : String(cause)
    }
    inFlight.delete(webhook.id)
    if (stop.signal.aborted) return
    settle(webhook, status, error)
    ctx.wake()
  }

  function settle(webhook: Webhook, status: number | null, error: string | null): void {
    const attempt = webhook.attempts + 1
    ctx.deliveries.push({
      at: new Date(ctx.nowMs()).toISOString(),
      id: webhook.id,
      action: webhook.action,
      data_id: webhook.dataId,
      request_id: webhook.requestId,
      attempt,
      status,
      error,
    })
    if (ctx.deliveries.length > keptDeliveries) ctx.deliveries.shift()
    if (status !== null && status >= 200 && status < 300) {
      ctx.state.commit('webhook.delivered', webhook.id, { webhooks: { [webhook.id]: null } })
      return
    }
    const delays = ctx.webhookRetryMs
    const delayMs = delays[Math.min(webhook.attempts, delays.length - 1)] ?? 900_000
    const next = { ...webhook, attempts: attempt, nextAt: ctx.nowMs() + delayMs }
    ctx.state.commit('webhook.failed', webhook.id, { webhooks: { [webhook.id]: next } })
  }

  return {
    sendDue: () => {
      const { url } = ctx.webhooks
      if (url === null || stop.signal.aborted) return
      for (const webhook of ctx.state.tables.webhooks.values()) {
        if (inFlight.size >= atOnce) return
        if (mayGo(webhook)) void send(webhook, url)
      }
    },
    nextAt: () => {
      if (ctx.webhooks.url === null || inFlight.size >= atOnce) return undefined
      let next: number | undefined
      for (const webhook of ctx.state.tables.webhooks.values()) {
        if (inFlight.has(webhook.id)) continue
        next = Math.min(next ?? Number.POSITIVE_INFINITY, webhook.nextAt)
      }
      return next
    },
    close: async () => {
      stop.abort()
      await agent.destroy()
    },
  }
}

function webhookHeaders(ctx: Context, webhook: Webhook): Record<string, string> {
  const { case: letters, ts_unit: unit, secret: which } = ctx.webhooks
  const now = ctx.nowMs()
  const seconds = unit === 's' || (unit === 'auto' && webhook.type !== 'order')
  const ts = String(seconds ? Math.floor(now / 1000) : now)
  const id = letters === 'lower' ? webhook.dataId.toLowerCase() : webhook.dataId
  const right = applicationOf(ctx).webhookSecrets[0] ?? ''
  const secret = which === 'wrong' || webhook.badSignature ? `not-${right}` : right
  const v1 = signManifest(secret, signatureManifest(id, webhook.requestId, ts))
  return {
    'content-type': 'application/json',
    'x-signature': `ts=${ts},v1=${v1}`,
    'x-request-id': webhook.requestId,
    'x-retry': String(webhook.attempts),
    'x-socket-timeout': String(answerMs),
    'x-rest-pool-name': '/services/webhooks.js',
    'user-agent': 'restclient-node/4.15.3',
  }
}
