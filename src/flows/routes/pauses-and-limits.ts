import type { HttpServer } from '../../http/create-server.ts'
import { actorOf, type ControlDeps, forFlow, forOperators } from './control-deps.ts'
import {
  AllPausedResponse,
  AllResumedResponse,
  FlowParams,
  LimitedResponse,
  LimitParams,
  PausedResponse,
  ReasonBody,
  ResumedResponse,
  UnlimitedResponse,
} from './control-schemas.ts'

export function addPausesAndLimits(app: HttpServer, { flows }: ControlDeps): void {
  app.post(
    '/flow/:name/pause',
    {
      ...forFlow,
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
      ...forFlow,
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
      ...forOperators,
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
      ...forOperators,
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
      ...forFlow,
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
      ...forFlow,
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
