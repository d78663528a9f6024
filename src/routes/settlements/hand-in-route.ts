import type { FastifyRequest, preParsingHookHandler } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { AppError } from '../../errors/app-error.ts'
import { refuseHostileText } from '../../http/json-body.ts'
import { limitOpenRequests, type OpenRequestLimits } from '../../http/open-request-limit.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import { reportLimitBytes, uploadReport } from '../../payments/settlements/upload-report.ts'
import { tenantOfRequest } from '../authentication.ts'
import { HandInBody, HandInQuery, HandInResponse } from './settlement-schemas.ts'
import { viewFile } from './settlement-view.ts'

/** A report of 8 MiB takes some 400 MB while it is read. */
const uploads = { perOwner: 1, total: 2 }
const comeAgainSeconds = 5

/**
 * Counts uploads before their bodies are read. A place is released when the work is done, or when the client disconnects before
 * it began. So a client cannot start another upload beside its own by disconnecting.
 */
function limitUploads() {
  const openRequests = limitOpenRequests(uploads)
  const waiting = new WeakMap<FastifyRequest, () => void>()
  const preParsing: preParsingHookHandler = (request, reply, payload, done) => {
    const place = openRequests.take(tenantOfRequest(request))
    if (typeof place !== 'function') {
      done(tooManyOpen(place))
      return
    }
    waiting.set(request, place)
    reply.raw.once('close', () => waiting.get(request)?.())
    done(null, payload)
  }
  const during = async <T>(request: FastifyRequest, work: () => Promise<T>): Promise<T> => {
    const release = waiting.get(request)
    waiting.delete(request)
    try {
      return await work()
    } finally {
      release?.()
    }
  }
  return { preParsing, during }
}

function tooManyOpen(limit: keyof OpenRequestLimits): AppError {
  const extra = { retryAfterSeconds: comeAgainSeconds }
  return limit === 'perOwner'
    ? new AppError('RATE_LIMITED', {
        message: 'Another report of this client is being imported; send this one when it is done',
        extra,
      })
    : new AppError('SERVICE_UNAVAILABLE', {
        message: 'Other reports are being imported; send this one again',
        extra,
      })
}

/** In a scope of its own: only here a raw file is accepted as a body. */
export const handInRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  const utf8 = new TextDecoder('utf-8', { fatal: true })
  app.addContentTypeParser(
    'text/csv',
    { parseAs: 'buffer', bodyLimit: reportLimitBytes },
    (_request, bytes, done) => {
      try {
        const body = { content: utf8.decode(bytes as Buffer) }
        refuseHostileText(body, 'body')
        done(null, body)
      } catch (cause) {
        const message = 'The file is not valid UTF-8'
        done(
          cause instanceof AppError ? cause : new AppError('BAD_REQUEST', { message, cause }),
          undefined,
        )
      }
    },
  )
  const { preParsing, during } = limitUploads()
  app.post(
    '/files',
    {
      config: { needs: 'set_up', within: 'all_stores' },
      preParsing,
      schema: {
        operationId: 'handInSettlementFile',
        summary: 'Import a settlement or release report of the provider',
        description:
          'This cannot be undone. The CSV file, as `text/csv` (up to 8 MiB) or as `content` of a JSON body. The service detects the separator, the decimal comma and lists of taxes without quotes. It imports each movement once, whichever reports have it; the same file again adds nothing. A file with an error is refused whole, with the line of the error. It imports one report of a client at a time, and two in all: another one gets 429 or 503, with `Retry-After`.',
        querystring: HandInQuery,
        body: HandInBody,
        response: { 200: HandInResponse },
      },
    },
    async (request) => {
      const { name = null, zone } = request.query
      const given = { text: request.body.content, name, zone }
      const { file, rows, added, changed, withoutOrder } = await during(request, () =>
        uploadReport(deps, tenantOfRequest(request), given, actorOf(deps, request)),
      )
      return {
        message: added > 0 ? 'The report is imported' : 'Everything in the report was known',
        ...viewFile(file),
        added,
        changed,
        known: rows - added - changed,
        without_order: withoutOrder,
      }
    },
  )
}
