import type { FastifyRequest } from 'fastify'
import { type Person, permissionsOf } from '../domain/permissions.ts'
import { controlError } from '../flows/control-errors.ts'
import { createFailureLimit } from '../http/auth-failure-limit.ts'
import { addressGroup } from '../http/connections.ts'
import type { HttpServer } from '../http/create-server.ts'
import type { KnownHosts } from '../http/known-hosts.ts'
import { isFromOwnPage } from '../http/same-origin.ts'
import { createRefusedSignIns } from '../payments/audit/refused-sign-ins.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { serviceActor } from '../payments/operations/request-context.ts'
import { signInPerson } from '../payments/people/sign-in.ts'
import { endSession, findSession } from '../payments/people/sign-in-session.ts'
import { mayUseCookie } from '../routes/session/browser-sessions.ts'
import { deviceCookie, knownDevice } from '../routes/session/device-cookie.ts'
import { endedCookie, sessionCookie, sessionSecretOf } from '../routes/session/session-cookie.ts'
import {
  FlowSessionResponse,
  PersonSignInBody,
  SignedOutResponse,
} from '../routes/session/session-schemas.ts'

const tags = ['Service']
const access = 'public' as const

type ControlSessions = {
  /** The person of the session that a page of this listener sent. */
  findPerson(request: FastifyRequest): Promise<Person | undefined>
  addRoutes(app: HttpServer): void
}

/**
 * Sessions of people on the control API. They are those of the payment API: where both listeners have one host, a browser is signed in
 * on both. There a session of a token has no rights here, and ends when a person signs in or out here. `publicUrl`: where operators reach the control API.
 */
export function createControlSessions(
  deps: PaymentDeps,
  publicUrl: string,
  knownHosts: KnownHosts,
  authFailuresPerMinute: number,
): ControlSessions {
  const ownOrigin = new URL(publicUrl).origin
  const isSecure = ownOrigin.startsWith('https:')
  const cookies = { encryption: deps.encryption, isSecure }
  const refuse = createRefusedSignIns(deps, 'control.refused')
  const secretOf = ({ headers }: FastifyRequest) => sessionSecretOf(headers.cookie, isSecure)
  const actorOf = (request: FastifyRequest) => ({
    ...serviceActor(deps.now()),
    ipAddress: request.arrivedFrom,
  })
  const openSession = async (request: FastifyRequest) => {
    const secret = mayUseCookie(request, ownOrigin) ? secretOf(request) : undefined
    const open = secret === undefined ? undefined : await findSession(deps, secret)
    return open?.person ? { person: open.person, until: open.expiresAt } : undefined
  }
  const end = async (request: FastifyRequest) => {
    const secret = secretOf(request)
    if (secret !== undefined) await endSession(deps, secret, actorOf(request))
  }
  const refuseForeignPage = ({ headers }: FastifyRequest) => {
    if (isFromOwnPage(headers, { ownOrigin, isRead: true })) return
    throw controlError('FORBIDDEN', { code: 'OTHER_SITE' })
  }
  const view = (person: Person, until: Date) => ({
    valid: true,
    person: { id: person.id, name: person.name, role: person.role },
    expires_at: until,
    may: permissionsOf(person),
  })

  return {
    findPerson: async (request) => (await openSession(request))?.person,
    addRoutes(app) {
      const countTry = createFailureLimit(app, authFailuresPerMinute)
      app.post(
        '/session',
        {
          config: { access, signsIn: true, errors: ['UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED'] },
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
          knownHosts.require(request)
          refuseForeignPage(request)
          const from = {
            actor: actorOf(request),
            group: addressGroup(request.arrivedFrom),
            userAgent: request.headers['user-agent'],
            device: knownDevice(request.headers.cookie, request.body.name, cookies),
          }
          const begun = await signInPerson(deps, request.body, from, refuse)
          if (!begun) {
            await countTry(request)
            throw controlError('UNAUTHORIZED', { code: 'SIGN_IN_WRONG' })
          }
          await end(request)
          const device = deviceCookie(request.headers.cookie, begun.person.name, cookies)
          reply.header('set-cookie', [sessionCookie(begun.secret, isSecure), device])
          return view(begun.person, begun.until)
        },
      )

      app.get(
        '/session',
        {
          config: { access },
          schema: {
            operationId: 'readSession',
            summary: 'Say whether the browser has a session and whose it is',
            tags,
            response: { 200: FlowSessionResponse },
          },
        },
        async (request) => {
          const open = await openSession(request)
          return open
            ? view(open.person, open.until)
            : { valid: false, person: null, expires_at: null, may: null }
        },
      )

      app.delete(
        '/session',
        {
          config: { access, errors: ['FORBIDDEN'] },
          schema: {
            operationId: 'signOut',
            summary: 'End the session of the browser',
            tags,
            response: { 200: SignedOutResponse },
          },
        },
        async (request, reply) => {
          refuseForeignPage(request)
          reply.header('set-cookie', endedCookie(isSecure))
          await end(request)
          return { message: 'The session is over' }
        },
      )
    },
  }
}
