import { AppError } from '../../errors/app-error.ts'
import type { HttpServer } from '../../http/create-server.ts'
import { shopTimeZone } from '../../payments/closings/closings.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { iso } from '../field-schemas.ts'
import type { Guards, Principal } from '../guards.ts'
import { SessionResponse, SignedOutResponse, SignInBody } from './session-schemas.ts'

const tags = ['Session']

/** Sign-in with a browser: the token is sent once, and a cookie that scripts cannot read replaces it. */
export function addSessionRoutes(app: HttpServer, deps: PaymentDeps, guards: Guards): void {
  const view = async (principal: Principal, until: Date) => {
    const client = principal.type === 'client' ? principal.client : null
    return {
      valid: true,
      type: principal.type,
      client,
      expires_at: iso(until),
      time_zone: await shopTimeZone(deps, client),
    }
  }

  app.post(
    '/session',
    {
      config: { access: 'public', errors: ['UNAUTHORIZED', 'RATE_LIMITED'] },
      schema: {
        operationId: 'signIn',
        summary: 'Begin a session of a browser',
        description:
          'Sets an HttpOnly, SameSite=Strict cookie for 12 hours, which stands for the token on requests of the service’s own pages. It ends by signing out, and with the key or the admin token it was made with.',
        tags,
        body: SignInBody,
        response: { 200: SessionResponse },
      },
    },
    async (request, reply) => {
      const begun = await guards.signIn(request.body.token, request)
      if (!begun) {
        guards.countTry(request)
        throw new AppError('UNAUTHORIZED')
      }
      return reply.header('set-cookie', begun.cookie).send(await view(begun.principal, begun.until))
    },
  )

  app.get(
    '/session',
    {
      config: { access: 'public' },
      schema: {
        operationId: 'readSession',
        summary: 'Say whether the browser has a session and whose it is',
        tags,
        response: { 200: SessionResponse },
      },
    },
    async (request) => {
      const session = await guards.session(request)
      return session
        ? await view(session.principal, session.until)
        : { valid: false, type: null, client: null, expires_at: null, time_zone: null }
    },
  )

  app.delete(
    '/session',
    {
      config: { access: 'public', errors: ['FORBIDDEN'] },
      schema: {
        operationId: 'signOut',
        summary: 'End the session of the browser; its cookie is worth nothing from then on',
        tags,
        response: { 200: SignedOutResponse },
      },
    },
    async (request, reply) => {
      guards.refuseForeignPage(request)
      // First, so that the browser deletes it even when the database fails.
      reply.header('set-cookie', guards.signedOut())
      await guards.signOut(request)
      return { message: 'The session is over' }
    },
  )
}
