import type { FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { refuseHostileText } from '../../http/json-body.ts'
import { single, type WebhookInbox } from '../../payments/webhooks/webhook-inbox.ts'

/** Repeated keys come as arrays; the signature check refuses them. */
const once = z.union([z.string(), z.array(z.string())]).optional()

const WebhookQuery = z.looseObject({
  'data.id': once.describe('Id of the resource; it is signed'),
  type: once.describe('Topic'),
})

const WebhookHeaders = z.looseObject({
  'x-signature': once.describe('`ts=<digits>,v1=<64 hexadecimal characters>`'),
  'x-request-id': once.describe('Id of the delivery; it is signed'),
})

const WebhookResponse = z
  .object({ received: z.boolean() })
  .meta({ id: 'WebhookReceived', example: { received: true } })

declare module 'fastify' {
  interface FastifyRequest {
    /** The content of the verified signature; set on the webhook route. */
    signedBy: ReturnType<WebhookInbox['verify']> | null
  }
}

/**
 * The signature covers only headers and query, so it is checked before a body is read. Any body is accepted,
 * since it decides nothing.
 */
export const webhookRoutes: FastifyPluginAsyncZod<{ inbox: WebhookInbox }> = async (
  app,
  { inbox },
) => {
  app.decorateRequest('signedBy', null)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'string' }, (_request, text, done) =>
    done(null, readLoosely(String(text))),
  )
  app.addHook('onRequest', async (request) => {
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
  app.post(
    '',
    {
      config: { errors: ['UNAUTHORIZED'], mayComeLate: true },
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
