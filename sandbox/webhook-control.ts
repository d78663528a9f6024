import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { badCall, ControlError, oneOf, readCall } from './control-body.ts'
import type { Webhook } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { isRecord } from './validation-errors.ts'
import { webhookRows } from './webhooks.ts'

/** Where webhooks go, how they are signed, what was sent, and sending one by hand. */
export function webhookControl(app: FastifyInstance, ctx: Context): void {
  app.get('/_sandbox/webhooks', () => ({ ...ctx.webhooks, ...showQueue(ctx) }))

  app.put('/_sandbox/webhooks', (request) => {
    Object.assign(ctx.webhooks, readCall(Settings.partial(), request.body))
    ctx.wake()
    return ctx.webhooks
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

const http = 'must be an http address, or null'

const Settings = z.strictObject(
  {
    /** The case of `data.id` in the signature: real order webhooks matched lower case only (provider facts 6.4). */
    case: oneOf(['lower', 'as_received']),
    /** `auto`: milliseconds for orders, seconds for other topics, as in the provider's samples. */
    ts_unit: oneOf(['auto', 'ms', 's']),
    secret: oneOf(['right', 'wrong']),
    url: z
      .string(http)
      .refine((url) => /^https?:\/\//.test(url) && URL.canParse(url), http)
      .nullable(),
  },
  'send a JSON object with url, case, ts_unit or secret',
)

export type WebhookSettings = z.output<typeof Settings>

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
