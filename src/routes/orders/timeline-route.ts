import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { snakeCased } from '../../domain/field-names.ts'
import { pointFromCents } from '../../domain/money.ts'
import { orderStatuses } from '../../domain/order.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { readTimeline, timelineKinds } from '../../payments/orders/timeline.ts'
import { WhoSchema } from '../audit/activity-schemas.ts'
import { tenantOfRequest } from '../authentication.ts'
import { PointAmount, Timestamp } from '../field-schemas.ts'
import { OrderParams } from './order-schemas.ts'

const TimelineResponse = z
  .object({
    order_id: z.uuid(),
    complete: z
      .boolean()
      .describe(
        'False when there were more requests and calls than the 1,000 newest, which are here',
      ),
    entries: z.array(
      z
        .object({
          at: Timestamp,
          kind: z
            .enum(timelineKinds)
            .describe(
              'What happened; `request` is a call of this API, `call` one of the provider, `expires` lies ahead, `checked` is the last look only, `action` the entry of the audit log, with who and, in `note`, why',
            ),
          source: z
            .string()
            .nullable()
            .describe(
              'Who brought a state or caused a call: api, webhook or sweeper; who sent a request: key, admin or page; of an action whether it was a success or failed',
            ),
          from_status: z.enum(orderStatuses).nullable(),
          to_status: z.enum(orderStatuses).nullable(),
          detail: z
            .string()
            .nullable()
            .describe(
              'Status detail, state of a cancel or refund, what became of a webhook, or the name of a request or call',
            ),
          note: z.string().nullable().describe('A remark, or the code of an error'),
          amount: PointAmount.nullable(),
          count: z.number().nullable().describe('Deliveries, checks or attempts'),
          duration_ms: z.number().nullable(),
          http_status: z
            .number()
            .nullable()
            .describe('Of the answer to a request or call; null: there was none'),
          who: WhoSchema.nullable().describe(
            'Of an action: the person, the key, the administrator or the service',
          ),
          request_id: z
            .string()
            .nullable()
            .describe('Of a request ours, of a call the provider’s: for logs and support'),
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
            http_status: null,
            request_id: null,
            who: null,
          },
        }),
    ),
  })
  .meta({ id: 'Timeline' })

export const timelineRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '/:orderId/timeline',
    {
      ...app.forList,
      config: { needs: 'see', within: 'order', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'readTimeline',
        summary: 'What happened to an order, oldest first',
        description:
          'From the records alone: the provider is not asked. Requests and calls to the provider are listed when they failed, took 2 s or more, were repeated, or refunded or canceled; they are kept for 30 days. Creating and reading an order without trouble shows in asked, sent, state and checked.',
        params: OrderParams,
        response: { 200: TimelineResponse },
      },
    },
    async (request) => {
      const { order, entries, isComplete } = await readTimeline(
        deps,
        tenantOfRequest(request),
        request.params.orderId,
      )
      return {
        order_id: order.id,
        complete: isComplete,
        entries: entries.map(({ amountCents, ...entry }) => ({
          ...snakeCased(entry),
          amount: amountCents === null ? null : pointFromCents(amountCents),
        })),
      }
    },
  )
}
