import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { AppError } from '../../errors/app-error.ts'
import { wantsHtml } from '../../http/html.ts'
import { refuseHostileText } from '../../http/json-body.ts'
import { isFromOwnPage } from '../../http/same-origin.ts'
import { checkInvitation } from '../../payments/connection/invitations.ts'
import { startLogin } from '../../payments/connection/oauth-login.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { setBrowserToken } from './browser-cookie.ts'
import { failurePage, invitationPage, onTheWayPage } from './oauth-pages.ts'
import {
  AcceptInvitationBody,
  InvitationPage,
  InvitationQuery,
  LoginBegunPage,
  LoginBegunResponse,
} from './oauth-schemas.ts'

const html = 'text/html; charset=utf-8'

/**
 * The page of an invitation link. Messengers and mail filters open links to show or check them, so opening it changes nothing.
 * Its button starts the login, in the browser that pressed it. It is a form, since it must work without scripts.
 */
export const invitationRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  await app.register(acceptInvitationRoute, { deps })

  app.get(
    '/invitation',
    {
      config: {
        signsIn: true,
        errors: ['INVITATION_INVALID', 'OAUTH_ALREADY_CONNECTED'],
        errorPage: failurePage,
      },
      schema: {
        operationId: 'showInvitation',
        summary: 'The page of an invitation link; looking at it changes nothing',
        querystring: InvitationQuery,
        response: {
          200: {
            description: 'A page in the language of the browser, with the button that begins',
            content: { 'text/html': { schema: InvitationPage } },
          },
        },
      },
    },
    async (request, reply) => {
      await app.countTry(request)
      const { client, invitation, target_url } = request.query
      await checkInvitation(deps, client, invitation)
      // With referrers turned off a browser also hides the origin of the form, and over plain http nothing else shows it.
      return reply
        .header('referrer-policy', 'same-origin')
        .type(html)
        .send(invitationPage(request, { client, invitation, target_url }))
    },
  )
}

/** In a scope of its own: only here a form is accepted as a body. */
const acceptInvitationRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  const ownOrigin = new URL(deps.settings.publicUrl).origin
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    async (_request: unknown, text: string | Buffer) => {
      const fields = Object.fromEntries(new URLSearchParams(String(text)))
      refuseHostileText(fields, 'body')
      return fields
    },
  )
  app.post(
    '/invitation',
    {
      config: {
        signsIn: true,
        errors: ['INVITATION_INVALID', 'OAUTH_ALREADY_CONNECTED', 'API_KEY_REQUIRED'],
        errorPage: failurePage,
      },
      schema: {
        operationId: 'acceptInvitation',
        summary: 'Begin the login of an invitation, which is used up',
        description:
          'The button of the invitation’s page. Only that page may send it (`Sec-Fetch-Site` or `Origin`), so that another site cannot start a login. A browser gets a page that leads on to the provider.',
        consumes: ['application/x-www-form-urlencoded', 'application/json'],
        body: AcceptInvitationBody,
        response: {
          200: {
            description: 'The login began; a page for browsers, JSON otherwise',
            content: {
              'application/json': { schema: LoginBegunResponse },
              'text/html': { schema: LoginBegunPage },
            },
          },
        },
      },
    },
    async (request, reply) => {
      if (!isFromOwnPage(request.headers, { ownOrigin, isRead: false })) {
        throw new AppError('BAD_REQUEST', {
          message: 'Start an invitation with the button of its page',
        })
      }
      await app.countTry(request)
      const { client, invitation, target_url } = request.body
      const login = await startLogin(deps, {
        client,
        targetUrl: target_url,
        invitation,
        isAdmin: false,
      })
      if (ownOrigin.startsWith('https:')) {
        setBrowserToken(reply, login.browserToken)
      }
      if (wantsHtml(request)) return reply.type(html).send(onTheWayPage(request, login.redirectTo))
      return { message: 'Continue the login at the provider', url: login.redirectTo }
    },
  )
}
