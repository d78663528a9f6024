import type { FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { z } from 'zod'
import { type FeedCursor, feedCursorText } from '../../domain/event-cursor.ts'
import { permissionsOf } from '../../domain/permissions.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import type { OpenRequests } from '../../http/open-request-limit.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { readAsConsumer } from '../../payments/events/consumers.ts'
import { type FeedPage, readFeed } from '../../payments/events/feed.ts'
import { viewEvent } from '../../payments/events/view-event.ts'
import { storesOfRequest } from '../store-access.ts'
import { openWait } from '../waits.ts'
import { readerOf } from './consumer-routes.ts'
import { FeedQuery, FeedResponse } from './feed-schemas.ts'

const description = `With \`consumer\` the place is kept here: read, process, commit with
\`POST /events/feed/consumers/{name}\`. Reading leaves the place, so after a crash the same events come again. One reader at a time has the
lease: 60 s from each read or commit; another one gets 409 with who and until when. This is the way for tills and ERPs behind a router.

Every event of the last 30 days, in an order that stays: read a page, process it, store \`next\` together with what
you made of it, and ask again with \`after\`. An empty list is the end for now.

No event is skipped, also none whose transaction was committed late. The events of one resource come in the order in which they happened.
After a crash the same events come again, with the same \`id\`.`

/** The feed of events, for programs. `waits` limits how many long-polls are open. */
export const feedRoutes: FastifyPluginAsyncZod<{
  deps: PaymentDeps
  waits: OpenRequests
}> = async (app, { deps, waits }) => {
  app.get(
    '',
    {
      config: {
        needs: 'see',
        within: 'list',
        allClients: true,
        errors: ['CURSOR_EXPIRED', 'CONSUMER_BUSY'],
      },
      schema: {
        operationId: 'readEventFeed',
        summary: 'Read what happened, event by event, without missing one',
        description,
        querystring: FeedQuery,
        response: { 200: FeedResponse },
      },
    },
    async (request, reply) => {
      const { wait, after, consumer, limit, types } = request.query
      const query = {
        stores: storesOfRequest(request),
        types,
        cajaId: request.query.caja_id,
        sucursalId: request.query.sucursal_id,
        limit,
      }
      const reader = consumer === undefined ? undefined : requireReader(request, consumer, after)
      const place = wait === undefined ? undefined : openWait(app, request, reply, waits)
      const waiting = place && {
        seconds: wait ?? 0,
        signal: place.signal,
        checkAccess: () => app.authentication.check(request),
      }
      try {
        const page = reader
          ? await readAsConsumer(deps, reader, query, waiting)
          : await readFeed(deps, { ...query, client: request.tenant ?? undefined, after }, waiting)
        return viewFeed(page)
      } finally {
        place?.end()
      }
    },
  )
}

/** The reader of a consumer. A lease stops other readers, so it is for programs, and for persons who set them up. */
function requireReader(request: FastifyRequest, consumer: string, after: FeedCursor | undefined) {
  const person = request.principal?.person
  if (person && (person.stores || !permissionsOf(person).includes('set_up'))) {
    throw new AppError('FORBIDDEN')
  }
  if (request.tenant === null) throw invalid('client', { code: 'CLIENT_REQUIRED' })
  if (after !== undefined) throw invalid('after', { code: 'CURSOR_AND_CONSUMER' })
  return readerOf(request, consumer)
}

/** A page of the feed in the form of the API. */
function viewFeed({ events, next, hasMore }: FeedPage): z.input<typeof FeedResponse> {
  return { events: events.map(viewEvent), next: feedCursorText(next), has_more: hasMore }
}
