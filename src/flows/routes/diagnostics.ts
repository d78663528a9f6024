import { sentenceOf, shownReason } from '../../domain/flow-reasons.ts'
import type { Language } from '../../domain/language.ts'
import { AppError } from '../../errors/app-error.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { FailureView, FlowService, ItemHistory, WaitingDelivery } from '../flow-service.ts'
import { givenKey } from '../item/key.ts'
import {
  AllDelayedResponse,
  FoundItemResponse,
  ItemResponse,
  WaitingQuery,
  WaitingResponse,
} from '../item-schemas.ts'
import {
  AllFailuresResponse,
  AllOpenQuery,
  FailuresQuery,
  FailuresResponse,
  FlowParams,
  ItemParams,
  PkParams,
} from '../schemas.ts'
import { languageOf, viewSending } from './views.ts'

/** The key of an item in a path. It may be empty (`/reset/f/`): that must never become the whole flow. */
export function pkOf(params: { pk: string }): string {
  if (params.pk === '') throw new AppError('NOT_FOUND')
  return givenKey(params.pk)
}

function viewWaiting(one: WaitingDelivery, language: Language) {
  return {
    destination: one.destination,
    pk: one.pk,
    attempts: one.attempts,
    last_error: one.lastError,
    why: shownReason(one.why, language),
    last_status: one.lastStatus,
    queued_at: one.queuedAt.toISOString(),
    next_attempt_at: one.nextAttemptAt?.toISOString() ?? null,
  }
}

function viewFailure<T extends FailureView>({ lastAt, why, ...failure }: T, language: Language) {
  return { ...failure, why: shownReason(why, language), last_at: lastAt.toISOString() }
}

/** Routes that show why something did not arrive. */
export function addDiagnostics(app: HttpServer, flows: FlowService): void {
  app.get(
    '/flow/:name/failures',
    {
      config: { access: 'admin', errors: ['NOT_FOUND'], compressed: true },
      schema: {
        operationId: 'listFailures',
        summary: 'Deliveries that failed permanently and wait to be sent again, by cause',
        tags: ['Monitoring'],
        params: FlowParams,
        querystring: FailuresQuery,
        response: { 200: FailuresResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const failures = await flows.failures(name, request.query.limit)
      return {
        name,
        failures: failures.map((one) => viewFailure(one, languageOf(request))),
      }
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
      const language = languageOf(request)
      const { waiting, destinations, readingPaused } = await flows.waiting(
        name,
        request.query.limit,
      )
      return {
        name,
        waiting: waiting.map((one) => viewWaiting(one, language)),
        destinations: destinations.map(({ sending, ...one }) => ({
          ...one,
          sending: viewSending(sending, language),
        })),
        reading_paused: readingPaused && sentenceOf(readingPaused, 'en'),
        reading_paused_why: shownReason(readingPaused, language),
      }
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
      const { seen, destinations, history } = await flows.item(name, pk)
      return {
        name,
        pk,
        seen: seen && { hash: seen.hash, changed_at: seen.changedAt.toISOString() },
        destinations: destinations.map((one) => ({
          name: one.name,
          type: one.type,
          state: one.state,
          in_sync: one.inSync,
          attempts: one.attempts,
          last_error: one.lastError,
          why: shownReason(one.why, languageOf(request)),
          last_status: one.lastStatus,
          queued_at: one.queuedAt?.toISOString() ?? null,
          next_attempt_at: one.nextAttemptAt?.toISOString() ?? null,
          delivered_at: one.deliveredAt?.toISOString() ?? null,
          remembered: one.remembered,
        })),
        history: historyBody(history, languageOf(request)),
      }
    },
  )
}

/** The same for all flows: failed and late deliveries, and the flows of an item. */
export function addDiagnosticsOfAll(app: HttpServer, flows: FlowService): void {
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
      return { failures: failures.map((one) => viewFailure(one, languageOf(request))) }
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
      return {
        delayed: delayed.map((one) => ({
          ...viewWaiting(one, languageOf(request)),
          flow: one.flow,
        })),
      }
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
      return {
        pk,
        flows: found.map(({ name, changedAt, destinations }) => ({
          name,
          changed_at: changedAt?.toISOString() ?? null,
          destinations,
        })),
      }
    },
  )
}

function historyBody({ content, versions, attempts }: ItemHistory, language: Language) {
  return {
    content,
    versions: versions.map(({ seenAt, differenceCount, ...version }) => ({
      ...version,
      seen_at: seenAt.toISOString(),
      difference_count: differenceCount,
    })),
    attempts: attempts.map(({ at, why, ...attempt }) => ({
      ...attempt,
      why: shownReason(why, language),
      at: at.toISOString(),
    })),
  }
}
