import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { permissionsOf } from '../../domain/permissions.ts'
import { AppError } from '../../errors/app-error.ts'
import { shopTimeZone } from '../../payments/closings/closings.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import type { Principal } from '../principal.ts'
import { setCookies } from '../session-cookie.ts'
import { SessionResponse, SignedOutResponse, SignInBody } from './session-schemas.ts'

/** A session in the form of the API. */
export async function viewSession(deps: PaymentDeps, principal: Principal, until: Date) {
  const { type, person } = principal
  const client = type === 'client' ? principal.client : null
  return {
    valid: true,
    type: type === 'operator' ? null : type,
    client,
    expires_at: until,
    time_zone: type === 'operator' ? null : await shopTimeZone(deps, client),
    person: person
      ? {
          id: person.id,
          name: person.name,
          role: person.role,
          stores: person.stores && [...person.stores],
        }
      : null,
    may: person ? permissionsOf(person) : null,
  }
}

/** Sign-in with a browser: the token is sent once, and a cookie that scripts cannot read replaces it. */
export const sessionRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  await app.register(signInRoute, { deps })
  await app.register(openSessionRoutes, { deps })
}

/** A session begins. */
const signInRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.post(
    '',
    {
      config: {
        signsIn: true,
        errors: ['UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED'],
      },
      schema: {
        operationId: 'signIn',
        summary: 'Begin a session of a browser',
        description:
          'Sets an HttpOnly, SameSite=Strict cookie for 12 hours, which replaces the token on requests of the service’s own pages. It ends by signing out, and with the key or the admin token it was made with; that of a person also after two hours without a request. A wrong name, a wrong password and a wrong code get one and the same answer; after five of a name from one address, right ones from there are refused too for a quarter of an hour. A browser in which the person has signed in before is known by a second cookie for half a year, and its tries are counted by themselves.',
        body: SignInBody,
        response: { 200: SessionResponse },
      },
    },
    async (request, reply) => {
      const { body } = request
      if ('name' in body) app.sessions.refuseForeignPage(request)
      const begun = await ('token' in body
        ? app.sessions.signIn(body.token, request)
        : app.sessions.signInPerson(body, request))
      if (!begun) {
        await app.countTry(request)
        throw new AppError('UNAUTHORIZED', {
          message: 'token' in body ? undefined : 'Name, password or code are wrong',
        })
      }
      // The session that the browser had before is over: a planted session does not go on.
      await app.sessions.signOut(request)
      setCookies(reply, begun.cookies)
      return viewSession(deps, begun.principal, begun.until)
    },
  )
}

/** The session that a browser has. */
const openSessionRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.get(
    '',
    {
      config: {},
      schema: {
        operationId: 'readSession',
        summary: 'Say whether the browser has a session and whose it is',
        response: { 200: SessionResponse },
      },
    },
    async (request) => {
      const session = await app.sessions.session(request)
      return session
        ? await viewSession(deps, session.principal, session.until)
        : {
            valid: false,
            type: null,
            client: null,
            expires_at: null,
            time_zone: null,
            person: null,
            may: null,
          }
    },
  )

  app.delete(
    '',
    {
      config: { errors: ['FORBIDDEN'] },
      schema: {
        operationId: 'signOut',
        summary: 'End the session of the browser; its cookie is worth nothing from then on',
        response: { 200: SignedOutResponse },
      },
    },
    async (request, reply) => {
      app.sessions.refuseForeignPage(request)
      // First, so that the browser deletes it even when the database fails.
      setCookies(reply, [app.sessions.signedOut()])
      await app.sessions.signOut(request)
      return { message: 'The session is over' }
    },
  )
}
