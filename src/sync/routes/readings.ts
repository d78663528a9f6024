import { type Language, preferredLanguage } from '../../domain/language.ts'
import { deriveFlow } from '../../fleet/derive-flow.ts'
import { messageOf } from '../../fleet/messages.ts'
import type { Health } from '../../fleet/states.ts'
import type { HttpServer } from '../../http/create-server.ts'
import { product } from '../../http/product.ts'
import type { FlowStatus as Status } from '../flow-service.ts'
import { givenKey } from '../item/key.ts'
import { prometheusText, wantsPrometheus } from '../prometheus.ts'
import {
  ActivityQuery,
  ActivityResponse,
  ErrorsQuery,
  ErrorsResponse,
  FlowsResponse,
  HealthResponse,
  MetricsResponse,
  MetricsText,
  StatsResponse,
  StatusResponse,
} from '../schemas.ts'
import { viewHeld } from './deletes.ts'
import { type ControlDeps, forOperators } from './room.ts'
import { viewSending } from './view-sending.ts'

function viewStatus(status: Status) {
  return {
    paused: status.paused,
    runLimit: status.runLimit,
    runCount: status.runCount,
    paused_at: status.pausedAt?.toISOString() ?? null,
    paused_by: status.pausedBy,
    reason: status.reason,
    code: status.code,
    polling: status.polling,
  }
}

function viewHealth(health: Health | undefined, language: Language, at: Date) {
  if (!health) return null
  const { state, cause, since } = health
  return {
    state,
    cause,
    since: since?.toISOString() ?? null,
    message: messageOf(health, language, at),
  }
}

export function addReadings(
  app: HttpServer,
  { flows, now, registry, dashboardPage, requireDatabase, isOperator }: ControlDeps,
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
      if (!isOperator(request)) return answer
      return { ...answer, version: product.version, commit: await product.commit() }
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
        [...metrics].map(([name, { destinations: _, pollDueSince: __, ...figures }]) => [
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
      const { pk, ...others } = request.query
      const errors = await flows.errors({
        ...others,
        ...(pk !== undefined && { pk: givenKey(pk) }),
      })
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
    async (request) => {
      const cards = await flows.cards()
      const at = now()
      const language = preferredLanguage(request.headers['accept-language'])
      const health = new Map(
        (await flows.observed()).map((seen) => [seen.flow, deriveFlow(seen, at)]),
      )
      return {
        flows: cards.map((card) => ({
          name: card.name,
          description: card.description,
          source: card.source,
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
            sending: viewSending(destination.sending),
            health: viewHealth(
              health.get(card.name)?.destinations.find(({ name }) => name === destination.name),
              language,
              at,
            ),
          })),
          polls_held_back: card.pollsHeldBack,
          held_deletes: viewHeld(card.heldDeletes),
          has_alerts: card.hasAlerts,
          health: viewHealth(health.get(card.name), language, at),
        })),
        dashboard_page: dashboardPage ?? null,
        problems: flows.problems(),
        without_definition: (await flows.withoutDefinition()).map(({ name, destinations }) => ({
          name,
          destinations: destinations.map(({ oldestWaitingAt, ...counts }) => ({
            ...counts,
            oldest_waiting_at: oldestWaitingAt?.toISOString() ?? null,
          })),
        })),
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
