import { AppError } from '../../errors.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { FlowService, ItemHistory } from '../flow-service.ts'
import { ItemResponse, WaitingQuery, WaitingResponse } from '../item-schemas.ts'
import { FailuresQuery, FailuresResponse, FlowParams, ItemParams } from '../schemas.ts'

/** A route's parameter may be empty (`/reset/f/`): that must never become the whole flow. */
export function pkOf(params: { pk: string }): string {
  if (params.pk === '') throw new AppError('NOT_FOUND')
  return params.pk
}

/** What an operator asks when something did not arrive. */
export function addInquiries(app: HttpServer, flows: FlowService): void {
  app.get(
    '/flow/:name/failures',
    {
      config: { access: 'admin', errors: ['NOT_FOUND'], compressed: true },
      schema: {
        operationId: 'listFailures',
        summary: 'Deliveries that failed for good and wait to be sent again, by cause',
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
        failures: failures.map(({ lastAt, ...failure }) => ({
          ...failure,
          last_at: lastAt.toISOString(),
        })),
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
      const waiting = await flows.waiting(name, request.query.limit)
      return {
        name,
        waiting: waiting.map((one) => ({
          destination: one.destination,
          pk: one.pk,
          attempts: one.attempts,
          last_error: one.lastError,
          last_status: one.lastStatus,
          queued_at: one.queuedAt.toISOString(),
          next_attempt_at: one.nextAttemptAt?.toISOString() ?? null,
        })),
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
          last_status: one.lastStatus,
          queued_at: one.queuedAt?.toISOString() ?? null,
          next_attempt_at: one.nextAttemptAt?.toISOString() ?? null,
          delivered_at: one.deliveredAt?.toISOString() ?? null,
        })),
        history: historyBody(history),
      }
    },
  )
}

function historyBody({ content, versions, attempts }: ItemHistory) {
  return {
    content,
    versions: versions.map(({ seenAt, differenceCount, ...version }) => ({
      ...version,
      seen_at: seenAt.toISOString(),
      difference_count: differenceCount,
    })),
    attempts: attempts.map(({ at, ...attempt }) => ({ ...attempt, at: at.toISOString() })),
  }
}
