import { deriveFlow } from '../../fleet/flow-health.ts'
import type { Health } from '../../fleet/health-states.ts'
import { messageOf } from '../../fleet/health-texts.ts'
import { buildInfo } from '../../http/build-info.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { Language } from '../../texts/language.ts'
import { shownReason } from '../../texts/reason.ts'
import { toWire } from '../api-model.ts'
import type { FlowStatus } from '../control/control-service-types.ts'
import { prometheusText, wantsPrometheus } from '../flow-metrics.ts'
import { givenKey } from '../item/item.ts'
import { type ControlDeps, forOperators, languageOf, viewProblem } from './control-deps.ts'
import {
  ActivityQuery,
  ActivityResponse,
  ErrorsQuery,
  ErrorsResponse,
  Flow,
  FlowMetrics,
  FlowStatus as FlowStatusSchema,
  FlowsResponse,
  FlowWithoutDefinition,
  HealthResponse,
  MetricsResponse,
  MetricsText,
  StatsResponse,
  StatusResponse,
} from './control-schemas.ts'

/** The status with the code of its reason, which the page reads. */
const withCode = (status: FlowStatus) => ({
  ...status,
  code: shownReason(status.why, 'en')?.code ?? null,
})

function healthOf(health: Health | undefined, language: Language, at: Date) {
  return health ? { ...health, message: messageOf(health, language, at) } : null
}

export function addStatus(
  app: HttpServer,
  { flows, now, registry, dashboardPage, shopTimeZone, requireDatabase, isOperator }: ControlDeps,
): void {
  app.get(
    '/health',
    {
      config: { access: 'public', errors: ['RATE_LIMITED'] },
      schema: {
        operationId: 'readControlHealth',
        summary: 'Whether the flow side can work',
        tags: ['Service'],
        response: { 200: HealthResponse },
      },
    },
    async (request) => {
      await requireDatabase()
      const answer = { status: 'ok' as const, timestamp: now().toISOString() }
      if (!(await isOperator(request))) return answer
      return { ...answer, version: buildInfo.version, commit: await buildInfo.commit() }
    },
  )

  app.get(
    '/stats',
    {
      ...forOperators,
      schema: {
        operationId: 'readStats',
        summary: 'Counts of deliveries',
        tags: ['Monitoring'],
        response: { 200: StatsResponse },
      },
    },
    () => flows.stats(),
  )

  app.get(
    '/metrics',
    {
      config: { access: 'metrics', compressed: true },
      schema: {
        operationId: 'readMetrics',
        summary: 'Figures of each flow; Prometheus text when Accept asks for it',
        tags: ['Monitoring'],
        response: {
          200: {
            description: 'Figures by flow',
            content: {
              'application/json': { schema: MetricsResponse },
              'text/plain': { schema: MetricsText },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const metrics = await flows.metrics()
      if (wantsPrometheus(request.headers.accept)) {
        const text = await prometheusText(
          { metrics, stats: await flows.stats(), status: await flows.status() },
          now(),
        )
        // The JSON serializer of the route is for the other form.
        return reply
          .type(registry.contentType)
          .serializer(String)
          .send(`${await registry.metrics()}\n${text}` as never)
      }
      return Object.fromEntries(
        [...metrics].map(([name, figures]) => [
          name,
          toWire(FlowMetrics, figures, languageOf(request)),
        ]),
      )
    },
  )

  app.get(
    '/errors',
    {
      config: { ...forOperators.config, compressed: true },
      schema: {
        operationId: 'listErrors',
        summary: 'Failures, newest first',
        tags: ['Monitoring'],
        querystring: ErrorsQuery,
        response: { 200: ErrorsResponse },
      },
    },
    async (request) => {
      const { pk, ...others } = request.query
      const errors = await flows.errors({
        ...others,
        ...(pk !== undefined && { pk: givenKey(pk) }),
      })
      return toWire(ErrorsResponse, errors, languageOf(request))
    },
  )

  app.get(
    '/flows/status',
    {
      config: { ...forOperators.config, compressed: true },
      schema: {
        operationId: 'readFlowStatus',
        summary: 'Running, paused or limited, by flow',
        tags: ['Flows'],
        response: { 200: StatusResponse },
      },
    },
    async (request) => {
      const status = await flows.status()
      const language = languageOf(request)
      return Object.fromEntries(
        [...status].map(([name, one]) => [name, toWire(FlowStatusSchema, withCode(one), language)]),
      )
    },
  )

  app.get(
    '/flows',
    {
      config: { ...forOperators.config, compressed: true },
      schema: {
        operationId: 'listFlows',
        summary: 'Every flow at a glance, and what is wrong with flow files',
        tags: ['Flows'],
        response: { 200: FlowsResponse },
      },
    },
    async (request) => {
      const cards = await flows.cards()
      const at = now()
      const language = languageOf(request)
      const health = new Map(
        (await flows.observed()).map((seen) => [seen.flow, deriveFlow(seen, at)]),
      )
      const flowsOf = cards.map((card) => {
        const seen = health.get(card.name)
        const healthOfDestination = (name: string) =>
          seen?.destinations.find((one) => one.name === name)
        return toWire(
          Flow,
          {
            ...card,
            status: withCode(card.status),
            destinations: card.destinations.map((one) => ({
              ...one,
              health: healthOf(healthOfDestination(one.name), language, at),
            })),
            health: healthOf(seen, language, at),
          },
          language,
        )
      })
      return {
        flows: flowsOf,
        dashboard_page: dashboardPage ?? null,
        time_zone: await shopTimeZone(),
        problems: flows.problems().map((one) => viewProblem(one, language)),
        without_definition: (await flows.withoutDefinition()).map((one) =>
          toWire(FlowWithoutDefinition, one, language),
        ),
      }
    },
  )

  app.get(
    '/flows/activity',
    {
      config: { ...forOperators.config, compressed: true },
      schema: {
        operationId: 'listFlowActivity',
        summary: 'Who did what to which flow, newest first',
        tags: ['Flows'],
        querystring: ActivityQuery,
        response: { 200: ActivityResponse },
      },
    },
    async (request) => {
      const { flow, limit } = request.query
      const activity = await flows.activity({ flow }, limit)
      return toWire(ActivityResponse, { activity }, languageOf(request))
    },
  )
}
