import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { toWire } from '../api/api-model.ts'
import {
  AllFailuresResponse,
  AllOpenQuery,
  FailuresResponse,
  FlowParams,
  ListQuery,
  RetryBody,
  RetryResponse,
  SkippedResponse,
  TryBody,
  TryResponse,
} from '../api/control-schemas.ts'
import { AllDelayedResponse, WaitingQuery, WaitingResponse } from '../api/item-schemas.ts'
import { givenKey } from '../item/item.ts'
import { actorNameOf } from './control-authentication.ts'
import { type ControlDeps, languageOf } from './control-deps.ts'

/** Failed, waiting and skipped deliveries, of one flow and of all, and what sends them again. */
export const deliveryRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, deps) => {
  await app.register(flowDeliveryRoutes, deps)
  await app.register(allDeliveryRoutes, deps)
  await app.register(retryRoutes, deps)
}

/** Those of one flow. */
const flowDeliveryRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.get(
    '/flow/:name/failures',
    {
      ...app.forList,
      config: { needs: 'see_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'listFailures',
        summary: 'Deliveries that failed permanently and wait to be sent again, by code and status',
        tags: ['Monitoring'],
        params: FlowParams,
        querystring: ListQuery,
        response: { 200: FailuresResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const failures = await flows.failures(name, request.query.limit)
      return toWire(FailuresResponse, { name, failures }, languageOf(request))
    },
  )

  app.get(
    '/flow/:name/waiting',
    {
      ...app.forList,
      config: { needs: 'see_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'listWaiting',
        summary: 'Deliveries still to be made or tried again, oldest first, with what went wrong',
        tags: ['Monitoring'],
        params: FlowParams,
        querystring: WaitingQuery,
        response: { 200: WaitingResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const found = await flows.waiting(name, request.query.limit)
      return toWire(WaitingResponse, { name, ...found }, languageOf(request))
    },
  )

  app.get(
    '/flow/:name/skipped',
    {
      ...app.forList,
      config: { needs: 'see_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'listSkipped',
        summary: 'Items that a destination is not sent, and why not, the latest first',
        tags: ['Monitoring'],
        params: FlowParams,
        querystring: ListQuery,
        response: { 200: SkippedResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const skipped = await flows.skipped(name, request.query.limit)
      return toWire(SkippedResponse, { name, skipped }, languageOf(request))
    },
  )
}

/** Those of all flows. */
const allDeliveryRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.get(
    '/flows/failures',
    {
      ...app.forList,
      config: { needs: 'see_flows' },
      schema: {
        operationId: 'listAllFailures',
        summary:
          'Deliveries of all flows that failed permanently, by code and status; most items first',
        tags: ['Monitoring'],
        querystring: AllOpenQuery,
        response: { 200: AllFailuresResponse },
      },
    },
    async (request) => {
      const { flow, limit } = request.query
      const failures = await flows.allFailures(flow, limit)
      return toWire(AllFailuresResponse, { failures }, languageOf(request))
    },
  )

  app.get(
    '/flows/delayed',
    {
      ...app.forList,
      config: { needs: 'see_flows' },
      schema: {
        operationId: 'listAllDelayed',
        summary: 'Deliveries of all flows that wait for another attempt, oldest first',
        tags: ['Monitoring'],
        querystring: AllOpenQuery,
        response: { 200: AllDelayedResponse },
      },
    },
    async (request) => {
      const { flow, limit } = request.query
      const delayed = await flows.allDelayed(flow, limit)
      return toWire(AllDelayedResponse, { delayed }, languageOf(request))
    },
  )
}

/** What sends them again. */
const retryRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.post(
    '/flow/:name/retry',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
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
      const { destination, pk, error, code, status } = request.body ?? {}
      const retried = await flows.retryFailed(
        { flow: name, destination, pk: pk && givenKey(pk), error, code, status },
        actorNameOf(request),
      )
      return { name, retried }
    },
  )

  app.post(
    '/flow/:name/try',
    {
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'tryDestinations',
        summary: 'Attempt the pending deliveries now',
        description:
          'Deliveries that wait between two attempts are due at once. One attempt starts although sending is suspended or the destination asked to wait. 404 for a destination that the flow does not have.',
        tags: ['Sync'],
        params: FlowParams,
        body: TryBody,
        response: { 200: TryResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      return {
        name,
        due: await flows.tryNow(name, request.body?.destination, actorNameOf(request)),
      }
    },
  )
}
