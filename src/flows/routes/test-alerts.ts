import type { HttpServer } from '../../http/create-server.ts'
import { sentenceOf } from '../../texts/reason.ts'
import { toWire } from '../api-model.ts'
import { actorOf, type ControlDeps, forFlow, languageOf } from './control-deps.ts'
import { FlowParams, TestAlertsResponse } from './control-schemas.ts'

export function addTestAlerts(app: HttpServer, { flows }: ControlDeps): void {
  app.post(
    '/flow/:name/test-alerts',
    {
      ...forFlow,
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
      const results = await flows.testAlerts(name, actorOf(request))
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
