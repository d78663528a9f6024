import type { FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { cursorAt, type FeedCursor, feedCursorText } from '../../domain/event-cursor.ts'
import { invalid } from '../../errors/app-error.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import {
  commit,
  createConsumer,
  type Reader,
  readConsumers,
  removeConsumer,
  seek,
} from '../../payments/events/consumers.ts'
import type { Place } from '../../payments/events/feed.ts'
import { actorOf } from '../../payments/request-context.ts'
import type { ConsumerRow } from '../../repositories/events/event-consumers.ts'
import { tenantOfRequest } from '../authentication.ts'
import {
  CommitBody,
  ConsumerParams,
  ConsumerResponse,
  ConsumersResponse,
  NewConsumer,
  ReaderQuery,
  SeekBody,
} from './consumer-schemas.ts'

const change = { needs: 'set_up', within: 'all_stores' } as const

/** Programs whose place in the feed is kept here. */
export const consumerRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '',
    {
      config: { needs: 'see', within: 'all_stores' },
      schema: {
        operationId: 'listConsumers',
        summary: 'The consumers of the feed, with their places and what waits for them',
        response: { 200: ConsumersResponse },
      },
    },
    async (request) => {
      const consumers = await readConsumers(deps, tenantOfRequest(request))
      return {
        consumers: consumers.map((one) => ({
          ...viewConsumer(one),
          waiting: one.waiting,
          oldest_at: one.oldest_at,
        })),
      }
    },
  )

  app.post(
    '',
    {
      config: change,
      schema: {
        operationId: 'createConsumer',
        summary: 'Create a consumer; one that exists is answered as it is (200)',
        description: 'A program may send it at each start: a consumer keeps its place.',
        body: NewConsumer,
        response: { 200: ConsumerResponse, 201: ConsumerResponse },
      },
    },
    async (request, reply) => {
      const { name, from } = request.body
      const key = { client: tenantOfRequest(request), name }
      const { consumer, isNew } = await createConsumer(
        deps,
        key,
        placeFrom(from),
        actorOf(deps, request),
      )
      return reply.code(isNew ? 201 : 200).send(viewConsumer(consumer))
    },
  )

  app.delete(
    '/:name',
    {
      config: { ...change, errors: ['CONSUMER_BUSY'] },
      schema: {
        operationId: 'deleteConsumer',
        summary: 'Delete a consumer with its place',
        params: ConsumerParams,
        querystring: ReaderQuery,
        response: {
          200: z
            .object({ message: z.string() })
            .meta({ example: { message: 'The consumer is deleted' } }),
        },
      },
    },
    async (request) => {
      await removeConsumer(deps, readerOf(request, request.params.name), actorOf(deps, request))
      return { message: 'The consumer is deleted' }
    },
  )
}

/** The place of a consumer. */
export const consumerPlaceRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.post(
    '/:name',
    {
      config: { ...change, errors: ['CONSUMER_BUSY', 'CONFLICT'] },
      schema: {
        operationId: 'commitConsumer',
        summary: 'Commit: everything up to this cursor is processed',
        description:
          'The place moves only forward, and only for the reader that has the lease. The same commit again has no effect.',
        params: ConsumerParams,
        querystring: ReaderQuery,
        body: CommitBody,
        response: { 200: ConsumerResponse },
      },
    },
    async (request) =>
      viewConsumer(await commit(deps, readerOf(request, request.params.name), request.body.after)),
  )

  app.post(
    '/:name/seek',
    {
      config: { ...change, errors: ['CONSUMER_BUSY'] },
      schema: {
        operationId: 'seekConsumer',
        summary: 'Move the place of a consumer, to read again or to skip',
        params: ConsumerParams,
        querystring: ReaderQuery,
        body: SeekBody,
        response: { 200: ConsumerResponse },
      },
    },
    async (request) => {
      const { from, after } = request.body
      if ((from === undefined) === (after === undefined)) {
        throw invalid('from', { code: 'PLACE_OR_CURSOR' })
      }
      const place = from === undefined ? (after as FeedCursor) : placeFrom(from)
      const reader = readerOf(request, request.params.name)
      return viewConsumer(await seek(deps, reader, place, actorOf(deps, request)))
    },
  )
}

/** The place that a request names. */
export function placeFrom(from: string): Place {
  return from === 'beginning' || from === 'now' ? from : new Date(from)
}

function viewConsumer({ event_id, ...consumer }: ConsumerRow) {
  return { ...consumer, after: feedCursorText(cursorAt(consumer.position, event_id)) }
}

/** Which reader of a consumer asks. */
export function readerOf(request: FastifyRequest, name: string): Reader {
  const { reader } = request.query as { reader?: string | undefined }
  return { client: tenantOfRequest(request), name, reader: reader ?? request.ip }
}
