import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { toWire } from '../api/api-model.ts'
import {
  FlowParams,
  ForceQuery,
  ItemParams,
  ListQuery,
  ResetItemResponse,
  ResetResponse,
  ResyncItemResponse,
  ResyncQuery,
  ResyncResponse,
  RunsResponse,
  SyncItemResponse,
  SyncResponse,
} from '../api/control-schemas.ts'
import { actorNameOf } from './control-authentication.ts'
import {
  type ControlDeps,
  failureResponse,
  languageOf,
  sourceResponses,
  viewSynced,
} from './control-deps.ts'
import { pkOf } from './items.ts'

export const pollRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, deps) => {
  await app.register(syncRoutes, deps)
  await app.register(resetRoutes, deps)
  await app.register(resyncRoutes, deps)
  await app.register(runRoute, deps)
}

/** A poll now, of a flow or of one item. */
const syncRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.post(
    '/sync/:name',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'], mayComeLate: true },
      schema: {
        operationId: 'syncFlow',
        summary: 'Poll a flow now, without clearing hashes',
        tags: ['Sync'],
        params: FlowParams,
        querystring: ForceQuery,
        response: { 200: SyncResponse, ...sourceResponses },
      },
    },
    async (request) => {
      const { name } = request.params
      const force = request.query.force === 'true'
      return {
        name,
        ...viewSynced(await flows.sync(name, { force }, actorNameOf(request)), languageOf(request)),
      }
    },
  )

  app.post(
    '/sync/:name/:pk',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'], mayComeLate: true },
      schema: {
        operationId: 'syncItem',
        summary: 'Sync one item, even of a paused flow',
        tags: ['Sync'],
        params: ItemParams,
        response: {
          200: SyncItemResponse,
          409: failureResponse('Polls or other reads of this item came first each time. Ask again'),
          ...sourceResponses,
        },
      },
    },
    async (request) => {
      const { name } = request.params
      const pk = pkOf(request.params)
      return { name, pk, ...(await flows.syncItem(name, pk, actorNameOf(request))) }
    },
  )
}

/** Hashes are forgotten; the next poll sends again. */
const resetRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.delete(
    '/reset/:name',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'resetFlow',
        summary: 'Forget all hashes; the next poll sends everything',
        description: 'This cannot be undone. It sends every item again.',
        tags: ['Sync'],
        params: FlowParams,
        response: { 200: ResetResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      await flows.reset(name, actorNameOf(request))
      return { name, status: 'reset' as const }
    },
  )

  app.delete(
    '/reset/:name/:pk',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
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
      const { existed } = await flows.resetItem(name, pk, actorNameOf(request))
      return { name, pk, status: 'reset' as const, existed }
    },
  )
}

/** Hashes are forgotten, and a poll sends again now. */
const resyncRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.post(
    '/resync/:name',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'resyncFlow',
        summary: 'Forget all hashes and poll now, or send everything to one destination',
        description: 'This cannot be undone. It sends every item again.',
        tags: ['Sync'],
        params: FlowParams,
        querystring: ResyncQuery,
        response: { 200: ResyncResponse, ...sourceResponses },
      },
    },
    async (request) => {
      const { name } = request.params
      const { destination } = request.query
      const force = request.query.force === 'true'
      return {
        name,
        status: 'reset' as const,
        ...viewSynced(
          await flows.resync(name, { force, destination }, actorNameOf(request)),
          languageOf(request),
        ),
      }
    },
  )

  app.post(
    '/resync/:name/:pk',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'resyncItem',
        summary: 'Forget the hash of one item and poll now',
        tags: ['Sync'],
        params: ItemParams,
        querystring: ForceQuery,
        response: { 200: ResyncItemResponse, ...sourceResponses },
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
        ...viewSynced(
          await flows.resyncItem(name, pk, { force }, actorNameOf(request)),
          languageOf(request),
        ),
      }
    },
  )
}

/** The polls that were. */
const runRoute: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.get(
    '/flow/:name/runs',
    {
      ...app.forList,
      config: { needs: 'see_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'listRuns',
        summary: 'The last polls of a flow, newest first, with what each found',
        description:
          'The last 1,000 are kept, and of the last 25 hours all that found something; older ones are only counted.',
        tags: ['Monitoring'],
        params: FlowParams,
        querystring: ListQuery,
        response: { 200: RunsResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const runs = await flows.runs(name, request.query.limit)
      return toWire(RunsResponse, { name, runs }, languageOf(request))
    },
  )
}
