import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { buildInfo } from '../../http/build-info.ts'
import { toWire } from '../api/api-model.ts'
import {
  FlowMetricsSchema,
  HealthResponse,
  MetricsResponse,
  MetricsText,
} from '../api/control-schemas.ts'
import { prometheusText, wantsPrometheus } from '../control/flow-metrics.ts'
import { type ControlDeps, languageOf } from './control-deps.ts'

/** For everybody; an operator is shown the version too. */
export const controlHealthRoute: FastifyPluginAsyncZod<ControlDeps> = async (
  app,
  { now, requireDatabase },
) => {
  app.get(
    '/health',
    {
      config: { errors: ['RATE_LIMITED'] },
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
      if (!(await app.isOperator(request))) return answer
      return { ...answer, version: buildInfo.version, commit: await buildInfo.commit() }
    },
  )
}

export const flowMetricsRoute: FastifyPluginAsyncZod<ControlDeps> = async (
  app,
  { flows, now, registry },
) => {
  app.get(
    '/metrics',
    {
      ...app.forList,
      config: { needs: 'see_flows' },
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
          toWire(FlowMetricsSchema, figures, languageOf(request)),
        ]),
      )
    },
  )
}
