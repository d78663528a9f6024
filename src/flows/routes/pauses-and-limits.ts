import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
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
} from '../api/control-schemas.ts'
import { actorNameOf } from './control-authentication.ts'
import type { ControlDeps } from './control-deps.ts'

export const pauseAndLimitRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, deps) => {
  await app.register(pauseRoutes, deps)
  await app.register(allPauseRoutes, deps)
  await app.register(limitRoutes, deps)
}

/** One flow. */
const pauseRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.post(
    '/flow/:name/pause',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
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
      await flows.pause(name, actorNameOf(request), request.body?.reason ?? null)
      return { name, status: 'paused' as const }
    },
  )

  app.post(
    '/flow/:name/resume',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
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
      await flows.resume(name, actorNameOf(request))
      return { name, status: 'running' as const }
    },
  )
}

/** All flows. */
const allPauseRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.post(
    '/flows/pause',
    {
      config: { needs: 'run_flows' },
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
      flows: await flows.pause('all', actorNameOf(request), request.body?.reason ?? null),
    }),
  )

  app.post(
    '/flows/resume',
    {
      config: { needs: 'run_flows' },
      schema: {
        operationId: 'resumeAllFlows',
        summary: 'Resume all flows',
        tags: ['Flows'],
        response: { 200: AllResumedResponse },
      },
    },
    async (request) => ({
      status: 'running' as const,
      flows: await flows.resume('all', actorNameOf(request)),
    }),
  )
}

/** A flow that pauses after so many runs. */
const limitRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.post(
    '/flow/:name/limit/:count',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
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
      await flows.limit(name, runLimit, actorNameOf(request))
      return { name, runLimit, status: 'limited' as const }
    },
  )

  app.delete(
    '/flow/:name/limit',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
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
      const { paused } = await flows.unlimit(name, actorNameOf(request))
      return { name, runLimit: null, status: paused ? ('paused' as const) : ('running' as const) }
    },
  )
}
