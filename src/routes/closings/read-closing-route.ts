import type { FastifyReply, FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { z } from 'zod'
import type { OpenRequests } from '../../http/open-request-limit.ts'
import { readClosing } from '../../payments/closings/closings.ts'
import { waitForResult } from '../../payments/closings/wait-for-result.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { preferredLanguage } from '../../texts/language.ts'
import { tenantOfRequest } from '../authentication.ts'
import { openWait } from '../waits.ts'
import { ClosingParams, ClosingResponse, ReadClosingQuery } from './closing-schemas.ts'
import { viewWholeClosing } from './closing-view.ts'

type Request = FastifyRequest<{
  Params: z.infer<typeof ClosingParams>
  Querystring: z.infer<typeof ReadClosingQuery>
}>

/** One closing with what differs; a till waits for its result. `waits` limits how many may wait. */
export const readClosingRoute: FastifyPluginAsyncZod<{
  deps: PaymentDeps
  waits: OpenRequests
}> = async (app, { deps, waits }) => {
  /** Before the turn of the read: a wait takes none from the lists of the client. */
  const waitFirst = async (request: Request, reply: FastifyReply) => {
    const { wait: seconds } = request.query
    const place = seconds === undefined ? undefined : openWait(app, request, reply, waits)
    if (seconds === undefined || !place) return
    try {
      await waitForResult(deps, tenantOfRequest(request), request.params.closingId, {
        ...{ seconds, signal: place.signal },
        checkAccess: () => app.authentication.check(request),
      })
    } finally {
      place.end()
    }
  }
  app.get(
    '/:closingId',
    {
      ...app.forList,
      preHandler: [waitFirst, app.forList.preHandler],
      config: { needs: 'see', within: 'closing' },
      schema: {
        operationId: 'readClosing',
        summary: 'A closing with what differs, and its amendments',
        description:
          'With `wait` the answer is held until the closing has a result. The limits of waiting requests are those of `GET /orders/{orderId}`.',
        params: ClosingParams,
        querystring: ReadClosingQuery,
        response: { 200: ClosingResponse },
      },
    },
    async (request) => wholeOf(deps, request, request.params.closingId),
  )
}

/** A closing with its lines and amendments. */
export async function wholeOf(deps: PaymentDeps, request: FastifyRequest, id: string) {
  const { closing, amendments } = await readClosing(deps, tenantOfRequest(request), id)
  const language = preferredLanguage(request.headers['accept-language'])
  return viewWholeClosing(closing, amendments, language)
}
