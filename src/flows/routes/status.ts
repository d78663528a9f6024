import { sentenceOf, shownReason } from '../../domain/flow-reasons.ts'
import type { Language } from '../../domain/language.ts'
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
import { type ControlDeps, forOperators } from './control-deps.ts'
import { viewHeld } from './deletes.ts'
import { languageOf, viewProblem, viewSending } from './views.ts'

function viewStatus(status: Status, language: Language) {
  return {
    paused: status.paused,
    runLimit: status.runLimit,
    runCount: status.runCount,
    paused_at: status.pausedAt?.toISOString() ?? null,
    paused_by: status.pausedBy,
    reason: status.reason,
    code: status.why?.code ?? null,
    why: shownReason(status.why, language),
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
      const language = languageOf(request)
      return errors.map(({ why, ...error }) => ({
        ...error,
        timestamp: error.timestamp.toISOString(),
        why: shownReason(why, language),
      }))
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
      return Object.fromEntries([...status].map(([name, one]) => [name, viewStatus(one, language)]))
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
      return {
        flows: cards.map((card) => ({
          name: card.name,
          description: card.description,
          source: card.source,
          poll_interval_ms: card.pollIntervalMs,
          status: viewStatus(card.status, language),
          last_poll_at: card.lastPollAt?.toISOString() ?? null,
          last_success_at: card.lastSuccessAt?.toISOString() ?? null,
          next_poll_at: card.nextPollAt?.toISOString() ?? null,
          last_error: card.lastError,
          last_error_why: shownReason(card.lastErrorWhy, language),
          waiting_for: card.waitingFor && {
            why: shownReason(card.waitingFor.why, language),
            since: card.waitingFor.since.toISOString(),
            until: card.waitingFor.until?.toISOString() ?? null,
          },
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
            sending: viewSending(destination.sending, language),
            health: viewHealth(
              health.get(card.name)?.destinations.find(({ name }) => name === destination.name),
              language,
              at,
            ),
          })),
          reading_paused: card.readingPaused && sentenceOf(card.readingPaused, 'en'),
          reading_paused_why: shownReason(card.readingPaused, language),
          held_deletes: viewHeld(card.heldDeletes, language),
          has_alerts: card.hasAlerts,
          health: viewHealth(health.get(card.name), language, at),
        })),
        dashboard_page: dashboardPage ?? null,
        time_zone: await shopTimeZone(),
        problems: flows.problems().map((one) => viewProblem(one, language)),
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
      const language = languageOf(request)
      return {
        activity: activity.map((entry) => ({
          ...entry,
          at: entry.at.toISOString(),
          why: shownReason(entry.why, language),
        })),
      }
    },
  )
}
