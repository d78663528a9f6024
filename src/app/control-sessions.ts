import type { FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { type Person, permissionsOf } from '../domain/permissions.ts'
import { controlError } from '../flows/control-errors.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { createSessionsOfBrowsers } from '../routes/browser-sessions.ts'
import {
  FlowSessionResponse,
  PersonSignInBody,
  SignedOutResponse,
} from '../routes/session/session-schemas.ts'
import { endedCookie, setCookies } from '../routes/session-cookie.ts'

const tags = ['Service']

type ControlSessions = {
  /** The person of the session that a page of this listener sent. */
  findPerson(request: FastifyRequest): Promise<Person | undefined>
  /** How people sign in and out; in a public scope. */
  routes: FastifyPluginAsyncZod
}

/**
 * Sessions of people on the control API. They are those of the payment API: where both listeners have one host, a browser is signed in
 * on both. There a session of a token has no rights here, and ends when a person signs in or out here. `publicUrl`: where operators reach the control API.
 */
export function createControlSessions(deps: PaymentDeps, publicUrl: string): ControlSessions {
  const sessions = createSessionsOfBrowsers(deps, {
    publicUrl,
    refused: 'control.refused',
    foreignPage: () => controlError('FORBIDDEN', { code: 'OTHER_SITE' }),
  })
  return {
    findPerson: async (request) => (await sessions.find(request))?.person ?? undefined,
    async routes(app) {
      await app.register(signInRoute, { sessions })
      await app.register(openSessionRoutes, { sessions })
    },
  }
}

type Sessions = ReturnType<typeof createSessionsOfBrowsers>

/** A session begins. */
const signInRoute: FastifyPluginAsyncZod<{ sessions: Sessions }> = async (app, { sessions }) => {
  app.post(
    '',
    {
      config: { signsIn: true, errors: ['UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED'] },
      schema: {
        operationId: 'signIn',
        summary: 'Begin a session of a person who runs flows',
        description:
          'With the name and the password of the dashboard. Sets an HttpOnly, SameSite=Strict cookie for 12 hours.',
        tags,
        body: PersonSignInBody,
        response: { 200: FlowSessionResponse },
      },
    },
    async (request, reply) => {
      sessions.refuseForeignPage(request)
      const begun = await sessions.signIn(request.body, request)
      if (!begun) {
        await app.countTry(request)
        throw controlError('UNAUTHORIZED', { code: 'SIGN_IN_WRONG' })
      }
      await sessions.end(request)
      setCookies(reply, sessions.cookiesOf(begun, request))
      return view(begun.person, begun.until)
    },
  )
}

/** The session that a browser has. */
const openSessionRoutes: FastifyPluginAsyncZod<{ sessions: Sessions }> = async (
  app,
  { sessions },
) => {
  app.get(
    '',
    {
      schema: {
        operationId: 'readSession',
        summary: 'Say whether the browser has a session and whose it is',
        tags,
        response: { 200: FlowSessionResponse },
      },
    },
    async (request) => {
      const open = await sessions.find(request)
      return open?.person
        ? view(open.person, open.expiresAt)
        : { valid: false, person: null, expires_at: null, may: null }
    },
  )

  app.delete(
    '',
    {
      config: { errors: ['FORBIDDEN'] },
      schema: {
        operationId: 'signOut',
        summary: 'End the session of the browser',
        tags,
        response: { 200: SignedOutResponse },
      },
    },
    async (request, reply) => {
      sessions.refuseForeignPage(request)
      setCookies(reply, [endedCookie(sessions.isSecure)])
      await sessions.end(request)
      return { message: 'The session is over' }
    },
  )
}

function view(person: Person, until: Date) {
  return {
    valid: true,
    person: { id: person.id, name: person.name, role: person.role },
    expires_at: until,
    may: permissionsOf(person),
  }
}
