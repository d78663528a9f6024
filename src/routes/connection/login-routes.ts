import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { wantsHtml } from '../../http/html.ts'
import { finishLogin, startLogin } from '../../payments/connection/oauth-login.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import { browserTokenOf, setBrowserToken } from './browser-cookie.ts'
import { invitationRoutes } from './invitation-routes.ts'
import { connectedPage, failurePage } from './oauth-pages.ts'
import {
  CallbackQuery,
  CallbackResponse,
  ConnectedPage,
  LoginBegunResponse,
  LoginQuery,
  ValidateResponse,
} from './oauth-schemas.ts'

/** A response without a body. An empty `content` instead would break the description of the whole API. */
function redirectTo(place: string) {
  return z.null().describe(`Redirect to ${place}`)
}

/** How a client is connected to its provider account, by a browser. */
export const loginRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  await app.register(invitationRoutes, { deps })
  await app.register(beginningRoute, { deps })
  await app.register(callbackRoute, { deps })
  await app.register(validationRoute)
}

/** A login begins: the browser goes to the provider. */
const beginningRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '/login',
    {
      config: {
        signsIn: true,
        errors: ['OAUTH_ALREADY_CONNECTED', 'API_KEY_REQUIRED', 'FORBIDDEN', 'RATE_LIMITED'],
        errorPage: failurePage,
      },
      schema: {
        operationId: 'startLogin',
        summary: 'Connect the provider account of a client',
        description:
          'Stores a state and a PKCE verifier and sends the browser to the provider. Allowed for a client with an active key and no valid token, and for a first connection (in invite mode only with an invitation link or the admin token). A client whose account was released needs an invitation or the admin token too. With an invitation the browser is sent to its page, which begins. Over https the browser that begins gets a cookie that it must bring back. On a failure, a browser gets a page in its language.',
        querystring: LoginQuery,
        response: {
          200: LoginBegunResponse,
          302: redirectTo('the provider, or to the page of the invitation'),
        },
      },
    },
    async (request, reply) => {
      const principal = await app.identify(request)
      if (principal?.type !== 'admin') await app.countTry(request)
      const { client, target_url, invitation, redirect } = request.query
      const leadTo = (url: string) =>
        redirect === 'false'
          ? reply.send({ message: 'Open the address in this browser', url })
          : reply.redirect(url, 302)
      if (invitation !== undefined) {
        // A link from before invitations had their page. A GET must not use up an invitation.
        const query = new URLSearchParams({ client, invitation, ...(target_url && { target_url }) })
        return leadTo(`${deps.settings.publicUrl}/oauth/invitation?${query}`)
      }
      const login = await startLogin(deps, {
        client,
        targetUrl: target_url,
        isAdmin: principal?.type === 'admin',
      })
      if (isSecure(deps)) setBrowserToken(reply, login.browserToken)
      return leadTo(login.redirectTo)
    },
  )
}

/** A login ends: the provider sends the browser back. */
const callbackRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '/callback',
    {
      config: {
        errors: [
          'OAUTH_STATE_INVALID',
          'OAUTH_DENIED',
          'ACCOUNT_MISMATCH',
          'FORBIDDEN',
          'PROVIDER_REJECTED',
          'PROVIDER_ERROR',
          'PROVIDER_TIMEOUT',
        ],
        errorPage: failurePage,
      },
      schema: {
        operationId: 'finishLogin',
        summary: 'Return address for the provider; not for manual calls',
        description:
          'Exchanges the code for tokens and stores them. A browser (`Accept: text/html`) gets a page in its language, whether it worked or not; the status is the same. Over https the browser must be the one that began. An `iss` that is not the provider is refused.',
        querystring: CallbackQuery,
        response: {
          200: {
            description: 'Connected; a page for browsers, JSON otherwise',
            content: {
              'application/json': { schema: CallbackResponse },
              'text/html': { schema: ConnectedPage },
            },
          },
          302: redirectTo('target_url, once connected'),
        },
      },
    },
    async (request, reply) => {
      const { code, state, error, iss } = request.query
      const finished = await finishLogin(
        deps,
        {
          code,
          state,
          denied: error !== undefined,
          issuer: iss,
          browserToken: isSecure(deps) ? browserTokenOf(request) : undefined,
        },
        actorOf(deps, request),
      )
      if (finished.targetUrl !== null) return reply.redirect(finished.targetUrl, 302)
      if (wantsHtml(request)) {
        return reply.type('text/html; charset=utf-8').send(connectedPage(request, finished.client))
      }
      return { message: 'The account is connected', client: finished.client }
    },
  )
}

/** Whose a token is. */
const validationRoute: FastifyPluginAsyncZod = async (app) => {
  app.get(
    '/validate',
    {
      config: { errors: ['RATE_LIMITED'] },
      schema: {
        operationId: 'validateToken',
        summary: 'Say whether the x-api-token is valid and whose it is',
        response: { 200: ValidateResponse },
      },
    },
    async (request) => {
      const principal = await app.identify(request)
      if (!principal || principal.type === 'operator') {
        if (!principal) await app.countTry(request)
        return { valid: false, type: null, client: null }
      }
      return {
        valid: true,
        type: principal.type,
        client: principal.type === 'client' ? principal.client : null,
      }
    },
  )
}

function isSecure({ settings }: PaymentDeps): boolean {
  return settings.publicUrl.startsWith('https:')
}
