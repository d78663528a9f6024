import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { uuidOfEvent } from '../../domain/event-id.ts'
import { invalid } from '../../errors/app-error.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import {
  pingEndpoint,
  requireEndpoint,
  resumeEndpoint,
  rotateSecret,
  skipWaiting,
  stopByPerson,
} from '../../payments/events/endpoints.ts'
import {
  countReplay,
  type Replayed,
  readSentEvent,
  replay,
} from '../../payments/events/replay-events.ts'
import { viewEvent } from '../../payments/events/view-event.ts'
import { actorOf } from '../../payments/request-context.ts'
import { listAttempts } from '../../repositories/events/event-attempts.ts'
import { spanOf } from '../field-schemas.ts'
import { cursorsOf, sequencePageOf } from '../list-cursor.ts'
import { endpointOf } from './endpoint-routes.ts'
import {
  AttemptsQuery,
  AttemptsResponse,
  EndpointParams,
  EndpointQuery,
  EndpointResponse,
  EndpointWithSecret,
  EventReplayResponse,
  PingResponse,
  ReplayBody,
  RotateBody,
  SentEventParams,
  SentEventResponse,
} from './endpoint-schemas.ts'
import { viewAttempt, viewEndpoint } from './endpoint-view.ts'

const change = { needs: 'set_up', within: 'all_stores' } as const
const read = { needs: 'see', within: 'all_stores' } as const

/** What a person or a program does with an endpoint. */
export const endpointActionRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.post(
    '/:id/rotate',
    {
      config: change,
      schema: {
        operationId: 'rotateEndpointSecret',
        summary: 'Give an endpoint a new secret',
        description:
          'For so long `webhook-signature` has two signatures, separated by a space: exchange the secret at the receiver meanwhile.',
        params: EndpointParams,
        querystring: EndpointQuery,
        body: RotateBody,
        response: { 200: EndpointWithSecret },
      },
    },
    async (request) => {
      const { endpoint, secret } = await rotateSecret(
        deps,
        endpointOf(request, request.params.id),
        request.body.overlap_seconds * 1_000,
        actorOf(deps, request),
      )
      return { ...viewEndpoint(endpoint), secret }
    },
  )

  for (const [name, { act, ...schema }] of Object.entries(acts)) {
    app.post(
      `/:id/${name}`,
      {
        config: { ...change, ...(name === 'resume' && { errors: ['CONFLICT'] }) },
        schema: {
          ...schema,
          params: EndpointParams,
          querystring: EndpointQuery,
          response: { 200: EndpointResponse },
        },
      },
      async (request) =>
        viewEndpoint(
          await act(deps, endpointOf(request, request.params.id), actorOf(deps, request)),
        ),
    )
  }

  app.post(
    '/:id/ping',
    {
      config: change,
      schema: {
        operationId: 'pingEndpoint',
        summary: 'Send a test message now, also to a stopped endpoint',
        description:
          'The message has the type `ping` and no event. It waits up to 15 s for the answer.',
        params: EndpointParams,
        querystring: EndpointQuery,
        response: { 200: PingResponse },
      },
    },
    async (request) => {
      const key = endpointOf(request, request.params.id)
      const { durationMs, isTaken, ...sent } = await pingEndpoint(deps, key, actorOf(deps, request))
      return { ...sent, duration_ms: durationMs, success: isTaken }
    },
  )
}

const acts = {
  resume: {
    operationId: 'resumeEndpoint',
    summary: 'Send to a stopped endpoint again',
    description:
      'It gets everything from the first event that it does not have; what failed begins its schedule again.',
    act: resumeEndpoint,
  },
  skip: {
    operationId: 'skipEndpointEvents',
    summary: 'Leave out what waits: the next event is the first one that is sent',
    description:
      '`waiting` of the endpoint says how many events that is. A stopped endpoint stays stopped.',
    act: skipWaiting,
  },
  stop: {
    operationId: 'stopEndpoint',
    summary: 'Stop sending to an endpoint until it is resumed',
    description: 'Events wait for 30 days.',
    act: stopByPerson,
  },
} as const

/** What an endpoint was sent. */
export const endpointAttemptRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.post(
    '/:id/replay',
    {
      config: change,
      schema: {
        operationId: 'replayEvents',
        summary: 'Send events again: one, those of a time, or all that failed',
        description:
          'They have the ids of before. `dry_run` only counts them. Those of a time are what the filter of the endpoint wants.',
        params: EndpointParams,
        querystring: EndpointQuery,
        body: ReplayBody,
        response: { 200: EventReplayResponse },
      },
    },
    async (request) => {
      const key = endpointOf(request, request.params.id)
      const { dry_run, ...body } = request.body
      const what = replayOf(body, deps.now())
      const events = dry_run
        ? await countReplay(deps, key, what)
        : await replay(deps, key, what, actorOf(deps, request))
      return { events, dry_run }
    },
  )

  app.get(
    '/:id/attempts',
    {
      ...app.forList,
      config: read,
      schema: {
        operationId: 'listEndpointAttempts',
        summary: 'What was sent to an endpoint and what it answered, newest first; for 7 days',
        params: EndpointParams,
        querystring: AttemptsQuery,
        response: { 200: AttemptsResponse },
      },
    },
    async (request) => {
      const key = endpointOf(request, request.params.id)
      await requireEndpoint(deps, key)
      const { event_id: id, outcome } = request.query
      const filter = { eventId: id && uuidOfEvent(id), outcome }
      const page = await listAttempts(deps.database.db, key, filter, sequencePageOf(request.query))
      return {
        attempts: page.rows.map(viewAttempt),
        total: page.total,
        ...cursorsOf(page, ({ seq }) => String(seq)),
      }
    },
  )

  app.get(
    '/:id/events/:event_id',
    {
      config: read,
      schema: {
        operationId: 'readSentEvent',
        summary: 'An event that an endpoint was sent, with its last attempts',
        params: SentEventParams,
        querystring: EndpointQuery,
        response: { 200: SentEventResponse },
      },
    },
    async (request) => {
      const { id, event_id: eventId } = request.params
      const { event, attempts } = await readSentEvent(deps, endpointOf(request, id), eventId)
      return { event: viewEvent(event), attempts: attempts.map(viewAttempt) }
    },
  )
}

type ReplayRequest = {
  event_id?: string | undefined
  from?: string | undefined
  to?: string | undefined
  failed?: true | undefined
}

/** @throws VALIDATION_ERROR unless it names exactly one thing */
function replayOf({ event_id: eventId, from, to, failed }: ReplayRequest, now: Date): Replayed {
  const named = [eventId, from, failed].filter((one) => one !== undefined)
  if (named.length !== 1 || (to !== undefined && from === undefined)) {
    throw invalid('event_id', { code: 'REPLAY_WHICH' })
  }
  if (eventId !== undefined) return { eventId }
  if (from === undefined) return 'failed'
  return spanOf({ from, to }, now)
}
