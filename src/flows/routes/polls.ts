import type { HttpServer } from '../../http/create-server.ts'
import { toWire } from '../api-model.ts'
import {
  actorOf,
  type ControlDeps,
  failureResponse,
  forFlow,
  forSyncs,
  languageOf,
  sourceResponses,
  viewSynced,
} from './control-deps.ts'
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
} from './control-schemas.ts'
import { pkOf } from './items.ts'

export function addPolls(app: HttpServer, { flows }: ControlDeps): void {
  app.post(
    '/sync/:name',
    {
      ...forSyncs,
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
        ...viewSynced(await flows.sync(name, { force }, actorOf(request)), languageOf(request)),
      }
    },
  )

  app.post(
    '/sync/:name/:pk',
    {
      ...forSyncs,
      schema: {
        operationId: 'syncItem',
        summary: 'Sync one item, even of a paused flow',
        tags: ['Sync'],
        params: ItemParams,
        response: {
          200: SyncItemResponse,
          409: failureResponse(
            'Polls began again and again while the item was read; they send it. Ask again',
          ),
          ...sourceResponses,
        },
      },
    },
    async (request) => {
      const { name } = request.params
      const pk = pkOf(request.params)
      return { name, pk, ...(await flows.syncItem(name, pk, actorOf(request))) }
    },
  )

  app.delete(
    '/reset/:name',
    {
      ...forFlow,
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
      await flows.reset(name, actorOf(request))
      return { name, status: 'reset' as const }
    },
  )

  app.delete(
    '/reset/:name/:pk',
    {
      ...forFlow,
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
      ...forFlow,
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
          await flows.resync(name, { force, destination }, actorOf(request)),
          languageOf(request),
        ),
      }
    },
  )

  app.post(
    '/resync/:name/:pk',
    {
      ...forFlow,
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
          await flows.resyncItem(name, pk, { force }, actorOf(request)),
          languageOf(request),
        ),
      }
    },
  )

  app.get(
    '/flow/:name/runs',
    {
      config: { ...forFlow.config, compressed: true },
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
