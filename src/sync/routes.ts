import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import type { HttpServer } from '../http/create-server.ts'
import type { FlowService, FlowStatus as Status } from './flow-service.ts'
import { addInquiries, pkOf } from './inquiries.ts'
import { prometheusText, wantsPrometheus } from './prometheus.ts'
import {
  ActivityQuery,
  ActivityResponse,
  AllPausedResponse,
  AllResumedResponse,
  ErrorsQuery,
  ErrorsResponse,
  FlowParams,
  FlowsResponse,
  ForceQuery,
  HealthResponse,
  ItemParams,
  LimitedResponse,
  LimitParams,
  MetricsResponse,
  PausedResponse,
  ReasonBody,
  ReloadResponse,
  ResetItemResponse,
  ResetResponse,
  ResumedResponse,
  ResyncItemResponse,
  ResyncResponse,
  RetryBody,
  RetryResponse,
  StatsResponse,
  StatusResponse,
  SyncItemResponse,
  SyncResponse,
  TestAlertsResponse,
  UnlimitedResponse,
} from './schemas.ts'

export type ControlDeps = {
  flows: FlowService
  now: () => Date
  /** Whether the database answers. */
  ping: () => Promise<boolean>
}

const reading = { config: { access: 'admin' as const } }
const ofFlow = { config: { access: 'admin' as const, errors: ['NOT_FOUND' as const] } }

export function addControlRoutes(app: HttpServer, deps: ControlDeps): void {
  addReadings(app, deps)
  addInquiries(app, deps.flows)
  addPolls(app, deps)
  addSwitches(app, deps)
  addUpkeep(app, deps)
}

/** Whom the activity log names: the address, since tokens are shared. */
function actorOf(request: FastifyRequest): string {
  return request.ip
}

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

