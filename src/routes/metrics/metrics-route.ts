import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { PaymentMetrics } from '../../metrics/payment-metrics.ts'

const MetricsText = z.string().meta({
  id: 'PaymentMetrics',
  description: 'The text format of Prometheus',
  example: '# TYPE tillbridge_orders_unknown gauge\ntillbridge_orders_unknown 0\n',
})

export const metricsRoute: FastifyPluginAsyncZod<{ scrape: PaymentMetrics['scrape'] }> = async (
  app,
  { scrape },
) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'administer' },
      schema: {
        operationId: 'readPaymentMetrics',
        summary: 'Figures for Prometheus',
        description:
          'Requests, calls to the provider, charges, what waits and for how long. Answers without the database too: `tillbridge_database_up` is 0 then.',
        response: {
          200: {
            description: 'Figures in the text format of Prometheus',
            content: { 'text/plain': { schema: MetricsText } },
          },
        },
      },
    },
    async (_request, reply) => {
      const { body, contentType } = await scrape()
      return reply.type(contentType).send(body)
    },
  )
}
