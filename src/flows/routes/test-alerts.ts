import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { sentenceOf } from '../../texts/reason.ts'
import { toWire } from '../api/api-model.ts'
import { FlowParams, TestAlertsResponse } from '../api/control-schemas.ts'
import { actorNameOf } from './control-authentication.ts'
import { type ControlDeps, languageOf } from './control-deps.ts'

export const testAlertRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.post(
    '/flow/:name/test-alerts',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'testAlerts',
        summary: 'Send a test message to every alert channel of a flow',
        description: '400 when the flow has no alert channels.',
        tags: ['Monitoring'],
        params: FlowParams,
        response: {
          200: TestAlertsResponse,
          207: {
            description: 'At least one channel failed',
            content: { 'application/json': { schema: TestAlertsResponse } },
          },
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const results = await flows.testAlerts(name, actorNameOf(request))
      const answer = {
        flow: name,
        results: results.map((one) => ({
          ...one,
          error: one.why && sentenceOf(one.why, 'en'),
        })),
      }
      return reply
        .code(results.every(({ ok }) => ok) ? 200 : 207)
        .send(toWire(TestAlertsResponse, answer, languageOf(request)))
    },
  )
}
