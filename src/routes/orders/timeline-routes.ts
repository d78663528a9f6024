import { z } from 'zod'
import { pointFromCents } from '../../domain/money.ts'
import { orderStatuses } from '../../domain/order.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { readTimeline } from '../../payments/order-timeline.ts'
import { ClientOnlyQuery, iso, PointAmount, Timestamp } from '../fields.ts'
import { tenantOfRequest } from '../guards.ts'
import { OrderParams } from './schemas.ts'

const TimelineResponse = z
  .object({
    order_id: z.uuid(),
    entries: z.array(
      z
        .object({
          at: Timestamp,
          kind: z
            .enum(['asked', 'sent', 'state', 'cancel', 'refund', 'webhook', 'checked', 'expires'])
            .describe('What happened; `expires` lies ahead, `checked` is the last look only'),
          source: z.string().nullable().describe('Who brought a state: api, webhook or sweeper'),
          from_status: z.enum(orderStatuses).nullable(),
          to_status: z.enum(orderStatuses).nullable(),
          detail: z
            .string()
            .nullable()
            .describe('Status detail, state of a cancel or refund, or what became of a webhook'),
          note: z.string().nullable(),
          amount: PointAmount.nullable(),
          count: z.number().nullable().describe('Deliveries, checks or attempts'),
          duration_ms: z.number().nullable(),
        })
        .meta({
          id: 'TimelineEntry',
          example: {
            at: '2026-11-21T14:30:00.000Z',
            kind: 'state',
            source: 'webhook',
            from_status: 'at_terminal',
            to_status: 'processed',
            detail: 'accredited',
            note: null,
            amount: null,
            count: null,
            duration_ms: null,
          },
        }),
    ),
  })
  .meta({ id: 'Timeline' })

export function addTimelineRoute(app: HttpServer, deps: PaymentDeps): void {
  app.get(
    '/orders/:orderId/timeline',
    {
      config: { access: 'client', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'readTimeline',
        summary: 'What happened to an order, oldest first',
        description: 'From the records alone: the provider is not asked.',
        tags: ['Orders'],
        params: OrderParams,
        querystring: ClientOnlyQuery,
        response: { 200: TimelineResponse },
      },
    },
    async (request) => {
      const { order, entries } = await readTimeline(
        deps,
        tenantOfRequest(request),
        request.params.orderId,
      )
      return {
        order_id: order.id,
        entries: entries.map((entry) => ({
          at: iso(entry.at),
          kind: entry.kind,
          source: entry.source,
          from_status: entry.fromStatus,
          to_status: entry.toStatus,
          detail: entry.detail,
          note: entry.note,
          amount: entry.amountCents === null ? null : pointFromCents(entry.amountCents),
          count: entry.count,
          duration_ms: entry.durationMs,
        })),
      }
    },
  )
}
