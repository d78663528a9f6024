import { sentenceOf } from '../../domain/flow-reasons.ts'
import type { HttpServer } from '../../http/create-server.ts'
import { toWire } from '../api-model.ts'
import { givenKey } from '../item/item.ts'
import {
  actorOf,
  type ControlDeps,
  forFlow,
  forOperators,
  languageOf,
  viewProblem,
} from './control-deps.ts'
import {
  FlowParams,
  ReloadResponse,
  RetryBody,
  RetryResponse,
  TestAlertsResponse,
  TryBody,
  TryResponse,
} from './control-schemas.ts'

export function addRetryAndReload(app: HttpServer, { flows }: ControlDeps): void {
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

  app.post(
    '/flow/:name/retry',
    {
      ...forFlow,
      schema: {
        operationId: 'retryFailures',
        summary: 'Send failed deliveries again: one, a group, or all',
        tags: ['Sync'],
        params: FlowParams,
        body: RetryBody,
        response: { 200: RetryResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const { destination, pk, error, cause } = request.body ?? {}
      const retried = await flows.retryFailed(
        { flow: name, destination, pk: pk && givenKey(pk), error, cause },
        actorOf(request),
      )
      return { name, retried }
    },
  )

  app.post(
    '/flow/:name/try',
    {
      ...forFlow,
      schema: {
        operationId: 'tryDestinations',
        summary: 'Attempt the pending deliveries now',
        description:
          'Deliveries that wait between two attempts are due at once. One attempt starts although sending is suspended or the destination asked to wait. 404 for a destination that the flow does not have.',
        tags: ['Sync'],
        params: FlowParams,
        body: TryBody,
        response: { 200: TryResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      return { name, due: await flows.tryNow(name, request.body?.destination, actorOf(request)) }
    },
  )

  app.post(
    '/flows/reload',
    {
      ...forOperators,
      schema: {
        operationId: 'reloadFlows',
        summary: 'Read the flow files again',
        description: 'A file with problems stops nothing: its flow keeps its old definition.',
        tags: ['Flows'],
        response: { 200: ReloadResponse },
      },
    },
    async (request) => {
      const { flows: names, problems } = await flows.reload(actorOf(request))
      const language = languageOf(request)
      return { flows: names, problems: problems.map((one) => viewProblem(one, language)) }
    },
  )
}
