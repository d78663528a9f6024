import { sentenceOf } from '../../domain/flow-reasons.ts'
import { AppError } from '../../errors/app-error.ts'
import type { HttpServer } from '../../http/create-server.ts'
import { toWire } from '../api-model.ts'
import type { ControlService } from '../control/control-service-types.ts'
import { givenKey } from '../item/item.ts'
import { type ControlDeps, forFlow, languageOf } from './control-deps.ts'
import {
  AllFailuresResponse,
  AllOpenQuery,
  FailuresResponse,
  FlowParams,
  ItemParams,
  ListQuery,
  PkParams,
  RunsResponse,
  SkippedResponse,
} from './control-schemas.ts'
import {
  AllDelayedResponse,
  FoundItemResponse,
  ItemResponse,
  WaitingQuery,
  WaitingResponse,
} from './item-schemas.ts'

/** The key of an item in a path. It may be empty (`/reset/f/`): that must never become the whole flow. */
export function pkOf(params: { pk: string }): string {
  if (params.pk === '') throw new AppError('NOT_FOUND')
  return givenKey(params.pk)
}

/** Routes that show why something did not arrive. */
export function addDiagnostics(app: HttpServer, flows: ControlService): void {
  app.get(
    '/flow/:name/failures',
    {
      config: { access: 'admin', errors: ['NOT_FOUND'], compressed: true },
      schema: {
        operationId: 'listFailures',
        summary: 'Deliveries that failed permanently and wait to be sent again, by cause',
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
      const why = found.readingPausedWhy
      const readingPaused = why && sentenceOf(why, 'en')
      return toWire(WaitingResponse, { name, ...found, readingPaused }, languageOf(request))
    },
  )

  app.get(
    '/flow/:name/items/:pk',
    {
      config: { access: 'admin', errors: ['NOT_FOUND'], compressed: true },
      schema: {
        operationId: 'readItem',
        summary: 'Where one item is, how it changed, and what each destination answered',
        tags: ['Monitoring'],
        params: ItemParams,
        response: { 200: ItemResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const pk = pkOf(request.params)
      const item = await flows.item(name, pk)
      return toWire(ItemResponse, { name, pk, ...item }, languageOf(request))
    },
  )
}

/** The same for all flows: failed and late deliveries, and the flows of an item. */
export function addDiagnosticsOfAll(app: HttpServer, flows: ControlService): void {
  app.get(
    '/flows/failures',
    {
      config: { access: 'admin', compressed: true },
      schema: {
        operationId: 'listAllFailures',
        summary: 'Deliveries of all flows that failed permanently, by cause; most items first',
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

  app.get(
    '/flows/items/:pk',
    {
      config: { access: 'admin', errors: ['NOT_FOUND'], compressed: true },
      schema: {
        operationId: 'findItem',
        summary: 'The flows that know an item, and where it is in each',
        tags: ['Monitoring'],
        params: PkParams,
        response: { 200: FoundItemResponse },
      },
    },
    async (request) => {
      const pk = pkOf(request.params)
      const found = await flows.findItem(pk)
      return toWire(FoundItemResponse, { pk, flows: found }, languageOf(request))
    },
  )
}

/** Polls of a flow, and items that it does not send. */
export function addHistories(app: HttpServer, { flows }: ControlDeps): void {
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
}
