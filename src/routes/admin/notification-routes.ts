import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { AppError } from '../../errors/app-error.ts'
import { recordSuccess } from '../../payments/audit/activity.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import { type Reason, sentenceOf } from '../../texts/reason.ts'

export type TestAlerts = () => Promise<
  { type: string; target: string; ok: boolean; why?: Reason }[]
>

const Tested = z.object({
  message: z.string(),
  results: z.array(
    z.object({
      type: z.string().describe('`email`, `slack` or `webhook`'),
      target: z.string().describe('Where it goes; secrets are masked'),
      ok: z.boolean(),
      error: z.string().optional(),
    }),
  ),
})

const arrived = { type: 'email', target: 'caja@shop.example', ok: true }
const failed = {
  type: 'webhook',
  target: 'https://hooks.shop.example/***',
  ok: false,
  error: 'HTTP 503',
}

const AlertsTested = Tested.meta({
  id: 'AlertsTested',
  example: { message: 'Every receiver got the message', results: [arrived] },
})

const AlertsTestedInPart = Tested.meta({
  id: 'AlertsTestedInPart',
  example: { message: 'Some receivers did not get the message', results: [arrived, failed] },
})

export const alertRoutes: FastifyPluginAsyncZod<{
  deps: PaymentDeps
  testAlerts: TestAlerts
}> = async (app, { deps, testAlerts }) => {
  app.post(
    '/test',
    {
      config: { needs: 'administer', errors: ['CONFLICT'] },
      schema: {
        operationId: 'testFleetAlerts',
        summary: 'Send a test message to every receiver of alerts',
        description:
          '409 when the settings (`ALERT_…`) name none. Quiet hours do not keep it back.',
        response: {
          200: AlertsTested,
          207: {
            description: 'At least one receiver does not have it',
            content: { 'application/json': { schema: AlertsTestedInPart } },
          },
        },
      },
    },
    async (request, reply) => {
      const results = await testAlerts()
      if (results.length === 0) {
        throw new AppError('CONFLICT', { message: 'No receiver of alerts is set (ALERT_…)' })
      }
      const isComplete = results.every(({ ok }) => ok)
      await deps.database.transaction((trx) =>
        recordSuccess(deps, trx, {
          client: null,
          actor: actorOf(deps, request),
          action: 'alerts.tested',
          resourceId: null,
          metadata: {
            arrived: results.filter(({ ok }) => ok).length,
            receivers: results.length,
          },
        }),
      )
      const message = isComplete
        ? 'Every receiver got the message'
        : 'Some receivers did not get the message'
      return reply.code(isComplete ? 200 : 207).send({
        message,
        results: results.map(({ why, ...result }) => ({
          ...result,
          ...(why && { error: sentenceOf(why, 'en') }),
        })),
      })
    },
  )
}
