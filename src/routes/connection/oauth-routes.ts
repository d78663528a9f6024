import { z } from 'zod'
import { snakeCased } from '../../domain/field-names.ts'
import type { HttpServer } from '../../http/create-server.ts'
import { wantsHtml } from '../../http/html.ts'
import {
  connectionStatus,
  logout,
  refreshConnection,
} from '../../payments/connection/connected-account.ts'
import { finishLogin, startLogin } from '../../payments/connection/oauth-login.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/operations/request-context.ts'
import { type Guards, providerErrors, tenantOfRequest } from '../authentication.ts'
import { browserTokenCookie, browserTokenOf } from './browser-cookie.ts'
import { addInvitationRoutes } from './invitation-routes.ts'
import { connectedPage, failurePage } from './oauth-pages.ts'
import {
  CallbackQuery,
  CallbackResponse,
  ConnectedPage,
  LoginBegunResponse,
  LoginQuery,
  MessageResponse,
  RefreshResponse,
  StatusResponse,
  ValidateResponse,
} from './oauth-schemas.ts'

/** A response without a body. An empty `content` instead would break the description of the whole API. */
function redirectTo(place: string) {
  return z.null().describe(`Redirect to ${place}`)
}

export function addOauthRoutes(app: HttpServer, deps: PaymentDeps, guards: Guards): void {
  const isSecure = deps.settings.publicUrl.startsWith('https:')

  app.get(
    '/oauth/login',
    {
      config: {
        access: 'public',
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
      const principal = await guards.identify(request)
      if (principal?.type !== 'admin') await guards.countTry(request)
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
      if (isSecure) reply.header('set-cookie', browserTokenCookie(login.browserToken))
      return leadTo(login.redirectTo)
    },
  )

  addInvitationRoutes(app, deps, guards)

  app.get(
    '/oauth/callback',
    {
      config: {
        access: 'public',
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
          browserToken: isSecure ? browserTokenOf(request.headers.cookie) : undefined,
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

  app.get(
    '/oauth/validate',
    {
      config: { access: 'public', errors: ['RATE_LIMITED'] },
      schema: {
        operationId: 'validateToken',
        summary: 'Say whether the x-api-token is valid and whose it is',
        response: { 200: ValidateResponse },
      },
    },
    async (request) => {
      const principal = await guards.identify(request)
      if (!principal || principal.type === 'operator') {
        if (!principal) await guards.countTry(request)
        return { valid: false, type: null, client: null }
      }
      return {
        valid: true,
        type: principal.type,
        client: principal.type === 'client' ? principal.client : null,
      }
    },
  )

  app.get(
    '/oauth/status',
    {
      config: { access: 'client' },
      schema: {
        operationId: 'readConnection',
        summary: 'State of the client’s connection',
        response: { 200: StatusResponse },
      },
    },
    async (request) => snakeCased(await connectionStatus(deps, tenantOfRequest(request))),
  )

  app.post(
    '/oauth/refresh',
    {
      config: {
        access: 'client',
        errors: [...providerErrors, 'CONFLICT'],
      },
      schema: {
        operationId: 'refreshConnection',
        summary: 'Renew the tokens now',
        response: { 200: RefreshResponse },
      },
    },
    async (request) => {
      const client = tenantOfRequest(request)
      const { expiresAt } = await refreshConnection(deps, client, actorOf(deps, request))
      return { message: 'The tokens were renewed', clientName: client, expiresAt: expiresAt }
    },
  )

  app.post(
    '/oauth/logout',
    {
      config: { access: 'client', errors: ['OAUTH_NOT_CONNECTED'] },
      schema: {
        operationId: 'logout',
        summary: 'Delete the client’s tokens',
        description: 'This cannot be undone. The owner of the account must connect it again.',
        response: { 200: MessageResponse },
      },
    },
    async (request) => {
      await logout(deps, tenantOfRequest(request), actorOf(deps, request))
      return { message: 'The connection was removed' }
    },
  )
}