function addReadings(app: HttpServer, { flows, now, ping }: ControlDeps): void {
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
      if (!(await ping())) throw new AppError('SERVICE_UNAVAILABLE')
      return { status: 'ok' as const, timestamp: now().toISOString() }
    },
  )

  app.get(
    '/stats',
    {
      ...reading,
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
      ...reading,
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
      ...reading,
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
      ...reading,
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
      ...reading,
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
      ...reading,
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

function addPolls(app: HttpServer, { flows }: ControlDeps): void {
  app.post(
    '/sync/:name',
    {
      ...ofFlow,
      schema: {
        operationId: 'syncFlow',
        summary: 'Poll a flow now, without clearing hashes',
        tags: ['Sync'],
        params: FlowParams,
        querystring: ForceQuery,
        response: { 200: SyncResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      return { name, ...(await flows.sync(name, { force: request.query.force === 'true' })) }
    },
  )

  app.post(
    '/sync/:name/:pk',
    {
      ...ofFlow,
      schema: {
        operationId: 'syncItem',
        summary: 'Sync one item, even of a paused flow',
        tags: ['Sync'],
        params: ItemParams,
        response: { 200: SyncItemResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const pk = pkOf(request.params)
      return { name, pk, ...(await flows.syncItem(name, pk)) }
    },
  )

  app.delete(
    '/reset/:name',
    {
      ...ofFlow,
      schema: {
        operationId: 'resetFlow',
        summary: 'Forget all hashes; the next poll sends everything',
        tags: ['Sync'],
        params: FlowParams,
        response: { 200: ResetResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      await flows.reset(name, actorOf(request))
      return { name, status: 'reset' as const }
    },
  )

  app.delete(
    '/reset/:name/:pk',
    {
      ...ofFlow,
      schema: {
        operationId: 'resetItem',
        summary: 'Forget the hash of one item',
        tags: ['Sync'],
        params: ItemParams,
        response: { 200: ResetItemResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const pk = pkOf(request.params)
      const { existed } = await flows.resetItem(name, pk, actorOf(request))
      return { name, pk, status: 'reset' as const, existed }
    },
  )

  app.post(
    '/resync/:name',
    {
      ...ofFlow,
      schema: {
        operationId: 'resyncFlow',
        summary: 'Forget all hashes and poll now',
        tags: ['Sync'],
        params: FlowParams,
        querystring: ForceQuery,
        response: { 200: ResyncResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const force = request.query.force === 'true'
      return {
        name,
        status: 'reset' as const,
        ...(await flows.resync(name, { force }, actorOf(request))),
      }
    },
  )

  app.post(
    '/resync/:name/:pk',
    {
      ...ofFlow,
      schema: {
        operationId: 'resyncItem',
        summary: 'Forget the hash of one item and poll now',
        tags: ['Sync'],
        params: ItemParams,
        querystring: ForceQuery,
        response: { 200: ResyncItemResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const pk = pkOf(request.params)
      const force = request.query.force === 'true'
      return {
        name,
        pk,
        status: 'reset' as const,
        ...(await flows.resyncItem(name, pk, { force }, actorOf(request))),
      }
    },
  )
}

function addSwitches(app: HttpServer, { flows }: ControlDeps): void {
  app.post(
    '/flow/:name/pause',
    {
      ...ofFlow,
      schema: {
        operationId: 'pauseFlow',
        summary: 'Pause a flow from its next cycle on',
        tags: ['Flows'],
        params: FlowParams,
        body: ReasonBody,
        response: { 200: PausedResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      await flows.pause(name, actorOf(request), request.body?.reason ?? null)
      return { name, status: 'paused' as const }
    },
  )

  app.post(
    '/flow/:name/resume',
    {
      ...ofFlow,
      schema: {
        operationId: 'resumeFlow',
        summary: 'Resume a flow',
        tags: ['Flows'],
        params: FlowParams,
        response: { 200: ResumedResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      await flows.resume(name, actorOf(request))
      return { name, status: 'running' as const }
    },
  )

  app.post(
    '/flows/pause',
    {
      ...reading,
      schema: {
        operationId: 'pauseAllFlows',
        summary: 'Pause all flows',
        tags: ['Flows'],
        body: ReasonBody,
        response: { 200: AllPausedResponse },
      },
    },
    async (request) => ({
      status: 'paused' as const,
      flows: await flows.pause('all', actorOf(request), request.body?.reason ?? null),
    }),
  )

  app.post(
    '/flows/resume',
    {
      ...reading,
      schema: {
        operationId: 'resumeAllFlows',
        summary: 'Resume all flows',
        tags: ['Flows'],
        response: { 200: AllResumedResponse },
      },
    },
    async (request) => ({
      status: 'running' as const,
      flows: await flows.resume('all', actorOf(request)),
    }),
  )

  app.post(
    '/flow/:name/limit/:count',
    {
      ...ofFlow,
      schema: {
        operationId: 'limitFlow',
        summary: 'Pause a flow by itself after so many runs',
        tags: ['Flows'],
        params: LimitParams,
        response: { 200: LimitedResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const runLimit = Number(request.params.count)
      await flows.limit(name, runLimit, actorOf(request))
      return { name, runLimit, status: 'limited' as const }
    },
  )

  app.delete(
    '/flow/:name/limit',
    {
      ...ofFlow,
      schema: {
        operationId: 'unlimitFlow',
        summary: 'Take the limit of a flow away',
        tags: ['Flows'],
        params: FlowParams,
        response: { 200: UnlimitedResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const { paused } = await flows.unlimit(name, actorOf(request))
      return { name, runLimit: null, status: paused ? ('paused' as const) : ('running' as const) }
    },
  )
}

function addUpkeep(app: HttpServer, { flows }: ControlDeps): void {
  app.post(
    '/flow/:name/test-alerts',
    {
      ...ofFlow,
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
      const results = await flows.testAlerts(name)
      return reply.code(results.every(({ ok }) => ok) ? 200 : 207).send({ flow: name, results })
    },
  )

  app.post(
    '/flow/:name/retry',
    {
      ...ofFlow,
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
      const { destination, pk, error } = request.body ?? {}
      const retried = await flows.retryFailed(
        { flow: name, destination, pk, error },
        actorOf(request),
      )
      return { name, retried }
    },
  )

  app.post(
    '/flows/reload',
    {
      ...reading,
      schema: {
        operationId: 'reloadFlows',
        summary: 'Read the flow files again',
        description: 'A file with problems stops nothing: its flow keeps its old definition.',
        tags: ['Flows'],
        response: { 200: ReloadResponse },
      },
    },
    (request) => flows.reload(actorOf(request)),
  )
}
