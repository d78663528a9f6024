import type { HttpServer } from '../../http/create-server.ts'
import { toWire } from '../api-model.ts'
import { givenKey } from '../item/item.ts'
import { actorOf, type ControlDeps, forFlow, languageOf } from './control-deps.ts'
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
} from './control-schemas.ts'
import { AllDelayedResponse, WaitingQuery, WaitingResponse } from './item-schemas.ts'

/** Failed, waiting and skipped deliveries, of one flow and of all, and what sends them again. */
export function addDeliveries(app: HttpServer, { flows }: ControlDeps): void {
  app.get(
    '/flow/:name/failures',
    {
      config: { access: 'admin', errors: ['NOT_FOUND'], compressed: true },
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
      config: { access: 'admin', errors: ['NOT_FOUND'], compressed: true },
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
      config: { ...forFlow.config, compressed: true },
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

  app.get(
    '/flows/failures',
    {
      config: { access: 'admin', compressed: true },
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
      config: { access: 'admin', compressed: true },
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

  app.post(
    '/flow/:name/retry',
    {
      ...forFlow,
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
        actorOf(request),
      )
      return { name, retried }
    },
  )

  app.post(
    '/flow/:name/try',
    {
      ...forFlow,
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
      return { name, due: await flows.tryNow(name, request.body?.destination, actorOf(request)) }
    },
  )
}
