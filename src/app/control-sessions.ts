import type { FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { type Person, permissionsOf } from '../domain/permissions.ts'
import { controlError } from '../flows/control-errors.ts'
import { addressGroup } from '../http/connections.ts'
import { isFromOwnPage } from '../http/same-origin.ts'
import { createRefusedSignIns } from '../payments/audit/refused-sign-ins.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { signInPerson } from '../payments/people/sign-in.ts'
import { endSession, findSession } from '../payments/people/sign-in-session.ts'
import { serviceActor } from '../payments/request-context.ts'
import { mayUseCookie } from '../routes/browser-sessions.ts'
import { deviceCookie, knownDevice } from '../routes/device-cookie.ts'
import {
  FlowSessionResponse,
  PersonSignInBody,
  SignedOutResponse,
} from '../routes/session/session-schemas.ts'
import {
  endedCookie,
  sessionCookie,
  sessionSecretOf,
  setCookies,
} from '../routes/session-cookie.ts'

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
  const sessions = createSessions(deps, publicUrl)
  return {
    findPerson: async (request) => (await sessions.find(request))?.person,
    async routes(app) {
      await app.register(signInRoute, { deps, sessions })
      await app.register(openSessionRoutes, { sessions })
    },
  }
}

type Sessions = ReturnType<typeof createSessions>

function createSessions(deps: PaymentDeps, publicUrl: string) {
  const ownOrigin = new URL(publicUrl).origin
  const isSecure = ownOrigin.startsWith('https:')
  const secretOf = (request: FastifyRequest) => sessionSecretOf(request, isSecure)
  const actorOf = (request: FastifyRequest) => ({
    ...serviceActor(deps.now()),
    ipAddress: request.arrivedFrom,
  })
  return {
    cookies: { encryption: deps.encryption, isSecure },
    actorOf,
    /** The session that the browser has here. */
    async find(request: FastifyRequest) {
      const secret = mayUseCookie(request, ownOrigin) ? secretOf(request) : undefined
      const open = secret === undefined ? undefined : await findSession(deps, secret)
      return open?.person ? { person: open.person, until: open.expiresAt } : undefined
    },
    /** Ends it, in every process. */
    async end(request: FastifyRequest): Promise<void> {
      const secret = secretOf(request)
      if (secret !== undefined) await endSession(deps, secret, actorOf(request))
    },
    refuseForeignPage({ headers }: FastifyRequest): void {
      if (isFromOwnPage(headers, { ownOrigin, isRead: true })) return
      throw controlError('FORBIDDEN', { code: 'OTHER_SITE' })
    },
  }
}

/** A session begins. */
const signInRoute: FastifyPluginAsyncZod<{ deps: PaymentDeps; sessions: Sessions }> = async (
  app,
  { deps, sessions },
) => {
  const { cookies } = sessions
  const refuse = createRefusedSignIns(deps, 'control.refused')
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
      const from = {
        actor: sessions.actorOf(request),
        group: addressGroup(request.arrivedFrom),
        userAgent: request.headers['user-agent'],
        device: knownDevice(request, request.body.name, cookies),
      }
      const begun = await signInPerson(deps, request.body, from, refuse)
      if (!begun) {
        await app.countTry(request)
        throw controlError('UNAUTHORIZED', { code: 'SIGN_IN_WRONG' })
      }
      await sessions.end(request)
      setCookies(reply, [
        sessionCookie(begun.secret, cookies.isSecure),
        deviceCookie(request, begun.person.name, cookies),
      ])
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
      return open
        ? view(open.person, open.until)
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
      setCookies(reply, [endedCookie(sessions.cookies.isSecure)])
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
