import type { FastifyInstance } from 'fastify'
import { badCall, ControlError } from './control-error.ts'
import { type Fields, isRecord } from './problems.ts'
import type { Webhook } from './rows.ts'
import type { Context, WebhookSettings } from './sandbox-context.ts'
import { webhookRows } from './webhooks.ts'

/** Where webhooks go, how they are signed, what was sent, and sending one by hand. */
export function webhookControl(app: FastifyInstance, ctx: Context): void {
  app.get('/_sandbox/webhooks', () => ({ ...showSettings(ctx), ...showQueue(ctx) }))

  app.put('/_sandbox/webhooks', (request) => {
    Object.assign(ctx.webhooks, readSettings(request.body))
    ctx.wake()
    return showSettings(ctx)
  })

  // Any topic with any body: legacy topics, the panel's own test, forged owners.
  app.post('/_sandbox/webhooks', (request, reply) => {
    const { type, data_id: dataId, body } = isRecord(request.body) ? request.body : {}
    if (typeof type !== 'string' || typeof dataId !== 'string') {
      throw badCall('send {type, data_id, body?}, the first two as strings')
    }
    if (body !== undefined && !isRecord(body)) throw badCall('body must be an object')
    if (ctx.webhooks.url === null) throw new ControlError(409, 'no webhook address is set')
    const webhooks = webhookRows(ctx, type, dataId, body ?? { type, data: { id: dataId } })
    ctx.state.commit('webhook.made', dataId, { webhooks })
    ctx.wake()
    return reply.code(202).send({ queued: Object.keys(webhooks).length })
  })

  app.post('/_sandbox/webhooks/flush', (_request, reply) => {
    const now = ctx.nowMs()
    const webhooks: Record<string, Webhook> = {}
    for (const [id, webhook] of ctx.state.tables.webhooks) {
      webhooks[id] = { ...webhook, nextAt: Math.min(webhook.nextAt, now) }
    }
    ctx.state.commit('webhook.flushed', '', { webhooks })
    ctx.wake()
    return reply.code(202).send({ queued: Object.keys(webhooks).length })
  })
}

const choices: { [K in 'case' | 'ts_unit' | 'secret']: readonly string[] } = {
  case: ['lower', 'as_received'],
  ts_unit: ['auto', 'ms', 's'],
  secret: ['right', 'wrong'],
}

function readSettings(body: unknown): Partial<WebhookSettings> {
  if (!isRecord(body)) throw badCall('send a JSON object with url, case, ts_unit or secret')
  const extra = Object.keys(body).find((key) => key !== 'url' && !Object.hasOwn(choices, key))
  if (extra !== undefined) throw badCall(`${extra} is not known`)
  for (const [key, allowed] of Object.entries(choices)) {
    const value = body[key]
    if (value !== undefined && !allowed.includes(String(value))) {
      throw badCall(`${key} must be one of ${allowed.join(', ')}`)
    }
  }
  return { ...readUrl(body), ...pick(body) }
}

function readUrl(body: Fields): Partial<WebhookSettings> {
  const { url } = body
  if (url === undefined) return {}
  if (url === null) return { url }
  if (typeof url !== 'string' || !/^https?:\/\//.test(url) || !URL.canParse(url)) {
    throw badCall('url must be an http address, or null')
  }
  return { url }
}

function pick(body: Fields): Partial<WebhookSettings> {
  const settings: Partial<WebhookSettings> = {}
  if (body.case !== undefined) settings.case = body.case === 'lower' ? 'lower' : 'as_received'
  if (body.secret !== undefined) settings.secret = body.secret === 'right' ? 'right' : 'wrong'
  const unit = body.ts_unit
  if (unit === 'ms' || unit === 's' || unit === 'auto') settings.tsUnit = unit
  return settings
}

function showSettings(ctx: Context): object {
  const { url, case: letters, tsUnit, secret } = ctx.webhooks
  return { url, case: letters, ts_unit: tsUnit, secret }
}

function showQueue(ctx: Context): object {
  const pending = [...ctx.state.tables.webhooks.values()].map((webhook) => ({
    id: webhook.id,
    action: webhook.action,
    data_id: webhook.dataId,
    attempts: webhook.attempts,
    next_at: new Date(webhook.nextAt).toISOString(),
  }))
  return { pending, deliveries: ctx.deliveries }
}
