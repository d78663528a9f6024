import { permissionsOf } from '../../domain/permissions.ts'
import { AppError } from '../../errors/app-error.ts'
import type { HttpServer } from '../../http/create-server.ts'
import { shopTimeZone } from '../../payments/closings/closings.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import type { Guards, Principal } from '../authentication.ts'
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
export function addSessionRoutes(app: HttpServer, deps: PaymentDeps, guards: Guards): void {
  app.post(
    '/session',
    {
      config: {
        access: 'public',
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
      if ('name' in body) guards.refuseForeignPage(request)
      const begun = await ('token' in body
        ? guards.signIn(body.token, request)
        : guards.signInPerson(body, request))
      if (!begun) {
        await guards.countTry(request)
        throw new AppError('UNAUTHORIZED', {
          message: 'token' in body ? undefined : 'Name, password or code are wrong',
        })
      }
      // The session that the browser had before is over: a planted session does not go on.
      await guards.signOut(request)
      return reply
        .header('set-cookie', begun.cookies)
        .send(await viewSession(deps, begun.principal, begun.until))
    },
  )

  app.get(
    '/session',
    {
      config: { access: 'public' },
      schema: {
        operationId: 'readSession',
        summary: 'Say whether the browser has a session and whose it is',
        response: { 200: SessionResponse },
      },
    },
    async (request) => {
      const session = await guards.session(request)
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
    '/session',
    {
      config: { access: 'public', errors: ['FORBIDDEN'] },
      schema: {
        operationId: 'signOut',
        summary: 'End the session of the browser; its cookie is worth nothing from then on',
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
