import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import type { WebhookInbox } from '../../payments/webhooks/webhook-inbox.ts'
import { listWebhooks } from '../../repositories/webhooks/webhook-log.ts'
import { cursorsOf, timePageOf, timePlace } from '../list-cursor.ts'
import {
  ReplayResponse,
  WebhookLogsQuery,
  WebhookLogsResponse,
  WebhookParams,
} from './webhook-log-schemas.ts'

/** The stored webhooks, and what works one again. */
export const webhookLogRoutes: FastifyPluginAsyncZod<{
  deps: PaymentDeps
  inbox: WebhookInbox
}> = async (app, { deps, inbox }) => {
  app.get(
    '/logs',
    {
      ...app.forList,
      config: { needs: 'administer' },
      schema: {
        operationId: 'listWebhooks',
        summary: 'Latest webhooks, newest first',
        querystring: WebhookLogsQuery,
        response: { 200: WebhookLogsResponse },
      },
    },
    async (request) => {
      const { client } = request.query
      const page = await listWebhooks(deps.database.db, { client }, timePageOf(request.query))
      return {
        logs: page.rows,
        total: page.total,
        ...cursorsOf(page, (row) => timePlace(row.received_at, row.id)),
      }
    },
  )

  app.post(
    '/:id/replay',
    {
      config: { needs: 'administer' },
      schema: {
        operationId: 'replayWebhook',
        summary: 'Work a stored webhook again; the provider is read, so it is harmless',
        params: WebhookParams,
        response: { 200: ReplayResponse },
      },
    },
    async (request) => {
      const row = await inbox.replay(request.params.id, actorOf(deps, request))
      return { message: 'The webhook was processed again', webhook: row }
    },
  )
}
