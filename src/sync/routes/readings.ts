import type { HttpServer } from '../../http/create-server.ts'
import type { FlowStatus as Status } from '../flow-service.ts'
import { prometheusText, wantsPrometheus } from '../prometheus.ts'
import {
  ActivityQuery,
  ActivityResponse,
  ErrorsQuery,
  ErrorsResponse,
  FlowsResponse,
  HealthResponse,
  MetricsResponse,
  StatsResponse,
  StatusResponse,
} from '../schemas.ts'
import { type ControlDeps, forOperators } from './room.ts'

function viewStatus(status: Status) {
  return {
    paused: status.paused,
    runLimit: status.runLimit,
    runCount: status.runCount,
    paused_at: status.pausedAt?.toISOString() ?? null,
    paused_by: status.pausedBy,
    reason: status.reason,
    polling: status.polling,
  }
}

export function addReadings(app: HttpServer, { flows, now, requireDatabase }: ControlDeps): void {
  app.get(
    '/health',
    {
      config: { access: 'public' },
      schema: {
        operationId: 'readControlHealth',
        summary: 'Whether the flow side can work',
        tags: ['Service'],
        response: { 200: HealthResponse },
      },
    },
    async () => {
      await requireDatabase()
      return { status: 'ok' as const, timestamp: now().toISOString() }
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
      config: { ...forOperators.config, compressed: true },
      schema: {
        operationId: 'readMetrics',
        summary: 'Figures of each flow; Prometheus text when Accept asks for it',
        tags: ['Monitoring'],
        response: { 200: MetricsResponse },
      },
    },
    async (request, reply) => {
      const metrics = await flows.metrics()
      if (wantsPrometheus(request.headers.accept)) {
        const text = await prometheusText(metrics, await flows.stats(), await flows.status())
        // The JSON serializer of the route is for the other form.
        return reply
          .type(text.contentType)
          .serializer(String)
          .send(text.body as never)
      }
      return Object.fromEntries(
        [...metrics].map(([name, figures]) => [
          name,
          { ...figures, lastRun: figures.lastRun?.toISOString() ?? null },
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
      const errors = await flows.errors(request.query)
      return errors.map((error) => ({ ...error, timestamp: error.timestamp.toISOString() }))
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
    async () => {
      const status = await flows.status()
      return Object.fromEntries([...status].map(([name, one]) => [name, viewStatus(one)]))
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
    async () => {
      const cards = await flows.cards()
      return {
        flows: cards.map((card) => ({
          name: card.name,
          description: card.description,
          poll_interval_ms: card.pollIntervalMs,
          status: viewStatus(card.status),
          last_poll_at: card.lastPollAt?.toISOString() ?? null,
          last_success_at: card.lastSuccessAt?.toISOString() ?? null,
          next_poll_at: card.nextPollAt?.toISOString() ?? null,
          last_error: card.lastError,
          items: card.items,
          changes_today: card.changesToday,
          durations: card.durations,
          progress: card.progress && {
            started_at: card.progress.startedAt.toISOString(),
            rows_read: card.progress.rowsRead,
            changes: card.progress.changes,
          },
          destinations: card.destinations.map((destination) => ({
            name: destination.name,
            type: destination.type,
            waiting: destination.waiting,
            delayed: destination.delayed,
            failed: destination.failed,
            oldest_waiting_at: destination.oldestWaitingAt?.toISOString() ?? null,
          })),
          has_alerts: card.hasAlerts,
        })),
        problems: flows.problems(),
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
      return { activity: activity.map((entry) => ({ ...entry, at: entry.at.toISOString() })) }
    },
  )
}
