import type { FastifyRequest } from 'fastify'
import type { HttpServer } from '../../http/create-server.ts'
import { refuseHostileText } from '../../http/json-body.ts'
import { single, type WebhookInbox } from '../../payments/webhooks/webhook-inbox.ts'
import { WebhookHeaders, WebhookQuery, WebhookResponse } from './webhook-schemas.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The content of the verified signature; set on the webhook route. */
    signedBy: ReturnType<WebhookInbox['verify']> | null
  }
}

/**
 * A scope of its own. The signature covers only headers and query, so it is checked before a body is read. Any body is accepted,
 * since it decides nothing.
 */
export function addWebhookRoutes(app: HttpServer, inbox: WebhookInbox): void {
  app.register(async (scope) => {
    scope.decorateRequest('signedBy', null)
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'string' }, (_request, text, done) =>
      done(null, readLoosely(String(text))),
    )
    scope.addHook('onRequest', async (request) => {
      const signed = signedParts(request)
      try {
        request.signedBy = inbox.verify(signed)
      } catch (error) {
        await inbox
          .reject({ ...signed, topic: single(query(request).type) })
          .catch((cause) => request.log.warn({ err: cause }, 'refused webhook not logged'))
        throw error
      }
    })
    // The type provider does not apply to a new scope by itself.
    ;(scope as unknown as HttpServer).post(
      '/webhooks',
      {
        config: { access: 'public', errors: ['UNAUTHORIZED'], mayComeLate: true },
        schema: {
          operationId: 'receiveWebhook',
          summary: 'Receiver of the provider’s webhooks',
          description:
            'Authenticated by the HMAC signature in x-signature. The delivery is stored, answered, and worked on afterwards.',
          querystring: WebhookQuery,
          headers: WebhookHeaders,
          response: { 200: WebhookResponse },
        },
      },
      async (request) => {
        if (request.signedBy === null) throw new Error('the signature was not checked')
        const delivery = {
          ...signedParts(request),
          topic: single(request.query.type),
          body: request.body,
        }
        await inbox.accept(delivery, request.signedBy)
        return { received: true }
      },
    )
  })
}

function query(request: FastifyRequest): Record<string, string | string[] | undefined> {
  return request.query as Record<string, string | string[] | undefined>
}

function signedParts(request: FastifyRequest) {
  return {
    xSignature: request.headers['x-signature'],
    xRequestId: request.headers['x-request-id'],
    dataId: query(request)['data.id'],
  }
}

/** The text as JSON that the log can store; otherwise nothing. */
function readLoosely(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    refuseHostileText(value, 'body')
    return value
  } catch {
    return undefined
  }
}
